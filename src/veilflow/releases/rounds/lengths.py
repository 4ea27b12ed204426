"""Clipping bounds from noisy counts of lengths: post-processing of what was released.

A bound that is too high adds noise, which the posterior knows of and is wider by. A bound that is too
low cuts the longest contributions, and where these all point one way, as they do for the standard
deviation of normal errors, the posterior is somewhere else and does not know it. A share of records
that is cut moves it by more and more standard deviations as records grow in number, while noise moves
it by fewer. So the bound is not a quantile of the lengths. It lies above the longest length that can
be told from noise, by a factor that covers those that cannot.

With many records every relevant bin stands out by itself. With few, a bin may hide a good part of them,
so several bins are read together.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from veilflow.releases.rounds.statistics import SENSITIVITY, bin_tops

NOISE_RANGE = (1e-3, 1e6)
"""Range of noise multipliers that is searched."""
_CERTAIN = 4.5
"""Deviations of the noise above which a bin is considered occupied: there are thousands of bins."""
_ENOUGH = 80.0
"""Records in occupied bins over the noise multiplier of a count: with fewer, another bin may hide a
twelfth of them."""
_WIDTHS = (1, 2, 4, 8)
"""Numbers of neighboring bins that are read together."""
_SEARCHED = 0.98
"""Share of the lengths that early rounds, and values, do not cut."""
ABOVE = (2.0, 1.0)
"""The bounds of gradients and of curvatures over the longest lengths. Clipping a gradient moves the
posterior; clipping a curvature widens it, as its noise does."""

Counts = Float[np.ndarray, "2 bins"]


@dataclass(frozen=True)
class Lengths:
    """Estimates from counts of lengths.

    Attributes:
        bounds: Of gradients and of curvatures; infinite if nothing is significant.
        rough: Lower ones for rounds that search, which cut the longest and need less noise.
        num_records: Estimated number of records.
        few: Whether records are few for the noise, so that the bounds are uncertain.
    """

    bounds: tuple[float, float]
    rough: tuple[float, float]
    num_records: float
    few: bool

    @property
    def significant(self) -> bool:
        """Whether both bounds are significant."""
        return bool(np.isfinite(self.bounds).all())


def read_counts(counts: Counts, noise: float) -> Lengths:
    """Estimate bounds and the number of records from noisy counts of lengths.

    Args:
        counts: Noisy counts of lengths of gradients and of curvatures.
        noise: The noise multiplier; 0 for none.
    """
    level = _level(noise * SENSITIVITY)
    filled = [_significant(row[1:], level) for row in counts]
    bounds = [a * _longest(row, 1.0) for a, row in zip(ABOVE, filled, strict=True)]
    rough = [_longest(row, _SEARCHED) for row in filled]
    certain = np.where(counts > level, counts, 0.0)
    # records without information, in the first bin, do not affect what is known of others
    few = bool(certain[:, 1:].sum(axis=1).min() < max(_ENOUGH * noise, 0.5))
    occupied = certain
    if few:
        occupied = np.concatenate([certain[:, :1], filled], axis=1)
    number = float(max(1.0, occupied.sum(axis=1).mean()))
    return Lengths((bounds[0], bounds[1]), (rough[0], rough[1]), number, few)


def nearly_longest(counts: Float[np.ndarray, " bins"], noise: float) -> float:
    """The bound of values, from one histogram, which a record moves by 1; inf if nothing is certain.

    Where there is noise it cuts the longest, as the bounds of early rounds do: a shape needs less
    noise more than it needs the last record.
    """
    return _longest(_significant(counts[1:], _level(noise)), _SEARCHED if noise else 1.0)


def _longest(counts: Float[np.ndarray, " bins"], share: float) -> float:
    """The length that this share of significant counts does not exceed; inf if there are none."""
    if not counts.any():
        return np.inf
    # a bin of a significant window may be below zero, and still holds records
    reached = np.cumsum(np.where(counts == 0.0, 0.0, np.maximum(counts, 1e-6)))
    return float(bin_tops()[1 + np.searchsorted(reached, share * reached[-1])])


def _level(deviation: float) -> float:
    """The count above which a bin is considered occupied."""
    return max(_CERTAIN * deviation, 0.5)


def _significant(noisy: Float[np.ndarray, " bins"], level: float) -> Float[np.ndarray, " bins"]:
    """The counts of neighboring bins that are significant together, 0 elsewhere.

    The most significant window is taken first, then the next among the remaining bins.
    """
    occupied, left = np.zeros(len(noisy)), noisy.copy()
    while True:
        # the deviation of a sum of bins grows with the square root of their number
        windows = [
            (sums / width**0.5, width)
            for width in _WIDTHS
            for sums in [np.convolve(left, np.ones(width), mode="valid")]
        ]
        scores, width = max(windows, key=lambda pair: pair[0].max())
        if scores.max() <= level:
            return occupied
        window = slice(scores.argmax(), scores.argmax() + width)
        occupied[window], left[window] = noisy[window], -np.inf
