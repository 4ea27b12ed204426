"""Cells of a table as measures need them: numbers with gaps, and small whole numbers for the rest.

They are read as a fit reads them (`tabular/cells.py`). A missing cell is never filled in silently:
among codes it has one of its own.
"""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, Integer

from veilflow.tabular.cells import Cells, read_column, say_nothing, texts
from veilflow.tabular.columns import (
    Boolean,
    Categorical,
    Column,
    Datetime,
    Numeric,
    OpenCategorical,
    Ordinal,
)
from veilflow.tabular.facts import EPOCH
from veilflow.tabular.frames import open_table
from veilflow.tabular.schema import Schema
from veilflow.tabular.words import WrongType

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
    found = _read(frame, name, column)
    if found.unreadable.any():
        raise _unfit(name, column)
    scale = 1e6 if isinstance(column, Datetime) else 1.0
    values = np.where(found.missing, np.nan, found.values / scale)
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
    found = _read(frame, name, column, values)
    places = np.where(found.unreadable, len(values), found.values)
    return _small(np.where(found.missing, MISSING, 1 + places), len(values) + 1)


def num_codes(column: Column, *, bins: int, values: Sequence[Any]) -> int:
    """How many codes `code` may give."""
    return bins + 1 if column.has_position else len(values) + 2


def listed(name: str, column: Column, *frames: "pd.DataFrame") -> tuple[Any, ...]:
    """The values of a column in the order of their codes; of an open list, those in the frames."""
    if isinstance(column, Categorical | Ordinal):
        return tuple(column.values)
    if isinstance(column, Boolean):
        return (False, True)
    if isinstance(column, OpenCategorical):
        return tuple(sorted(set().union(*(tally(frame, name) for frame in frames))))
    return ()


def tally(frame: "pd.DataFrame", name: str) -> Counter[str]:
    """How often each text occurs in a column; gaps are none."""
    try:
        words, places = texts(_array(frame, name))
    except WrongType:
        raise ValueError(f"column {name!r} must hold single values only.") from None
    times = np.bincount(places[places >= 0], minlength=len(words))
    times[say_nothing(words)] = 0
    found: Counter[str] = Counter()
    for word, count in zip(words.to_pylist(), times.tolist(), strict=True):
        if count:  # a category may have no cell; words that differ by spaces are one
            found[word] += count
    return found


def check_listed(what: str, name: str, codes: Codes, values: Sequence[Any]) -> None:
    """Raise if a column of real rows has values that its schema does not list.

    Synthetic rows may: that is a fault of theirs which measures show.
    """
    if values and (codes > len(values)).any():
        raise ValueError(
            f"column {name!r} of {what} has values that are not in the schema. Declare all of them."
        )


def _read(frame: "pd.DataFrame", name: str, column: Column, values: Sequence[Any] = ()) -> Cells:
    """The cells of a column; those of lists as places in `values`."""
    return read_column(name, column, _array(frame, name), vocabulary=values, invalid="replace")


def _array(frame: "pd.DataFrame", name: str) -> Any:
    """The cells of a column as pyarrow has them."""
    alone: Any = frame[[name]]
    return next(open_table(alone, chunk=max(1, len(alone))).blocks)(0)


def _unfit(name: str, column: Column) -> ValueError:
    kind = {"numeric": "numbers", "datetime": "moments"}.get(column.kind, "single values")
    return ValueError(f"column {name!r} is {column.kind} in the schema and must hold {kind} only.")


def _range(column: Column) -> tuple[Any, Any]:
    if isinstance(column, Datetime):
        return (column.start - EPOCH).total_seconds(), (column.end - EPOCH).total_seconds()
    return (column.low, column.high) if isinstance(column, Numeric) else (None, None)


def _small(codes: np.ndarray, largest: int) -> Codes:
    """In the smallest type that holds the codes: a million rows of 42 columns are 42 MB."""
    return codes.astype(np.min_scalar_type(largest))
