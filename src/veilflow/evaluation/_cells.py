"""Cells of a table as measures need them: numbers with gaps, and small whole numbers for the rest.

A missing cell is never filled in silently: among codes it has one of its own.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, Integer

from veilflow.tabular.columns import (
    Boolean,
    Categorical,
    Column,
    Datetime,
    Numeric,
    OpenCategorical,
    Ordinal,
)
from veilflow.tabular.schema import Schema

if TYPE_CHECKING:
    import pandas as pd

MISSING = 0
"""The code of a missing cell, in every column."""

Codes = Integer[np.ndarray, " rows"]
Numbers = Float[np.ndarray, " rows"]


def check_frames(schema: Schema, **frames: "pd.DataFrame") -> None:
    """Raise unless every named frame has rows, and all columns of the schema.

    Raises:
        ValueError: The message names the argument and the column, never a cell.
    """
    for name, frame in frames.items():
        if not len(frame):
            raise ValueError(f"{name} must have at least one row, got none.")
        columns = list(frame.columns)
        for column in schema.names:
            if columns.count(column) != 1:
                count = "no" if column not in columns else "more than one"
                raise ValueError(
                    f"{name} must have each column of the schema once, got {count} {column!r}."
                )


def subsample(frame: "pd.DataFrame", max_rows: int, *, seed: int) -> "pd.DataFrame":
    """At most `max_rows` rows, in their order: all there are, or the same draw for the same seed."""
    if len(frame) <= max_rows:
        return frame
    chosen = np.random.default_rng(seed).choice(len(frame), max_rows, replace=False)
    found: Any = frame.iloc[np.sort(chosen)]
    return found


def number_columns(schema: Schema) -> tuple[str, ...]:
    """The columns that lie on a line: numbers and moments."""
    return tuple(name for name, column in schema.columns.items() if column.has_position)


def numbers(frame: "pd.DataFrame", name: str, column: Column) -> Numbers:
    """A column of numbers (moments: seconds), NaN where missing, clamped as its schema says."""
    cells: Any = frame[name]
    try:
        values = _seconds(cells) if isinstance(column, Datetime) else _plain(cells)
    except (TypeError, ValueError, OverflowError):  # pandas would show the cell
        kind = "moments" if isinstance(column, Datetime) else "numbers"
        raise ValueError(
            f"column {name!r} is {column.kind} in the schema and must hold {kind} only."
        ) from None
    low, high = _range(column)
    if low is not None:
        values = values.clip(low, high)
    return np.where(np.isfinite(values), values, np.nan)


def code(
    frame: "pd.DataFrame", name: str, column: Column, *, bins: int, values: Sequence[Any]
) -> Codes:
    """A column as codes: `MISSING`, then one for each bin or value, then one for all other values.

    Args:
        frame: Rows.
        name: Of the column.
        column: Its declaration.
        bins: Equal bins of the declared range, for numbers and moments.
        values: For other columns, as `listed` gives them.
    """
    if column.has_position:
        low, high = _range(column)
        if low is None:
            raise ValueError(
                f"column {name!r} has no bounds. Declare them, or give the schema of the fitted "
                "model, which has those that were paid for."
            )
        found = numbers(frame, name, column)
        width = (high - low) or 1.0
        places = np.where(np.isnan(found), -1.0, ((found - low) / width * bins).clip(0, bins - 1))
        return _small(places.astype(np.int64) + 1, bins + 1)
    cells: Any = frame[name]
    codes = np.where(cells.isna().to_numpy(), MISSING, 1 + _places(cells, values))
    return _small(codes, len(values) + 1)


def num_codes(column: Column, *, bins: int, values: Sequence[Any]) -> int:
    """How many codes `code` may give."""
    return bins + 1 if column.has_position else len(values) + 2


def listed(name: str, column: Column, *frames: "pd.DataFrame") -> tuple[Any, ...]:
    """The values of a column in the order of their codes; of an open list, those in the frames."""
    import pandas as pd

    if isinstance(column, Categorical | Ordinal):
        return tuple(column.values)
    if isinstance(column, Boolean):
        return (False, True)
    if isinstance(column, OpenCategorical):
        cells: Any = pd.concat([frame[name].dropna().astype(object) for frame in frames])
        return tuple(sorted(set(cells.unique()), key=str))
    return ()


def check_listed(what: str, name: str, codes: Codes, values: Sequence[Any]) -> None:
    """Raise if a column of real rows has values that its schema does not list.

    Synthetic rows may: that is a fault of theirs which measures show.
    """
    if values and (codes > len(values)).any():
        raise ValueError(
            f"column {name!r} of {what} has values that are not in the schema, or of another type "
            "(text and numbers are told apart). Declare all of them."
        )


def _places(cells: Any, values: Sequence[Any]) -> Codes:
    """The place of each cell in a list; the length of the list for those that are not in it."""
    import pandas as pd

    if values and isinstance(values[0], bool):
        # as objects, 0 and 1 equal truth values, whatever type they are stored in
        known, cells = pd.Index(values, dtype=object), cells.astype(object)
    else:
        known = pd.Index(values)
    if isinstance(cells.dtype, pd.CategoricalDtype):
        # a few categories are looked up instead of all cells; a gap takes the place appended last
        places = np.append(known.get_indexer(cells.cat.categories), -1)[cells.cat.codes]
    else:
        places = known.get_indexer(pd.Index(cells))
    return np.where(places < 0, len(values), places)


def _range(column: Column) -> tuple[Any, Any]:
    from veilflow.tabular.facts import EPOCH

    if isinstance(column, Datetime):
        return (column.start - EPOCH).total_seconds(), (column.end - EPOCH).total_seconds()
    return (column.low, column.high) if isinstance(column, Numeric) else (None, None)


def _plain(cells: Any) -> Numbers:
    import pandas as pd

    found: Any = pd.to_numeric(cells)
    return found.to_numpy(dtype=np.float64, na_value=np.nan)


def _seconds(cells: Any) -> Numbers:
    """Moments as seconds since 1970; those with a time zone are taken in UTC, as the schema does."""
    import pandas as pd

    moments: Any = pd.to_datetime(cells, utc=True)
    moments = moments.dt.tz_localize(None).astype("datetime64[us]")
    seconds = moments.astype(np.int64).to_numpy() / 1e6
    return np.where(moments.isna().to_numpy(), np.nan, seconds)


def _small(codes: np.ndarray, largest: int) -> Codes:
    """In the smallest type that holds the codes: a million rows of 42 columns are 42 MB."""
    return codes.astype(np.min_scalar_type(largest))
