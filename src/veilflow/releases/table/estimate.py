"""Counts of the cells of a column from the noisy counts of all levels: post-processing of a release."""

# NumPy leaves some results open
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from veilflow.releases.table.histograms import FAN, level_sizes
from veilflow.releases.table.tails import Nodes, Tails, fitted_tails

_SPIKE = 5.0
"""Deviations of the noise above which a cell is a spike."""
_CLEAR = 4.0
"""Deviations from the fitted tail, of a node or of all children together, above which a count is
believed more than the fit."""


@dataclass(frozen=True)
class Estimate:
    """The counts of the cells of a column."""

    counts: Float[np.ndarray, " cells"]
    """Nonnegative; they sum to the number of records in the cells."""
    tails: Tails


def estimate(
    noisy: Float[np.ndarray, " nodes"],
    edges: Float[np.ndarray, " borders"],
    *,
    deviation: float,
    total: float,
    closer: Nodes | None = None,
    base: Float[np.ndarray, " cells"] | None = None,
) -> Estimate:
    """Nonnegative cells that sum to `total`, from noisy `weighted_counts`.

    First the least-squares estimate over all levels is computed. Then, from the widest level down,
    children are shrunk towards their mean as far as their differences are explained by noise
    (James-Stein), except for spikes. In the tails they are shrunk towards a fit instead.

    Args:
        noisy: Noisy counts of all levels.
        edges: The borders of the cells.
        deviation: Standard deviation of the noise in each number.
        total: Declared or released number of records in the cells.
        closer: Counts of the groups of the tails, if they were released as well.
        base: How many records a cell has relative to its neighbors where counts say nothing: more where
            it holds round numbers. None for the same everywhere.
    """
    cells = len(edges) - 1
    sizes = level_sizes(cells)
    weight = len(sizes) ** -0.5
    levels = [part / weight for part in np.split(noisy, np.cumsum(sizes)[:-1])]
    variance = (deviation / weight) ** 2
    # upward: the best estimate of a node from its own count and all below it
    best, spread = [levels[0]], [np.full(cells, variance)]
    for own in levels[1:]:
        starts = np.arange(0, len(best[-1]), FAN)
        below, error = np.add.reduceat(best[-1], starts), np.add.reduceat(spread[-1], starts)
        trust = error / (error + variance) if variance else np.full(len(own), 0.5)
        best.append(trust * own + (1 - trust) * below)
        spread.append(trust * variance)
    tails = _tails(best, levels, edges, variance=variance, total=total, closer=closer)
    base = np.ones(cells) if base is None else base
    all_inside, all_expected = tails.inside, tails.expected
    if all_inside.any():
        heaped = all_expected * base
        all_expected = heaped * all_expected.sum() / max(heaped.sum(), 1e-30)
    # downward: the count of a parent is distributed to its children
    parents, inside = np.array([total]), np.array([False])
    for level in range(len(sizes) - 1, -1, -1):
        fan = sizes[level] if level == len(sizes) - 1 else FAN
        starts = np.arange(0, cells, FAN**level)
        expected = np.add.reduceat(all_expected, starts)
        own = np.logical_and.reduceat(all_inside, starts)
        alike = np.add.reduceat(base, starts)
        children = _Children(best[level], spread[level], expected, alike, own)
        parents, inside = _Family.of(children, parents, inside, fan).distributed(), own
    return Estimate(parents, tails)


def _tails(
    best: list[np.ndarray],
    levels: list[np.ndarray],
    edges: np.ndarray,
    *,
    variance: float,
    total: float,
    closer: Nodes | None,
) -> Tails:
    """The fitted tails, from least-squares counts and from all counts."""
    cells, pilot = len(edges) - 1, np.array([total])
    for level in range(len(levels) - 1, -1, -1):  # downward: children sum to their parents
        num, fan = len(best[level]), len(best[level]) if level == len(levels) - 1 else FAN
        starts = np.arange(0, num, fan)
        sums, sizes = np.add.reduceat(best[level], starts), np.diff(np.append(starts, num))
        pilot = best[level] + np.repeat((pilot - sums) / sizes, sizes)
    nodes: list[Nodes] = []
    for level, own in enumerate(levels):
        starts = np.arange(0, cells, FAN**level)
        nodes.append(Nodes(starts, np.append(starts[1:], cells), own, variance))
    return fitted_tails(pilot, nodes, edges, total=total, closer=closer)


class _Children(NamedTuple):
    """One array each, of all nodes of a level: see `_Family`."""

    values: np.ndarray
    error: np.ndarray
    expected: np.ndarray
    alike: np.ndarray
    tail: np.ndarray


@dataclass(frozen=True)
class _Family:
    """Parents and their children: one row for each parent, padded to the same number of children."""

    parents: np.ndarray
    in_tail: np.ndarray
    """Whether a parent lies in a tail."""
    exists: np.ndarray
    values: np.ndarray
    error: np.ndarray
    """The variance of each value."""
    expected: np.ndarray
    """The count that the fit of a tail expects."""
    alike: np.ndarray
    """The count relative to other children where all is alike."""
    tail: np.ndarray
    """Whether a child lies in a tail."""

    @classmethod
    def of(
        cls, children: "_Children", parents: np.ndarray, in_tail: np.ndarray, fan: int
    ) -> "_Family":
        pad = len(parents) * fan - len(children.values)
        exists, values, error, *rest = (
            np.pad(array, (0, pad)).reshape(-1, fan)
            for array in (np.ones(len(children.values), bool), *children)
        )
        return cls(parents, in_tail, exists, values, error + 1e-12, *rest)

    def distributed(self) -> np.ndarray:
        """Nonnegative children that sum to their parents."""
        # a child in a tail, of a parent that is not, is as expected unless it clearly differs
        outer = self.tail & ~self.in_tail[:, None]
        apart = np.abs(self.values - self.expected)
        clear = apart > _CLEAR * np.sqrt(self.error + self.expected)
        outer_counts = np.where(outer, np.where(clear, self.values, self.expected), 0.0)
        outer_counts = np.maximum(outer_counts, 0)
        sums = outer_counts.sum(axis=1)
        outer_counts *= np.minimum(1, self.parents / np.maximum(sums, 1e-30))[:, None]
        rest = np.maximum(self.parents - outer_counts.sum(axis=1), 0)
        inner = self.exists & ~outer
        counts = np.where(self.in_tail[:, None], self._as_fitted(), self._about_even(inner, rest))
        return np.where(outer, outer_counts, counts)[self.exists]

    def _as_fitted(self) -> np.ndarray:
        """Children in the proportions of the fitted tail, unless they clearly differ from it."""
        sums = (self.expected * self.exists).sum(axis=1, keepdims=True)
        even = self.exists / self.exists.sum(axis=1, keepdims=True)
        share = np.where(sums > 0, self.expected / np.where(sums > 0, sums, 1.0), even)
        # what a parent has beyond the fit is a heap somewhere, not more of the tail everywhere
        most = np.where(sums > 0, np.minimum(self.parents[:, None], sums), self.parents[:, None])
        center = share * most
        apart = (self.values - center) * self.exists
        spike = apart > _SPIKE * np.sqrt(self.error + center)
        rest = self.exists & ~spike
        squares = (apart**2 / self.error * rest).sum(axis=1, keepdims=True)
        num = np.maximum(rest.sum(axis=1, keepdims=True), 1)
        clear = squares > num + _CLEAR * np.sqrt(2 * num)
        keep = np.where(clear, 1 - num / np.maximum(squares, 1e-12), 0.0)
        return self._normed(
            np.where(spike, self.values, center + keep * apart), self.exists, self.parents, share
        )

    def _about_even(self, own: np.ndarray, parents: np.ndarray) -> np.ndarray:
        """The children in `own`, shrunk towards their mean, or towards what is `alike`."""
        count = np.maximum(own.sum(axis=1, keepdims=True), 1)
        alike = self.alike * own
        share = alike / np.maximum(alike.sum(axis=1, keepdims=True), 1e-30)
        values = self.values * own
        values = values + own * (parents[:, None] - values.sum(axis=1, keepdims=True)) / count
        # without the spikes, which would move the mean
        some = own.any(axis=1, keepdims=True)
        middle = np.nanmedian(np.where(own | ~some, values, np.nan), axis=1, keepdims=True)
        middle = np.maximum(middle, 0) * share * count
        spike = own & (values - middle > _SPIKE * np.sqrt(self.error + middle))
        rest = own & ~spike
        num = np.maximum(rest.sum(axis=1, keepdims=True), 1)
        part = (share * rest).sum(axis=1, keepdims=True)
        mean = (values * rest).sum(axis=1, keepdims=True) * share / np.maximum(part, 1e-30)
        apart = np.where(rest, values - mean, 0.0)
        noise = (self.error * rest).sum(axis=1, keepdims=True) * np.maximum(num - 1, 0) / num
        keep = np.clip(1 - noise / np.maximum((apart**2).sum(axis=1, keepdims=True), 1e-12), 0, 1)
        shrunk = np.where(spike, values, mean + keep * apart)
        return self._normed(shrunk, own, parents, share)

    @staticmethod
    def _normed(
        values: np.ndarray, own: np.ndarray, parents: np.ndarray, otherwise: np.ndarray
    ) -> np.ndarray:
        values = np.maximum(values, 0.0) * own
        sums = values.sum(axis=1, keepdims=True)
        share = np.where(sums > 0, values / np.where(sums > 0, sums, 1.0), otherwise)
        return share * np.maximum(parents, 0)[:, None]
