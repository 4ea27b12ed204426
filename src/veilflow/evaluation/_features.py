"""A table as a matrix that classifiers take: one-hot by the schema, numbers standardized."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from veilflow.evaluation._cells import MISSING, check_listed, code, listed, numbers, tally
from veilflow.tabular.columns import Column, OpenCategorical
from veilflow.tabular.schema import Schema

if TYPE_CHECKING:
    import pandas as pd

MAX_OPEN_VALUES = 100
"""Values of an open list that get a feature of their own; the rarer ones share one."""

Features = Float[np.ndarray, "rows features"]


@dataclass(frozen=True)
class _NumberFeature:
    """A standardized number; if gaps can occur, also whether there is one."""

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
        # a column that never varies teaches nothing: it must not be divided by zero
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
    """One indicator per value; one for gaps, where there can be some; in open lists, one for others."""

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
        # the feature of each code: gaps, values, others; -1 for what has no feature
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
    """From tables of a schema, without its label, to features; made from training rows only."""

    schema: Schema
    parts: dict[str, _NumberFeature | _ListedFeature]

    @classmethod
    def of(cls, frame: "pd.DataFrame", schema: Schema) -> "FeatureMap":
        """The map whose means and deviations are those of `frame`."""
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
        """The features of each row, in single precision: with one-hot columns there are many.

        Values that the schema does not list are in none; `strict` refuses them, in real rows.
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
    """The classes of real and of synthetic rows, from 0, and how many classes there can be.

    A class for each value of the label, in the order of the schema; a last one for rows without a
    label, if there are any. Synthetic rows with a label that is not in the schema are in none: -1.
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
    unlabeled = any((found == MISSING).any() for found in codes)
    # the missing class goes from first to last, and what is no class at all to -1
    order = np.array([len(values), *range(len(values)), -1])
    first, second = (order[found] for found in codes)
    return first, second, len(values) + unlabeled
