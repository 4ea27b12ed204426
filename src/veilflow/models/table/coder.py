"""Rows of a schema to rows of codes and back: what the flow sees of a table.

A listed column has the codes of the schema. A column with positions is cut into bins, and a missing
cell is one more code. A bin is a run of cells with about its share of the records; a cell with more
than that is a bin by itself. Within a bin, values are drawn and scored by the released histogram of
the column. Everything here reads released counts: it is post-processing, and costs nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np
from jaxtyping import Bool, Float, Int, Int32

from veilflow.models.table import places
from veilflow.models.table.places import Mix
from veilflow.releases.table.cells import ColumnCells, cells_of
from veilflow.releases.table.estimate import estimate
from veilflow.releases.table.tails import Nodes
from veilflow.releases.table.units import Units, Weights, units_of
from veilflow.tabular.codec import EncodedRows
from veilflow.tabular.columns import Column, Ordinal
from veilflow.tabular.encoded import Vocabularies
from veilflow.tabular.schema import Schema

_FLOOR = 1e-3
"""Mass spread over all cells: a row where no noisy count was still has a density."""


@dataclass(frozen=True)
class Bins:
    """Runs of cells, and the mass of every cell."""

    starts: Int[np.ndarray, " bins+1"]
    """The first cell of each bin, then the number of cells."""
    mass: Float[np.ndarray, " cells"]
    """The share of each cell in the column; sums to 1."""

    @property
    def num(self) -> int:
        """The number of bins."""
        return len(self.starts) - 1

    @property
    def masses(self) -> Float[np.ndarray, " bins"]:
        """The share of each bin in the column."""
        return np.add.reduceat(self.mass, self.starts[:-1])

    def of(self, cells: Int[np.ndarray, " rows"]) -> Int[np.ndarray, " rows"]:
        """The bin of each cell."""
        return np.searchsorted(self.starts, cells, side="right") - 1

    def draw(
        self, bins: Int[np.ndarray, " rows"], uniform: Float[np.ndarray, " rows"]
    ) -> Int[np.ndarray, " rows"]:
        """Draw a cell from each of `bins` in proportion to the masses of its cells."""
        up_to = np.concatenate([[0.0], np.cumsum(self.mass)])
        low, high = up_to[self.starts[bins]], up_to[self.starts[bins + 1]]
        cells = np.searchsorted(up_to, low + uniform * (high - low), side="right") - 1
        return np.clip(cells, self.starts[bins], self.starts[bins + 1] - 1)

    def log_within(self) -> Float[np.ndarray, " cells"]:
        """The logarithm of each cell's share in its own bin."""
        return np.log(self.mass) - np.log(self.masses)[self.of(np.arange(len(self.mass)))]


def bins_of(
    counts: Float[np.ndarray, " cells"],
    decay: Float[np.ndarray, " cells"] | None = None,
    *,
    most: int,
) -> Bins:
    """About `most` bins, or fewer.

    Args:
        counts: The estimated counts of cells.
        decay: See `Tails`; None for the same everywhere.
        most: About the largest number of bins.
    """
    cells = len(counts)
    floor = np.ones(cells) if decay is None else decay
    mass = (1 - _FLOOR) * counts / max(counts.sum(), 1e-30) + _FLOOR * floor / floor.sum()
    heavy = mass > 1 / most
    # a tail of a few per cent still gets a fair number of bins: the root of its share of them
    rest = np.where(heavy, 0.0, mass)
    num = max(1, round(most * rest.sum() ** 0.5))
    up_to = np.cumsum(rest) / max(rest.sum(), 1e-30)
    even = np.searchsorted(up_to, np.arange(1, num) / num) + 1
    alone = np.flatnonzero(heavy)
    starts = np.unique(np.concatenate([[0, cells], even, alone, alone + 1]))
    return Bins(starts[starts <= cells].astype(np.int64), mass)


@dataclass(frozen=True)
class CodedColumn:
    """One column: the share of each code and, for a number, its cells and bins."""

    mass: Float[np.ndarray, " codes"]
    """The share of each code; the code of a missing cell is the last."""
    ordered: bool
    nullable: bool
    cells: ColumnCells | None = None
    bins: Bins | None = None
    units: Units | None = None
    weights: Weights | None = None
    """How frequent round numbers are, if the column has `units`."""

    @property
    def num_codes(self) -> int:
        """The number of codes."""
        return len(self.mass)

    def draw(
        self, cells: Int[np.ndarray, " rows"], rng: np.random.Generator
    ) -> Float[np.ndarray, " rows"]:
        """The position of a number in each of `cells`."""
        assert self.cells is not None
        if self.units is None or self.weights is None:
            return self.cells.draw(cells, rng.uniform(size=len(cells)))
        return self.units.draw(self.weights, cells, rng.uniform(size=(2, len(cells))))

    def log_in_cell(
        self, positions: Float[np.ndarray, " rows"], cells: Int[np.ndarray, " rows"]
    ) -> Float[np.ndarray, " rows"]:
        """The log-density of numbers given their cells: of a value, or in the units of the data."""
        assert self.cells is not None
        if self.units is None or self.weights is None:
            return -self.cells.log_size[cells]
        return self.units.log_share(self.weights, positions, cells)


@dataclass(frozen=True)
class Coder:
    """All columns of a table."""

    columns: tuple[CodedColumn, ...]
    mix: Mix | None = None
    """How numbers hang together within their bins; None if they do not."""

    def with_masses(self, masses: Sequence[Float[np.ndarray, " codes"]]) -> "Coder":
        """The same codes with other shares; the shares within a bin stay."""
        pairs = zip(self.columns, masses, strict=True)
        return Coder(tuple(replace(column, mass=mass / mass.sum()) for column, mass in pairs))

    def mixed(self, codes: Int32[np.ndarray, "rows columns"]) -> "Coder":
        """The same coder, with numbers that hang together within bins as these rows do across them."""
        return replace(self, mix=places.mix_of(self.columns, codes))

    def sharpened(
        self, codes: Int32[np.ndarray, "rows columns"], most: int, rng: np.random.Generator
    ) -> Int32[np.ndarray, "rows columns"]:
        """Rows of codes drawn again within groups of bins: see `places`."""
        return places.sharpened(self.columns, codes, most, rng)

    def codes(self, rows: EncodedRows) -> Int32[np.ndarray, "rows columns"]:
        """The codes of encoded rows."""
        codes = rows.codes.copy()
        for j, column in enumerate(self.columns):
            if column.cells is None or column.bins is None:
                continue
            bins = column.bins.of(column.cells.of(rows.positions[:, j]))
            missing = column.nullable & (rows.codes[:, j] == 1)
            codes[:, j] = np.where(missing, column.bins.num, bins)
        return codes

    def cells(self, rows: EncodedRows) -> Int[np.ndarray, "rows columns"]:
        """The cells of numbers."""
        cells = np.zeros(rows.codes.shape, np.int64)
        for j, column in enumerate(self.columns):
            if column.cells is not None:
                cells[:, j] = column.cells.of(rows.positions[:, j])
        return cells

    def rows(
        self,
        codes: Int32[np.ndarray, "rows columns"],
        rng: np.random.Generator,
        *,
        given: EncodedRows | None = None,
        fixed: Bool[np.ndarray, "rows columns"] | None = None,
    ) -> EncodedRows:
        """Draw encoded rows with these codes, from within their bins.

        Args:
            codes: The code of each cell.
            rng: The source of randomness.
            given: Rows, some cells of which are known.
            fixed: Which cells are those of `given`; None for none.
        """
        encoded, positions = codes.astype(np.int32, copy=True), np.zeros(codes.shape)
        mix = self._mix()
        known = None if given is None else self.cells(given)
        cells = places.draw_cells(self.columns, mix, codes, rng, known=fixed, cells=known)
        for j, column in enumerate(self.columns):
            if column.cells is None or column.bins is None:
                continue
            missing = codes[:, j] >= column.bins.num
            drawn = column.draw(cells[:, j], rng)
            positions[:, j] = np.where(missing, 0.0, drawn)
            encoded[:, j] = missing
        rows = EncodedRows(encoded, positions)
        return rows if given is None or fixed is None else rows.replaced(given, fixed)

    def log_within(self, rows: EncodedRows) -> Float[np.ndarray, " rows"]:
        """The log-density of rows given their codes: of a value, or in the units of the data."""
        codes, cells = self.codes(rows), self.cells(rows)
        total = places.log_cells(self.columns, self._mix(), codes, cells)
        for j, column in enumerate(self.columns):
            if column.cells is None or column.bins is None:
                continue
            missing = column.nullable & (rows.codes[:, j] == 1)
            inside = column.log_in_cell(rows.positions[:, j], cells[:, j])
            total += np.where(missing, 0.0, inside)
        return total

    def _mix(self) -> Mix:
        return (
            np.eye(sum(c.bins is not None for c in self.columns)) if self.mix is None else self.mix
        )

    def arrays(self) -> list[dict[str, np.ndarray]]:
        """The released numbers of each column: shares of codes and, for a number, bins and cells."""
        arrays = []
        for column in self.columns:
            own: dict[str, np.ndarray] = {"mass": np.asarray(column.mass, np.float64)}
            if column.bins is not None:
                own["starts"] = np.asarray(column.bins.starts, np.int64)
                own["inside"] = np.asarray(column.bins.mass, np.float64)
            if column.weights is not None:
                own["units"] = np.asarray(column.weights, np.float64)
            arrays.append(own)
        return arrays

    @staticmethod
    def shapes(
        schema: Schema, vocabularies: Vocabularies, num_codes: Sequence[int]
    ) -> list[dict[str, Any]]:
        """The shapes of `arrays` for columns with these numbers of codes.

        Raises:
            ValueError: The columns of the schema cannot have these numbers of codes.
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
                units = units_of(column)
                if units is not None:
                    own["units"] = jax.ShapeDtypeStruct(units.shape, np.dtype(np.float64))
            elif number != column.num_codes(vocabularies.get(name)):
                raise ValueError("there are not as many shares as codes.")
            shapes.append(own)
        return shapes

    @classmethod
    def restored(
        cls,
        schema: Schema,
        arrays: Sequence[Mapping[str, np.ndarray]],
        *,
        mix: Mix | None = None,
    ) -> "Coder":
        """The coder that `arrays` described; cells follow from the schema.

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
            bins, units = Bins(starts, inside), units_of(column)
            weights = None if units is None else own["units"]
            if weights is not None and not (1e-6 <= weights.min() <= weights.max() <= 1e18):
                raise ValueError("weights of round numbers must be positive.")
            columns.append(CodedColumn(mass, True, column.nullable, cells, bins, units, weights))
        return cls(tuple(columns), None if mix is None else places.checked(mix))


def _checked(mass: np.ndarray) -> np.ndarray:
    if not (mass >= 0).all() or not abs(mass.sum() - 1) <= 1e-6:
        raise ValueError("shares must be non-negative numbers that sum to 1.")
    return mass


@dataclass(frozen=True)
class Details:
    """Counts of the tails and of the round numbers of one column, as `ColumnDetails` releases them."""

    groups: Float[np.ndarray, " groups"]
    levels: Float[np.ndarray, " levels"] | None
    tail_deviation: float
    unit_deviation: float


def coder_of(
    counts: Sequence[Float[np.ndarray, " counts"]],
    columns: Sequence[Column],
    *,
    deviation: float,
    most_bins: int,
    num_records: float,
    details: Sequence[Details | None] | None = None,
) -> Coder:
    """The coder that follows from noisy counts.

    Args:
        counts: The counts of each column, as `ColumnHistograms` releases them.
        columns: The columns of the schema, with bounds.
        deviation: The standard deviation of the noise in each count.
        most_bins: About the largest number of bins of a number.
        num_records: The number of records, declared or released.
        details: What else was released of each column with positions.
    """
    coded = []
    more = [None] * len(columns) if details is None else details
    for column, count, own in zip(columns, counts, more, strict=True):
        if not column.has_position:
            mass = shares(count, deviation=deviation, total=num_records)
            coded.append(CodedColumn(mass, isinstance(column, Ordinal), column.nullable))
            continue
        cells = cells_of(column)
        count, share = _without_gaps(count, column, num_records)
        total = (1 - share) * num_records
        found = estimate(count, cells.edges, deviation=deviation, total=total)
        units = units_of(column)
        weights = None if units is None else np.ones(units.shape)
        if own is not None:
            known, base, before = {"deviation": deviation, "total": total}, None, found.counts
            starts, ends = found.tails.groups
            closer = Nodes(starts, ends, own.groups, own.tail_deviation**2)
            if units is not None and own.levels is not None:
                weights = units.weights(own.levels, before, deviation=own.unit_deviation)
                base = units.frequencies(weights)
            found = estimate(count, cells.edges, **known, closer=closer, base=base)
            if units is not None and weights is not None:
                weights = units.fitted(weights, before, found.counts)
        bins = bins_of(found.counts, found.tails.decay, most=most_bins)
        mass = np.append(bins.masses * (1 - share), share) if column.nullable else bins.masses
        coded.append(CodedColumn(mass, True, column.nullable, cells, bins, units, weights))
    return Coder(tuple(coded))


def tail_groups(
    counts: Sequence[Float[np.ndarray, " counts"]],
    columns: Sequence[Column],
    *,
    deviation: float,
    num_records: float,
) -> list[Int[np.ndarray, "two groups"] | None]:
    """The groups of cells in the tails of each column with positions, from its histogram alone."""
    groups: list[Int[np.ndarray, "two groups"] | None] = []
    for column, count in zip(columns, counts, strict=True):
        if not column.has_position:
            groups.append(None)
            continue
        count, share = _without_gaps(count, column, num_records)
        edges, total = cells_of(column).edges, (1 - share) * num_records
        found = estimate(count, edges, deviation=deviation, total=total)
        groups.append(found.tails.groups)
    return groups


def _without_gaps(
    count: Float[np.ndarray, " counts"], column: Column, num_records: float
) -> tuple[Float[np.ndarray, " nodes"], float]:
    """The counts of a column's values, and the share of its missing cells."""
    if not column.nullable:
        return count, 0.0
    return count[:-1], float(np.clip(count[-1] / num_records, 1e-6, 1 - 1e-6))


def shares(
    counts: Float[np.ndarray, " codes"], *, deviation: float, total: float
) -> Float[np.ndarray, " codes"]:
    """Noisy counts as shares: shifted by one number and cut a little above zero, to the right sum."""
    low, high = counts.min() - total, counts.max()
    least = 0.1 * deviation + 0.5  # a count of zero is as likely as the noise makes it
    for _ in range(60):  # bisection for the shift at which the rest sums to the total
        middle = (low + high) / 2
        too_much = np.maximum(counts - middle, least).sum() > total
        low, high = (middle, high) if too_much else (low, middle)
    shifted = np.maximum(counts - high, least)
    return shifted / shifted.sum()
