"""Dominating pairs: for each kind of release, the two outputs that are easiest to tell apart.

A pair (P, Q) is described by the tails of its privacy loss L = log dP/dQ: `S(t) = P(L > t)` and
`R(t) = e^t Q(L > t)`. Their difference is the smallest delta at epsilon t, so an accountant needs
nothing else.
"""

# SciPy and dp-accounting have no type stubs
# pyright: reportMissingTypeStubs=false

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtr, ndtri

from veilflow.privacy.accounting.conversions import log_delta_of_rho

Array = NDArray[np.float64]

_LOW_TAIL = -12.0
"""Losses this many standard deviations below the mean are rounded up: 1e-32 of the mass."""


class Pair(Protocol):
    """What `composition` needs of a dominating pair."""

    def tails(self, t: Array) -> tuple[Array, Array]:
        """`P(L > t)` and `e^t Q(L > t)` at each t."""
        ...

    def nodes(self, *, num: int, tail: float) -> Array:
        """Increasing losses that cover all but about `tail` of P, dense where the mass is."""
        ...


@dataclass(frozen=True)
class GaussianPair:
    """(1 - q) N(0, s^2) + q N(1, s^2) against N(0, s^2), or the reverse if `adding`."""

    noise_multiplier: float
    sampling_rate: float
    adding: bool

    def _cut(self, t: Array) -> Array:
        """The x, in standard deviations, at which the loss is `t`; -inf if no x reaches it."""
        q, s = self.sampling_rate, self.noise_multiplier
        u = -t if self.adding else t
        # log((e^u - 1 + q) / q), without cancellation between e^u and 1.
        with np.errstate(divide="ignore"):
            near = np.log1p(np.maximum(np.expm1(np.clip(u, -1.0, 1.0)) / q, -1.0))
            lost = np.minimum((1 - q) * np.exp(np.clip(-u, -700.0, 700.0)), 1.0)
            far = u + np.log1p(-lost) - math.log(q)
            return s * np.where(np.abs(u) > 1.0, far, near) + 0.5 / s

    def tails(self, t: Array) -> tuple[Array, Array]:
        """`P(L > t)` and `e^t Q(L > t)` at each t."""
        q, s = self.sampling_rate, self.noise_multiplier
        x = self._cut(t)
        if self.adding:
            above = ndtr(x)
            mixture = np.logaddexp(_log1m(q) + log_ndtr(x), math.log(q) + log_ndtr(x - 1 / s))
            scaled = np.exp(np.minimum(t + mixture, 0.0))
        else:
            above = (1 - q) * ndtr(-x) + q * ndtr(1 / s - x)
            scaled = np.exp(np.minimum(t + log_ndtr(-x), 0.0))
        return above, np.minimum(scaled, above)

    def nodes(self, *, num: int, tail: float) -> Array:
        """Losses at equal steps of the noise."""
        q, s = self.sampling_rate, self.noise_multiplier
        far = -float(ndtri(max(tail, 1e-300)))
        if self.adding:
            x = np.linspace(-far, -_LOW_TAIL, num)[::-1]
        else:
            x = np.linspace(_LOW_TAIL, far + 1 / s, num)
        raw = x / s - 0.5 / s**2
        loss = np.logaddexp(_log1m(q), math.log(q) + raw)
        return np.unique(-loss if self.adding else loss)


@dataclass(frozen=True)
class LaplacePair:
    """Laplace noise of scale `noise_multiplier` around 1 against around 0."""

    noise_multiplier: float

    def tails(self, t: Array) -> tuple[Array, Array]:
        """`P(L > t)` and `e^t Q(L > t)` at each t."""
        top = 1 / self.noise_multiplier
        # Both tails are half an exponential. All mass of P is above -top, none above top.
        above = np.where(t < top, 1 - 0.5 * np.exp(np.minimum((t - top) / 2, 0.0)), 0.0)
        above = np.where(t < -top, 1.0, above)
        scaled = np.where(t < top, 0.5 * np.exp(np.minimum((t - top) / 2, 0.0)), 0.0)
        return above, np.where(t < -top, np.exp(np.minimum(t, 0.0)), scaled)

    def nodes(self, *, num: int, tail: float) -> Array:
        """The whole support: the loss is bounded."""
        return np.linspace(-1 / self.noise_multiplier, 1 / self.noise_multiplier, num)


@dataclass(frozen=True)
class BoundedRangePair:
    """The pair that dominates every `epsilon`-bounded-range release.

    The worst such release has two outcomes, of losses t and t - epsilon, for some t in [0, epsilon].
    Over all t, the largest delta at a >= 0 is (e^(epsilon/2) - e^(a/2))^2 / (e^epsilon - 1). It is
    convex in e^a, so it is itself the curve of a pair, whose loss has density proportional to e^(a/2)
    on [-epsilon, epsilon]. Pairs compose under adaptive choice; a single t would not.
    """

    epsilon: float

    def tails(self, t: Array) -> tuple[Array, Array]:
        """`P(L > t)` and `e^t Q(L > t)` at each t."""
        inside = np.clip(t, -self.epsilon, self.epsilon)
        scale = -math.expm1(-self.epsilon)
        above = -np.expm1((inside - self.epsilon) / 2) / scale
        scaled = (np.exp((inside - self.epsilon) / 2) - np.exp(inside - self.epsilon)) / scale
        return above, np.minimum(
            np.where(t < -self.epsilon, np.exp(np.minimum(t, 0)), scaled), above
        )

    def nodes(self, *, num: int, tail: float) -> Array:
        """The whole support: the loss is bounded."""
        return np.linspace(-self.epsilon, self.epsilon, num)


@dataclass(frozen=True, eq=False)
class AtomicPair:
    """A pair whose loss takes finitely many values and is infinite with probability `lost`."""

    losses: Array
    masses: Array
    lost: float = 0.0

    def tails(self, t: Array) -> tuple[Array, Array]:
        """`P(L > t)` and `e^t Q(L > t)` at each t."""
        above = np.append(np.cumsum(self.masses[::-1])[::-1], 0.0) + self.lost
        with np.errstate(divide="ignore"):
            log_q = np.log(self.masses) - self.losses
        log_q = np.append(np.logaddexp.accumulate(log_q[::-1])[::-1], -np.inf)
        i = np.searchsorted(self.losses, t, side="right")
        return above[i], np.minimum(np.exp(np.minimum(t + log_q[i], 0.0)), above[i])

    def nodes(self, *, num: int, tail: float) -> Array:
        """The atoms themselves."""
        return self.losses


def randomized_response(epsilon: float, delta: float = 0.0) -> AtomicPair:
    """The pair that dominates every (epsilon, delta)-DP release: a coin that may fail."""
    low = math.exp(-epsilon) / (1 + math.exp(-epsilon))
    masses = (1 - delta) * np.array([low, 1 - low])
    if epsilon == 0:
        return AtomicPair(np.array([0.0]), np.array([1 - delta]), delta)
    return AtomicPair(np.array([-epsilon, epsilon]), masses, delta)


@lru_cache(maxsize=64)
def zero_concentrated(rho: float, *, tail: float, num: int = 1500) -> AtomicPair:
    """A pair that dominates every `rho`-zCDP release.

    The largest delta of such releases at epsilon a is a convex function of e^a and lies below the
    numeric conversion at every a. Hence it also lies below the largest convex function that stays
    under the values of the conversion on a grid. That function is the curve of this pair.
    """
    top = rho + 2 * math.sqrt(rho * -math.log(tail)) + 1e-12
    right = np.linspace(0.0, top, num)
    delta = np.exp(log_delta_of_rho(rho, right))
    # Swapping P and Q keeps rho, and turns delta(a) into 1 - e^-a + e^-a delta(a).
    left = -np.expm1(-right) + np.exp(-right) * delta
    losses = np.concatenate([-right[:0:-1], right])
    curve = np.concatenate([left[:0:-1], delta])
    kept = _convex_hull(losses, curve)
    losses, curve = losses[kept], curve[kept]
    # Q's tail at a node is minus the slope of the curve in e^a; masses are its steps.
    slopes = np.diff(curve) / np.expm1(np.diff(losses))  # times e^(loss at the left end)
    tails_left = np.append(-slopes, 0.0)
    tails_right = np.append((1 - curve[0]), -slopes * np.exp(np.diff(losses)))
    return AtomicPair(losses, np.maximum(tails_right - tails_left, 0.0), float(curve[-1]))


def _convex_hull(losses: Array, curve: Array) -> list[int]:
    """Indices of the lower hull of `curve` as a function of e^losses, starting at (0, 1)."""
    kept: list[int] = []
    for i in range(len(losses)):
        while kept:
            j = kept[-1]
            if len(kept) > 1:
                before = (curve[j] - curve[kept[-2]]) / -math.expm1(losses[kept[-2]] - losses[j])
            else:
                before = curve[j] - 1.0
            after = (curve[i] - curve[j]) / math.expm1(losses[i] - losses[j])
            if after >= before:
                break
            kept.pop()
        kept.append(i)
    return kept


def _log1m(q: float) -> float:
    return math.log1p(-q) if q < 1 else -math.inf
