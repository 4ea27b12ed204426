"""Coders: made of released histograms, and read back from the arrays of a file."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from veilflow.models.table.bins import Bins, bins_of
from veilflow.models.table.coder import CodedColumn, Coder
from veilflow.releases.table.cells import cells_of
from veilflow.releases.table.histograms import estimate
from veilflow.tabular.columns import Column, Ordinal
from veilflow.tabular.encoded import Vocabularies
from veilflow.tabular.schema import Schema


def coder_of(
    counts: Sequence[Float[np.ndarray, " counts"]],
    columns: Sequence[Column],
    *,
    deviation: float,
    most_bins: int,
    num_records: float,
) -> Coder:
    """The codes that a flow is to model, from noisy counts.

    Args:
        counts: Of each column, as `ColumnHistograms` releases them.
        columns: Of the schema, with bounds.
        deviation: Standard deviation of the noise in each number.
        most_bins: About how many bins a number gets at most.
        num_records: Declared or released.
    """
    coded = []
    for column, count in zip(columns, counts, strict=True):
        if not column.has_position:
            mass = shares(count, deviation=deviation, total=num_records)
            coded.append(CodedColumn(mass, isinstance(column, Ordinal), column.nullable))
            continue
        cells, share = cells_of(column), 0.0
        if column.nullable:
            share = float(np.clip(count[-1] / num_records, 1e-6, 1 - 1e-6))
            count = count[:-1]
        total = (1 - share) * num_records
        found = estimate(count, cells.num, deviation=deviation, total=total)
        bins = bins_of(found, most=most_bins)
        mass = np.append(bins.masses * (1 - share), share) if column.nullable else bins.masses
        coded.append(CodedColumn(mass, True, column.nullable, cells, bins))
    return Coder(tuple(coded))


def shares(
    counts: Float[np.ndarray, " codes"], *, deviation: float, total: float
) -> Float[np.ndarray, " codes"]:
    """Noisy counts as shares: moved by one number, cut at a little above zero, to the right sum."""
    low, high = counts.min() - total, counts.max()
    least = 0.1 * deviation + 0.5  # a count of zero is as likely as the noise makes it
    for _ in range(60):  # the shift at which what is left sums to the total
        middle = (low + high) / 2
        too_much = np.maximum(counts - middle, least).sum() > total
        low, high = (middle, high) if too_much else (low, middle)
    left = np.maximum(counts - high, least)
    return left / left.sum()


def arrays_of(coder: Coder) -> list[dict[str, np.ndarray]]:
    """The released numbers of each column: shares of codes and, of a number, its bins and cells."""
    arrays = []
    for column in coder.columns:
        own: dict[str, np.ndarray] = {"mass": np.asarray(column.mass, np.float64)}
        if column.bins is not None:
            own["starts"] = np.asarray(column.bins.starts, np.int64)
            own["inside"] = np.asarray(column.bins.mass, np.float64)
        arrays.append(own)
    return arrays


def shapes_of(
    schema: Schema, vocabularies: Vocabularies, num_codes: Sequence[int]
) -> list[dict[str, Any]]:
    """The shapes of `arrays_of`, where columns have so many codes.

    Raises:
        ValueError: They cannot have as many.
    """
    if len(num_codes) != len(schema.columns):
        raise ValueError("there must be a number of codes for each column.")
    shapes = []
    for number, (name, column) in zip(num_codes, schema.columns.items(), strict=True):
        own = {"mass": jax.ShapeDtypeStruct((number,), np.dtype(np.float64))}
        if column.has_position:
            bins, cells = number - column.nullable, cells_of(column).num
            if not 0 < bins <= cells:
                raise ValueError("there are more bins than cells, or none.")
            own["starts"] = jax.ShapeDtypeStruct((bins + 1,), np.dtype(np.int64))
            own["inside"] = jax.ShapeDtypeStruct((cells,), np.dtype(np.float64))
        elif number != column.num_codes(vocabularies.get(name)):
            raise ValueError("there are not as many shares as codes.")
        shapes.append(own)
    return shapes


def restored(schema: Schema, arrays: Sequence[Mapping[str, np.ndarray]]) -> Coder:
    """The coder that `arrays_of` described; cells follow from the schema.

    Raises:
        ValueError: Shares are not shares, or bins do not cover the cells of their column.
    """
    columns = []
    for column, own in zip(schema.columns.values(), arrays, strict=True):
        mass = _checked(own["mass"])
        if not column.has_position:
            columns.append(CodedColumn(mass, isinstance(column, Ordinal), column.nullable))
            continue
        cells, starts, inside = cells_of(column), own["starts"], _checked(own["inside"])
        if not (np.diff(starts) > 0).all() or starts[0] != 0 or starts[-1] != cells.num:
            raise ValueError("bins must start at increasing cells, from the first to the last.")
        if not inside.min() > 0:
            raise ValueError("every cell must have a share.")
        bins = Bins(starts, inside)
        columns.append(CodedColumn(mass, True, column.nullable, cells, bins))
    return Coder(tuple(columns))


def _checked(mass: np.ndarray) -> np.ndarray:
    if not (mass >= 0).all() or not abs(mass.sum() - 1) <= 1e-6:
        raise ValueError("shares must be non-negative numbers that sum to 1.")
    return mass
