"""Cells of a table as measures need them: numbers with gaps, small codes, and features.

They are read as a fit reads them (`tabular/cells.py`). A missing cell is never filled in silently: it
has a code, or a feature, of its own.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, Integer

from veilflow.tabular.cells import Cells, read_column, say_nothing, texts
from veilflow.tabular.columns import Boolean, Column, Datetime, Listed, Numeric, OpenCategorical
from veilflow.tabular.facts import EPOCH
from veilflow.tabular.frames import open_table
from veilflow.tabular.schema import Schema
from veilflow.tabular.words import WrongType

if TYPE_CHECKING:
    import pandas as pd

MISSING = 0
"""The code of a missing cell, in every column."""

MAX_OPEN_VALUES = 100
"""Values of an open list that have a feature of their own; rarer values share one."""

Codes = Integer[np.ndarray, " rows"]
Numbers = Float[np.ndarray, " rows"]
Features = Float[np.ndarray, "rows features"]


def check_frames(schema: Schema, **frames: "pd.DataFrame") -> None:
    """Raise unless every named frame has rows, and all columns of the schema.

    The message names the argument and the column, never a cell.
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
    """All rows, or `max_rows` of them in order; the same seed draws the same rows."""
    if len(frame) <= max_rows:
        return frame
    places: Any = np.random.default_rng(seed).choice(len(frame), max_rows, replace=False)
    return frame.take(np.sort(places))


def number_columns(schema: Schema) -> tuple[str, ...]:
    """The columns of numbers and moments."""
    return tuple(name for name, column in schema.columns.items() if column.has_position)


def numbers(frame: "pd.DataFrame", name: str, column: Column) -> Numbers:
    """A column of numbers, or of moments in seconds, clipped to its range; NaN where missing."""
    cells = _read(frame, name, column)
    if cells.unreadable.any():
        kind = "moments" if isinstance(column, Datetime) else "numbers"
        raise ValueError(
            f"column {name!r} is {column.kind} in the schema and must hold {kind} only."
        )
    scale = 1e6 if isinstance(column, Datetime) else 1.0
    values = np.where(cells.missing, np.nan, cells.values / scale)
    low, high = _range(column)
    if low is not None:
        values = values.clip(low, high)
    return np.where(np.isfinite(values), values, np.nan)


def code(
    frame: "pd.DataFrame",
    name: str,
    column: Column,
    *,
    bins: int,
    values: Sequence[Any],
    edges: Float[np.ndarray, " edges"] | None = None,
) -> Codes:
    """A column as codes: `MISSING`, then one for each bin or value, then one for all other values.

    Args:
        frame: The rows.
        name: The name of the column.
        column: Its declaration.
        bins: The number of equal bins of the declared range, for numbers and moments.
        values: The values of any other column, as `listed` gives them.
        edges: Where the second bin of numbers and moments begins, the third, and so on; instead of
            equal bins.
    """
    if column.has_position and edges is not None:
        cells = numbers(frame, name, column)
        places = np.searchsorted(edges, cells, side="right")
        return _small(np.where(np.isnan(cells), MISSING, places + 1), len(edges) + 2)
    if column.has_position:
        low, high = _range(column)
        if low is None:
            raise ValueError(
                f"column {name!r} has no bounds. Declare them, or give the schema of the fitted "
                "model, which has the discovered ones."
            )
        cells = numbers(frame, name, column)
        width = (high - low) or 1.0
        places = np.where(np.isnan(cells), -1.0, ((cells - low) / width * bins).clip(0, bins - 1))
        return _small(places.astype(np.int64) + 1, bins + 1)
    cells = _read(frame, name, column, values)
    places = np.where(cells.unreadable, len(values), cells.values)
    return _small(np.where(cells.missing, MISSING, 1 + places), len(values) + 1)


def quantile_edges(cells: Numbers, *, bins: int) -> Float[np.ndarray, " edges"]:
    """The edges of bins that hold about equally many of these numbers; a frequent one has its own."""
    present = cells[~np.isnan(cells)]
    if not present.size:
        return np.zeros(0)
    inner = np.arange(1, bins) / bins
    edges, times = np.unique(np.quantile(present, inner, method="lower"), return_counts=True)
    # just above: numbers in single precision come back a little off
    above = edges[times > 1] + 1e-6 * max(1e-300, float(np.ptp(present)))
    return np.unique(np.concatenate([edges, above]))


def num_codes(column: Column, *, bins: int, values: Sequence[Any]) -> int:
    """The number of codes that `code` can give."""
    return bins + 1 if column.has_position else len(values) + 2


def listed(name: str, column: Column, *frames: "pd.DataFrame") -> tuple[Any, ...]:
    """The values of a column in the order of their codes; those of an open list are from the frames."""
    if isinstance(column, Listed):
        return tuple(column.values)
    if isinstance(column, Boolean):
        return (False, True)
    if isinstance(column, OpenCategorical):
        return tuple(sorted(set().union(*(tally(frame, name) for frame in frames))))
    return ()


def tally(frame: "pd.DataFrame", name: str) -> Counter[str]:
    """The number of times that each text occurs in a column, without missing cells."""
    try:
        words, places = texts(column_array(frame, name))
    except WrongType:
        raise ValueError(f"column {name!r} must hold single values only.") from None
    times = np.bincount(places[places >= 0], minlength=len(words))
    times[say_nothing(words)] = 0
    counts: Counter[str] = Counter()
    for word, count in zip(words.to_pylist(), times.tolist(), strict=True):
        if count:  # a category may have no cell; words that differ by spaces are one
            counts[word] += count
    return counts


def check_listed(what: str, name: str, codes: Codes, values: Sequence[Any]) -> None:
    """Raise if a column of real rows has values that its schema does not list.

    Synthetic rows may have such values: measures show this fault.
    """
    if values and (codes > len(values)).any():
        raise ValueError(
            f"column {name!r} of {what} has values that are not in the schema. Declare all of them."
        )


@dataclass(frozen=True)
class _NumberFeature:
    """A standardized number, and an indicator of missing cells if there can be any."""

    mean: float
    std: float
    nullable: bool

    @classmethod
    def of(cls, frame: "pd.DataFrame", name: str, column: Column) -> "_NumberFeature":
        cells = numbers(frame, name, column)
        present = cells[~np.isnan(cells)]
        nullable = column.nullable or present.size < cells.size
        if not present.size:
            return cls(0.0, 1.0, nullable)
        # a constant column must not be divided by zero
        return cls(float(present.mean()), float(present.std()) or 1.0, nullable)

    def fill(
        self, out: Features, frame: "pd.DataFrame", name: str, column: Column, *, strict: bool
    ) -> None:
        cells = numbers(frame, name, column)
        gaps = np.isnan(cells)
        out[:, 0] = np.where(gaps, 0.0, (cells - self.mean) / self.std)
        if self.nullable:
            out[:, 1] = gaps

    @property
    def width(self) -> int:
        return 1 + self.nullable


@dataclass(frozen=True)
class _ListedFeature:
    """Indicators of each value, of missing cells if there can be any, and of others in open lists."""

    values: tuple[Any, ...]
    nullable: bool
    has_others: bool = False

    @classmethod
    def of(cls, frame: "pd.DataFrame", name: str, column: Column) -> "_ListedFeature":
        if isinstance(column, OpenCategorical):
            counts = tally(frame, name)
            nullable = column.nullable or counts.total() < len(frame)
            values = tuple(value for value, _ in counts.most_common(MAX_OPEN_VALUES))
            return cls(values, nullable, has_others=True)
        values = listed(name, column)
        codes = code(frame, name, column, bins=1, values=values)
        return cls(values, column.nullable or bool((codes == MISSING).any()))

    def fill(
        self, out: Features, frame: "pd.DataFrame", name: str, column: Column, *, strict: bool
    ) -> None:
        codes = code(frame, name, column, bins=1, values=self.values)
        if strict and not self.has_others:
            check_listed("real", name, codes, self.values)
        # the feature of each code: missing, values, others; -1 for codes without a feature
        size = len(self.values)
        gap = size if self.nullable else -1
        other = size + self.nullable if self.has_others else -1
        place = np.array([gap, *range(size), other])[codes]
        rows = np.flatnonzero(place >= 0)
        out[:] = 0.0
        out[rows, place[rows]] = 1.0

    @property
    def width(self) -> int:
        return len(self.values) + self.nullable + self.has_others


@dataclass(frozen=True)
class FeatureMap:
    """A map from tables of a schema, without its label, to features; made from training rows only."""

    schema: Schema
    parts: dict[str, _NumberFeature | _ListedFeature]

    @classmethod
    def of(cls, frame: "pd.DataFrame", schema: Schema) -> "FeatureMap":
        """The map with the means and standard deviations of `frame`."""
        kinds = {True: _NumberFeature, False: _ListedFeature}
        return cls(
            schema,
            {
                name: kinds[column.has_position].of(frame, name, column)
                for name, column in schema.columns.items()
                if name != schema.label
            },
        )

    def __call__(self, frame: "pd.DataFrame", *, strict: bool = False) -> Features:
        """The features of each row, in single precision: one-hot columns make many.

        Values that the schema does not list have no feature; `strict` refuses them, in real rows.
        """
        widths = [part.width for part in self.parts.values()]
        out = np.empty((len(frame), sum(widths)), dtype=np.float32)
        start = 0
        for (name, part), width in zip(self.parts.items(), widths, strict=True):
            block = out[:, start : start + width]
            part.fill(block, frame, name, self.schema.columns[name], strict=strict)
            start += width
        return out


def label_codes(
    real: "pd.DataFrame", synthetic: "pd.DataFrame", schema: Schema
) -> tuple[np.ndarray, np.ndarray, int]:
    """The classes of real and of synthetic rows, counted from 0, and the number of classes.

    There is a class for each value of the label, in the order of the schema, and a last one for rows
    without a label if there are any. Synthetic rows with an undeclared label are in none: -1.
    """
    name = schema.label
    if name is None:
        raise ValueError("the schema has no label to predict. Declare one: Schema(..., label=...).")
    column = schema.columns[name]
    if column.has_position:
        raise ValueError(
            f"the label {name!r} is {column.kind}; classifiers need a categorical, ordinal or "
            "boolean one."
        )
    values = listed(name, column, real, synthetic)
    codes = [code(f, name, column, bins=1, values=values) for f in (real, synthetic)]
    check_listed("real", name, codes[0], values)
    unlabeled = any((column == MISSING).any() for column in codes)
    # the code of missing labels moves from first to last, and that of undeclared ones to -1
    order = np.array([len(values), *range(len(values)), -1])
    return order[codes[0]], order[codes[1]], len(values) + unlabeled


def _read(frame: "pd.DataFrame", name: str, column: Column, values: Sequence[Any] = ()) -> Cells:
    """The cells of a column; those of an open list as places in `values`."""
    array = column_array(frame, name)
    return read_column(name, column, array, vocabulary=values, invalid="replace")


def column_array(frame: "pd.DataFrame", name: str) -> Any:
    """The cells of a column in pyarrow."""
    alone: Any = frame[[name]]
    return next(open_table(alone, chunk=max(1, len(alone))).blocks)(0)


def _range(column: Column) -> tuple[Any, Any]:
    if isinstance(column, Datetime):
        return (column.start - EPOCH).total_seconds(), (column.end - EPOCH).total_seconds()
    return (column.low, column.high) if isinstance(column, Numeric) else (None, None)


def _small(codes: np.ndarray, largest: int) -> Codes:
    """Codes in the smallest type that holds them: a million rows of 42 columns take 42 MB."""
    return codes.astype(np.min_scalar_type(largest))
