"""The tails of a column, from noisy counts that say little about any one of their cells.

Bounds are usually far wider than the records, so most of a range is empty, and what noise leaves
there weighs much in a deviation or an extreme quantile. A few hundred records beyond a threshold
still show how fast a tail falls off: a generalized Pareto distribution, the limit of tails of nearly
every kind, is fitted to the counts beyond it. Only released counts are read: it is post-processing,
and costs nothing.
"""

# NumPy leaves some results open
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownMemberType=false

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

_RECORDS = 16.0
"""Records in a tail, in standard deviations of the noise in a node: so many show its shape."""
_MOST = 0.25
"""The largest share of the records that is a tail."""
_LEAST = 4.0
"""Deviations of the noise below which nothing can be said about a tail."""
_OUTLIER = 4.5
"""Deviations above the fit from which on a node is a heap, not a tail."""
_SHAPES = np.linspace(-1.0, 0.8, 13)
_SHAPE, _SHAPE_SPREAD = 0.1, 0.3
"""Tails are assumed to be about exponential, or a little heavier, unless counts say otherwise."""
_NUM_SCALES, _SCALE_SPREAD = 40, 1.5
_SLOW = 3.0
"""The power of the slow decay in the tails."""
_HALVES, _DOUBLES = 7, 3
"""Groups of a tail that each hold half of the rest, and groups beyond, each twice as far."""
MOST_GROUPS = 2 * (_HALVES + _DOUBLES + 2)
"""The most groups of both tails of a column."""
_BELIEVED, _LEAST_WEIGHT = 0.7, 0.35
"""How far the size of a tail is believed to tell what rows in it counted, and the least they do."""
_NEAREST = 64
"""Nodes of each level, from the threshold on, that are compared with a fit."""


@dataclass(frozen=True)
class Nodes:
    """Independent noisy counts of runs of cells."""

    starts: Int[np.ndarray, " nodes"]
    ends: Int[np.ndarray, " nodes"]
    counts: Float[np.ndarray, " nodes"]
    variance: float
    """Of the noise in each count."""

    def mirrored(self, cells: int) -> "Nodes":
        """The same nodes of cells in the opposite order."""
        return Nodes(
            cells - self.ends[::-1], cells - self.starts[::-1], self.counts[::-1], self.variance
        )


@dataclass(frozen=True)
class Tail:
    """A generalized Pareto distribution beyond a threshold."""

    start: int
    """Its first cell; the number of cells if there is no tail."""
    size: float
    """The number of records in it."""
    shape: float
    scale: float

    def beyond(self, away: Float[np.ndarray, " places"]) -> Float[np.ndarray, " places"]:
        """The number of records that lie farther than `away` from the threshold."""
        return self.size * _survival(away, self.shape, self.scale)

    def counts(self, edges: Float[np.ndarray, " borders"]) -> Float[np.ndarray, " cells"]:
        """The expected count of each cell from `start` on."""
        beyond = self.beyond(edges[self.start :] - edges[self.start])
        return np.maximum(beyond[:-1] - beyond[1:], 0.0)

    def decay(self, edges: Float[np.ndarray, " borders"]) -> Float[np.ndarray, " cells"]:
        """A density of cells from `start` on that falls off slowly."""
        away = edges[self.start : -1] - edges[self.start]
        return (1 + away / self.scale) ** -_SLOW

    def groups(self, edges: Float[np.ndarray, " borders"]) -> Int[np.ndarray, " borders"]:
        """Borders, as cells, of runs that each hold half of what lies beyond the one before."""
        cells = len(edges) - 1
        if self.start >= cells:
            return np.array([cells])
        away = edges[self.start :] - edges[self.start]
        beyond = self.beyond(away) / max(self.size, 1e-30)
        halves = np.searchsorted(-beyond, -(0.5 ** np.arange(1, _HALVES + 1)))
        farthest = away[min(halves[-1], len(away) - 1)]
        farther = np.searchsorted(away, farthest * 2.0 ** np.arange(1, _DOUBLES + 1))
        borders = np.concatenate([[0], halves, farther, [cells - self.start]])
        return self.start + np.unique(np.minimum(borders, cells - self.start))


@dataclass(frozen=True)
class Tails:
    """Both tails of a column; the lower one in mirrored cells."""

    lower: Tail
    upper: Tail
    edges: Float[np.ndarray, " borders"]

    @property
    def groups(self) -> Int[np.ndarray, "two groups"]:
        """The first cells and the ends of the groups of both tails: see `Tail.groups`."""
        cells = len(self.edges) - 1
        lower = cells - self.lower.groups(1 - self.edges[::-1])[::-1]
        upper = self.upper.groups(self.edges)
        starts, ends = (np.append(lower[cut], upper[cut]) for cut in (slice(-1), slice(1, None)))
        return np.stack([starts, ends])

    @property
    def inside(self) -> Bool[np.ndarray, " cells"]:
        """Whether a cell lies in a tail."""
        cells = np.arange(len(self.edges) - 1)
        return (cells >= self.upper.start) | (cells[::-1] >= self.lower.start)

    @property
    def expected(self) -> Float[np.ndarray, " cells"]:
        """The fitted count of each cell; zero between the tails."""
        return self._both(Tail.counts, 0.0)

    @property
    def decay(self) -> Float[np.ndarray, " cells"]:
        """How likely a record is where no count is: as anywhere between the tails, less in them."""
        return self._both(Tail.decay, 1.0)

    def _both(self, of: Callable[[Tail, np.ndarray], np.ndarray], between: float) -> np.ndarray:
        cells = len(self.edges) - 1
        values = np.full(cells, between)
        if self.upper.start < cells:
            values[self.upper.start :] = of(self.upper, self.edges)
        if self.lower.start < cells:
            values[: cells - self.lower.start] = of(self.lower, 1 - self.edges[::-1])[::-1]
        return values


def fitted_tails(
    pilot: Float[np.ndarray, " cells"],
    levels: Sequence[Nodes],
    edges: Float[np.ndarray, " borders"],
    *,
    total: float,
    closer: Nodes | None = None,
) -> Tails:
    """Both tails of a column.

    Args:
        pilot: Unbiased counts of all cells, which may be negative.
        levels: The noisy counts of each level.
        edges: The borders of the cells.
        total: The number of records in the cells.
        closer: Counts of the groups of the tails that were fitted without them.
    """
    cells = len(pilot)
    upper = _upper(pilot, levels, edges, total, closer)
    levels = [nodes.mirrored(cells) for nodes in levels]
    closer = None if closer is None else closer.mirrored(cells)
    lower = _upper(pilot[::-1], levels, 1 - edges[::-1], total, closer)
    if upper.start < cells - lower.start:  # noise alone: they overlap
        lower = _none(cells)
    return Tails(lower, upper, edges)


def _upper(
    pilot: np.ndarray,
    levels: Sequence[Nodes],
    edges: np.ndarray,
    total: float,
    closer: Nodes | None,
) -> Tail:
    """The upper tail."""
    cells = len(pilot)
    none = _none(cells)
    noise = levels[-1].variance ** 0.5
    records = min(_RECORDS * noise, _MOST * total)
    if records < max(_LEAST * noise, 1.0):
        return none
    above = np.cumsum(pilot[::-1])[::-1]  # the records in each cell and those after it
    start = int(np.flatnonzero(above >= records)[-1]) + 1 if (above >= records).any() else cells
    if start >= cells - 1:
        return none
    # where a tail of four times as many records starts: how wide it is, by the records before it
    wider = np.flatnonzero(above >= min(4 * records, 0.9 * total))
    before = edges[start] - edges[wider[-1] + 1] if len(wider) else 0.0
    away = edges[start:] - edges[start]
    scales = np.geomspace(max(away[1], 1e-12), max(away[-1], 2e-12), _NUM_SCALES)
    penalty = ((_SHAPES - _SHAPE) / _SHAPE_SPREAD)[:, None] ** 2
    if before > 0:
        penalty = penalty + (np.log(scales / (before / np.log(4))) / _SCALE_SPREAD)[None] ** 2
    seen = _seen(levels, start)
    if closer is not None:
        size, *_ = _best(seen, away, scales, penalty)
        seen = np.concatenate([seen, _seen([_rescaled(closer, start, size)], start)], axis=1)
    *_, seen = _best(seen, away, scales, penalty)  # from here on without heaps
    size, shape, scale, _ = _best(seen, away, scales, penalty)
    return Tail(start, size, shape, scale)


def _rescaled(closer: Nodes, start: int, size: float) -> Nodes:
    """Counts of groups as they would be if every row counted fully, for a tail of about this size.

    Rows in many tails count less, as they do where columns rise together.
    """
    counted = closer.counts[closer.starts >= start].sum()
    full = 1 + _BELIEVED * (counted / max(size, 1e-30) - 1)
    full = float(np.clip(full, _LEAST_WEIGHT, 1.0))
    return Nodes(closer.starts, closer.ends, closer.counts / full, closer.variance / full**2)


def _none(cells: int) -> Tail:
    return Tail(cells, 0.0, 0.0, 1.0)


def _seen(levels: Sequence[Nodes], start: int) -> np.ndarray:
    """Nodes that lie beyond `start`: first and last border from there, count and variance."""
    rows = []
    for nodes in levels:
        first = int(np.searchsorted(nodes.starts, start))
        own = slice(first, first + _NEAREST)
        begin, end, counts = nodes.starts[own], nodes.ends[own], nodes.counts[own]
        rows.append(
            np.stack([begin - start, end - start, counts, np.full(len(begin), nodes.variance)])
        )
    return np.concatenate(rows, axis=1)


def _survival(away: np.ndarray, shape: float | np.ndarray, scale: float | np.ndarray) -> np.ndarray:
    """The share of a tail that lies farther away than each of `away`."""
    shape = np.where(np.abs(shape) < 1e-6, 1e-6, shape)
    return np.maximum(1 + shape * away / scale, 0.0) ** (-1 / shape)


def _best(
    seen: np.ndarray, away: np.ndarray, scales: np.ndarray, penalty: np.ndarray
) -> tuple[float, float, float, np.ndarray]:
    """The size, shape and scale of the best tail, and the nodes that it explains."""
    begin, end = seen[:2].astype(np.int64)
    counts, variance = seen[2:]
    places, back = np.unique(np.concatenate([begin, end]), return_inverse=True)
    beyond = _survival(away[places], _SHAPES[:, None, None], scales[None, :, None])
    share = np.maximum(beyond[..., back[: len(begin)]] - beyond[..., back[len(begin) :]], 0)
    # records vary as well as the noise, by about their number
    weight = 1 / (variance + np.maximum(counts, 1.0))
    size = (weight * share * counts).sum(-1) / np.maximum((weight * share**2).sum(-1), 1e-30)
    size = np.maximum(size, 0.0)
    misfit = (weight * (counts - size[..., None] * share) ** 2).sum(-1) + penalty
    at = np.unravel_index(int(np.argmin(misfit)), misfit.shape)
    own = size[at] * share[at]
    explained = counts - own <= _OUTLIER * np.sqrt(variance + own)
    return float(size[at]), float(_SHAPES[at[0]]), float(scales[at[1]]), seen[:, explained]
