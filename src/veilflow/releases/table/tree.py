"""A histogram of many cells counted at several widths at once, and the best estimate of its cells.

The noise of a range is that of every count in it. With fine cells alone a tail of two thousand
records over a thousand cells would drown; so runs of sixteen cells are counted too, and runs of
sixteen of those. A record is in one cell of each level, and the levels share its weight of one.
"""

import numpy as np
from jaxtyping import Float, Int

_FAN = 16
"""Children of a node."""
_TOP = 24
"""Nodes from which no wider level is counted."""
_SPIKE = 5.0
"""Deviations of the noise from which a cell stands out for itself."""


def level_sizes(cells: int) -> tuple[int, ...]:
    """Nodes of each level, the finest first."""
    sizes = [cells]
    while sizes[-1] > _TOP:
        sizes.append(-(-sizes[-1] // _FAN))
    return tuple(sizes)


def weighted_counts(at: Int[np.ndarray, " rows"], cells: int) -> Float[np.ndarray, " nodes"]:
    """Counts of all levels, one after the other. One row moves them by 1 in L2."""
    sizes = level_sizes(cells)
    weight, counts = len(sizes) ** -0.5, [np.bincount(at, minlength=cells)]
    while len(counts) < len(sizes):
        counts.append(np.add.reduceat(counts[-1], np.arange(0, len(counts[-1]), _FAN)))
    return weight * np.concatenate(counts).astype(np.float64)


def estimate(
    noisy: Float[np.ndarray, " nodes"], cells: int, *, deviation: float, total: float
) -> Float[np.ndarray, " cells"]:
    """Non-negative cells that sum to `total`, from what `weighted_counts` gave with noise.

    First the least squares over all levels; then, from the widest down, children are drawn together
    as far as their differences are no more than noise (James and Stein), spikes left out.

    Args:
        noisy: Counts of all levels with noise.
        cells: How many cells there are.
        deviation: Standard deviation of the noise in each number.
        total: Declared or released number of records in the cells.
    """
    sizes = level_sizes(cells)
    weight = len(sizes) ** -0.5
    levels = [part / weight for part in np.split(noisy, np.cumsum(sizes)[:-1])]
    variance = (deviation / weight) ** 2
    # upward: what a node and all below it say of its count
    best, spread = [levels[0]], [np.full(cells, variance)]
    for own in levels[1:]:
        starts = np.arange(0, len(best[-1]), _FAN)
        below, error = np.add.reduceat(best[-1], starts), np.add.reduceat(spread[-1], starts)
        trust = error / (error + variance) if variance else np.full(len(own), 0.5)
        best.append(trust * own + (1 - trust) * below)
        spread.append(trust * variance)
    # downward: a parent's count is shared out among its children
    parents = np.array([total])
    for level in range(len(sizes) - 1, -1, -1):
        size = sizes[level]
        fan = size if level == len(sizes) - 1 else _FAN
        parents = _shared_out(parents, best[level], spread[level], fan)
    return parents


def _shared_out(
    parents: np.ndarray, children: np.ndarray, spread: np.ndarray, fan: int
) -> np.ndarray:
    """Children that are not negative and sum to their parents."""
    pad = len(parents) * fan - len(children)
    there = np.pad(np.ones(len(children), bool), (0, pad)).reshape(-1, fan)
    found = np.pad(children, (0, pad)).reshape(-1, fan)
    error = np.pad(spread, (0, pad)).reshape(-1, fan) + 1e-12
    count = there.sum(axis=1, keepdims=True)
    found += there * (parents[:, None] - (found * there).sum(axis=1, keepdims=True)) / count
    # of the rest, the mean is what noise would leave; a spike would pull it along
    middle = np.nanmedian(np.where(there, found, np.nan), axis=1, keepdims=True)
    spike = there & (found - middle > _SPIKE * np.sqrt(error + np.maximum(middle, 0)))
    rest = there & ~spike
    num = np.maximum(rest.sum(axis=1, keepdims=True), 1)
    mean = (found * rest).sum(axis=1, keepdims=True) / num
    apart = np.where(rest, found - mean, 0.0)
    noise = (error * rest).sum(axis=1, keepdims=True) * np.maximum(num - 1, 0) / num
    keep = np.clip(1 - noise / np.maximum((apart**2).sum(axis=1, keepdims=True), 1e-12), 0, 1)
    shrunk = np.maximum(np.where(spike, found, mean + keep * apart), 0.0) * there
    sums = shrunk.sum(axis=1, keepdims=True)
    even = there / count
    share = np.where(sums > 0, shrunk / np.where(sums > 0, sums, 1.0), even)
    return (share * np.maximum(parents, 0)[:, None])[there]
