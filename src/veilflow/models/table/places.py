"""Where the numbers of a row lie within their bins: together, as a Gaussian copula has it.

Two numbers that rise together across bins do so within bins as well, which matters most in the wide
bins of a heavy tail. The normal score of a number is that of its rank in the released histogram.
Scores of a row are drawn one after the other, each from a normal distribution given those before it,
cut to its own bin. So scores are exact, and a bin keeps the share that the flow gave it. The
correlations of scores are those of rows of codes that the fitted flow draws: all of it is post-
processing.
"""

# SciPy has no type stubs
# pyright: reportMissingTypeStubs=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import ndtr, ndtri

if TYPE_CHECKING:
    from veilflow.models.table.coder import CodedColumn

_ALONE = 1e-3
"""How often a number is drawn by its own histogram alone: no cell of a bin is impossible."""
_KEPT = 0.999
"""Factor of all correlations: no number follows from the others."""
_FARTHEST = 4.0
"""Deviations between the expected score and the nearest one of the bin, at most."""
_HEAVY = 0.5
"""Share of the variance in the first and the last bin from which on tails are heavy."""
_LARGEST = 8.0
"""The largest normal score."""

Mix = Float[np.ndarray, "numbers numbers"]
"""The lower triangular factor of the correlations of normal scores: its rows have a norm of 1."""


@dataclass(frozen=True)
class _Scores:
    """Normal scores of the cells and bins of one column."""

    borders: Float[np.ndarray, " cells+1"]
    middles: Float[np.ndarray, " cells"]
    of_bins: Float[np.ndarray, " bins"]
    """The mean score of a normal variable in each bin."""
    alone: Float[np.ndarray, " cells"]
    """The logarithm of each cell's share in its bin."""

    @classmethod
    def of(cls, column: "CodedColumn") -> Self:
        bins = column.bins
        assert bins is not None
        alone = bins.log_within()
        masses = np.maximum(column.mass[: bins.num], 1e-12)
        bin_of_cell = np.repeat(np.arange(bins.num), np.diff(bins.starts))
        up_to = np.concatenate([[0.0], np.cumsum(masses[bin_of_cell] * np.exp(alone))])
        up_to /= up_to[-1]
        borders = np.clip(ndtri(up_to), -_LARGEST, _LARGEST)
        middles = np.clip(ndtri((up_to[:-1] + up_to[1:]) / 2), -_LARGEST, _LARGEST)
        at = borders[bins.starts]
        density = np.exp(-(at**2) / 2) / np.sqrt(2 * np.pi)
        of_bins = -np.diff(density) / np.maximum(np.diff(up_to[bins.starts]), 1e-12)
        return cls(borders, middles, of_bins, alone)


def mix_of(columns: Sequence["CodedColumn"], codes: Int[np.ndarray, "rows columns"]) -> Mix:
    """The mix of rows of codes, such as a flow draws."""
    scores, present = [], []
    for j, column in enumerate(columns):
        if column.bins is not None:
            own = _Scores.of(column).of_bins
            here = codes[:, j] < len(own)
            present.append(here.astype(float))
            scores.append(np.where(here, own[np.minimum(codes[:, j], len(own) - 1)], 0.0))
    if not scores:
        return np.zeros((0, 0))
    z, here = np.stack(scores, axis=1), np.stack(present, axis=1)
    squares = (z**2).T @ here
    matrix = (z.T @ z) / np.maximum(np.sqrt(squares * squares.T), 1e-12)
    # scores of bins vary less than those within, which lowers all correlations but those of about 1
    kept = np.clip(np.diag(squares) / np.maximum(here.sum(axis=0), 1.0), 0.1, 1.0)
    lost = np.sqrt(np.outer(kept, kept)) ** np.cbrt(np.maximum(1 - matrix**2, 0))
    matrix = _KEPT * np.clip(matrix / lost, -1, 1)
    np.fill_diagonal(matrix, 1.0)
    # gaps make pairs of different rows: the nearest matrix of correlations
    values, vectors = np.linalg.eigh(matrix)
    matrix = (vectors * np.maximum(values, 1 - _KEPT)) @ vectors.T
    size = np.sqrt(np.diag(matrix))
    return np.linalg.cholesky(matrix / np.outer(size, size))


def sharpened(
    columns: Sequence["CodedColumn"],
    codes: Int[np.ndarray, "rows columns"],
    most: int,
    rng: np.random.Generator,
) -> Int[np.ndarray, "rows columns"]:
    """Rows of codes drawn again within groups of bins, of which each number has about `most`.

    Tables of pairs tell only groups of bins apart, so that rows of their model do not rise together
    within a group.
    """
    wide = [_grouped(column, most) for column in columns]
    groups = codes.copy()
    for j, (column, own) in enumerate(zip(columns, wide, strict=True)):
        if column.bins is not None and own.bins is not None:
            group = np.append(own.bins.of(column.bins.starts[:-1]), own.bins.num)
            groups[:, j] = group[codes[:, j]]
    cells = draw_cells(wide, mix_of(wide, groups), groups, rng)
    sharp = codes.copy()
    for j, column in enumerate(columns):
        if column.bins is not None:
            missing = codes[:, j] >= column.bins.num
            sharp[:, j] = np.where(missing, codes[:, j], column.bins.of(cells[:, j]))
    return sharp


def _grouped(column: "CodedColumn", most: int) -> "CodedColumn":
    """A number with its bins in about `most` groups of equal shares, if its tails decide its spread.

    Elsewhere the tables know better than a copula: the tails of other numbers hardly move correlations.
    """
    bins = column.bins
    if bins is None or not _is_heavy(column):
        return column
    masses = np.maximum(column.mass[: bins.num], 0)
    within = np.repeat(masses, np.diff(bins.starts)) * np.exp(bins.log_within())
    before = (np.cumsum(masses) - masses / 2) / max(masses.sum(), 1e-30)
    first = np.flatnonzero(np.diff(np.floor(before * most), prepend=-1.0))
    starts = np.append(bins.starts[:-1][first], bins.starts[-1])
    merged = replace(bins, starts=starts, mass=within / within.sum())
    return replace(column, bins=merged, mass=np.append(merged.masses, column.mass[bins.num :]))


def _is_heavy(column: "CodedColumn") -> bool:
    """Whether most of the variance of a number comes from its outermost bins."""
    bins, cells = column.bins, column.cells
    assert bins is not None
    assert cells is not None
    middles = (cells.edges[:-1] + cells.edges[1:]) / 2
    squares = bins.mass * (middles - bins.mass @ middles) ** 2
    by_bin = np.add.reduceat(squares, bins.starts[:-1])
    return bool(by_bin[0] + by_bin[-1] > _HEAVY * by_bin.sum())


def checked(mix: Mix) -> Mix:
    """The mix of a file.

    Raises:
        ValueError: It is not one.
    """
    norms = np.sqrt((mix**2).sum(axis=1))
    if np.triu(mix, 1).any() or not (np.diag(mix) > 0).all() or not (abs(norms - 1) < 1e-6).all():
        raise ValueError("the factor of correlations must be lower triangular, in rows of norm 1.")
    return mix


def draw_cells(
    columns: Sequence["CodedColumn"],
    mix: Mix,
    codes: Int[np.ndarray, "rows columns"],
    rng: np.random.Generator,
    *,
    known: Bool[np.ndarray, "rows columns"] | None = None,
    cells: Int[np.ndarray, "rows columns"] | None = None,
) -> Int[np.ndarray, "rows columns"]:
    """Draw the cells of numbers, given their codes and the `cells` that are `known`."""
    drawn = np.zeros(codes.shape, np.int64) if cells is None else cells.copy()
    for walk in _walk(columns, mix, codes, drawn):
        uniform, own, rare = rng.uniform(size=(3, len(codes)))
        new = np.where(rare < _ALONE, walk.drawn_alone(own), walk.drawn(uniform))
        free = ~walk.missing if known is None else ~walk.missing & ~known[:, walk.column]
        drawn[:, walk.column] = np.where(free, new, drawn[:, walk.column])
    return drawn


def log_cells(
    columns: Sequence["CodedColumn"],
    mix: Mix,
    codes: Int[np.ndarray, "rows columns"],
    cells: Int[np.ndarray, "rows columns"],
) -> Float[np.ndarray, " rows"]:
    """The logarithm of the probability of cells, given codes."""
    total = np.zeros(len(codes))
    for walk in _walk(columns, mix, codes, cells):
        total += np.where(walk.missing, 0.0, walk.log_share(cells[:, walk.column]))
    return total


@dataclass(frozen=True)
class _Step:
    """A number of all rows, given the numbers before it."""

    column: int
    coded: "CodedColumn"
    scores: _Scores
    missing: Bool[np.ndarray, " rows"]
    bins: Int[np.ndarray, " rows"]
    mean: Float[np.ndarray, " rows"]
    deviation: float
    low: Float[np.ndarray, " rows"]
    high: Float[np.ndarray, " rows"]
    """The normal distribution function at the ends of the bin."""

    def drawn(self, uniform: np.ndarray) -> np.ndarray:
        rank = np.clip(self.low + uniform * (self.high - self.low), 1e-16, 1 - 1e-16)
        score = self.mean + self.deviation * ndtri(rank)
        cells = np.searchsorted(self.scores.borders, score, side="right") - 1
        starts = self.coded.bins.starts  # type: ignore[union-attr]
        return np.clip(cells, starts[self.bins], starts[self.bins + 1] - 1)

    def drawn_alone(self, uniform: np.ndarray) -> np.ndarray:
        assert self.coded.bins is not None
        return self.coded.bins.draw(self.bins, uniform)

    def log_share(self, cells: np.ndarray) -> np.ndarray:
        at = (self.scores.borders[np.stack([cells, cells + 1])] - self.mean) / self.deviation
        below, above = ndtr(at)
        share = np.maximum(above - below, 0) / np.maximum(self.high - self.low, 1e-30)
        return np.log((1 - _ALONE) * share + _ALONE * np.exp(self.scores.alone[cells]))


def _walk(
    columns: Sequence["CodedColumn"], mix: Mix, codes: np.ndarray, cells: np.ndarray
) -> Iterator[_Step]:
    """The numbers in their order. After each step, its cells are read, and condition those after it."""
    noise = np.zeros((len(codes), len(mix)))
    numbers = [j for j, column in enumerate(columns) if column.bins is not None]
    for k, j in enumerate(numbers):
        column, scores = columns[j], _Scores.of(columns[j])
        assert column.bins is not None
        missing = codes[:, j] >= column.bins.num
        bins = np.where(missing, 0, codes[:, j])
        expected, deviation = noise[:, :k] @ mix[k, :k], float(mix[k, k])
        low = scores.borders[column.bins.starts[bins]]
        high = scores.borders[column.bins.starts[bins + 1]]
        reach = _FARTHEST * deviation
        mean = np.clip(expected, low - reach, high + reach)
        ends = ndtr((low - mean) / deviation), ndtr((high - mean) / deviation)
        yield _Step(j, column, scores, missing, bins, mean, deviation, *ends)
        own = (scores.middles[cells[:, j]] - expected) / deviation
        noise[:, k] = np.where(missing, 0.0, np.clip(own, -_FARTHEST, _FARTHEST))
