"""Bounds for what records say, read from noisy counts of their lengths. All of it is post-processing.

With plenty of records every bin that matters stands out by itself. With few a bin may hide a good part
of them, and a bound below what hides there would cut it off: the sums would be wrong, and nothing would
tell. There bins are read several at a time, and the bound of gradients lies well above these lengths.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from veilflow.releases.rounds.statistics import SENSITIVITY, bin_tops

_CERTAIN = 4.5
"""Deviations of the noise above which bins are taken to hold somebody: there are thousands of them."""
_QUANTILE = 0.98
"""Of the lengths: the bound lies above so many of them."""
_ENOUGH = 80.0
"""Records in certain bins, over the noise multiplier of a count: with fewer, a bin that is not certain
may hide a twelfth of them."""
_WIDTHS = (1, 2, 4, 8)
"""Bins that are read together where there are fewer."""
_ABOVE = (2.0, 1.0)
"""The bounds over the longest lengths there. A gradient that is cut moves the posterior; a
curvature that is cut widens it, and noise on it does so, too."""


@dataclass(frozen=True)
class Lengths:
    """What counts of lengths say.

    Attributes:
        bounds: Of gradients and of curvatures; infinite where nothing stands out of the noise.
        num_records: About how many records there are, of those that say something or nothing.
        few: Whether records are few for the noise, so that bounds are less sure.
    """

    bounds: tuple[float, float]
    num_records: float
    few: bool

    @property
    def significant(self) -> bool:
        """Whether both bounds stand out of the noise."""
        return bool(np.isfinite(self.bounds).all())


def read_counts(counts: Float[np.ndarray, "2 bins"], noise: float) -> Lengths:
    """The bounds that noisy counts of lengths suggest, and about how many records there are.

    Args:
        counts: Of gradients, and of curvatures, as `length_counts` makes them, with noise.
        noise: Its multiplier; 0 for none.
    """
    level = _level(noise)
    kept = np.where(counts > level, counts, 0.0)
    tops, bounds = bin_tops(), []
    for row in kept:
        # records that say nothing, in the first bin, do not set the bounds of those that do
        row = np.append(0.0, row[1:])
        if not row.any() or row.sum() < _ENOUGH * noise:
            return read_few(counts, noise)
        bounds.append(float(tops[np.searchsorted(np.cumsum(row), _QUANTILE * row.sum())]))
    return Lengths((bounds[0], bounds[1]), float(max(1.0, kept.sum(axis=1).mean())), few=False)


def read_few(counts: Float[np.ndarray, "2 bins"], noise: float) -> Lengths:
    """The same where records are few: bins are read several at a time, with room above."""
    level, tops, bounds = _level(noise), bin_tops(), []
    kept = np.where(counts > level, counts, 0.0)
    for i, noisy in enumerate(counts):
        kept[i, 1:] = _standing_out(noisy[1:], level)
        filled = 1 + np.flatnonzero(kept[i, 1:])
        bounds.append(float(_ABOVE[i] * tops[filled[-1]]) if len(filled) else np.inf)
    return Lengths((bounds[0], bounds[1]), float(max(1.0, kept.sum(axis=1).mean())), few=True)


def _level(noise: float) -> float:
    """Below, a bin may as well be empty."""
    return max(_CERTAIN * noise * SENSITIVITY, 0.5)


def _standing_out(noisy: Float[np.ndarray, " bins"], level: float) -> Float[np.ndarray, " bins"]:
    """The counts in neighbouring bins that stand out together, 0 elsewhere.

    The neighbours that stand out most are taken first, then those among the bins that are left.
    """
    kept, left = np.zeros(len(noisy)), noisy.copy()
    while True:
        # the noise of a sum of so many bins is so many times larger, under the root
        windows = [
            (sums / width**0.5, width)
            for width in _WIDTHS
            for sums in [np.convolve(left, np.ones(width), mode="valid")]
        ]
        scores, width = max(windows, key=lambda pair: pair[0].max())
        if scores.max() <= level:
            return kept
        taken = slice(scores.argmax(), scores.argmax() + width)
        kept[taken], left[taken] = noisy[taken], -np.inf
