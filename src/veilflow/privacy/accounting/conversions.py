"""Closed forms and one-dimensional searches between rho, mu, epsilon and delta."""

# SciPy and dp-accounting have no type stubs
# pyright: reportMissingTypeStubs=false

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

Array = NDArray[np.float64]

_GOLDEN = (math.sqrt(5) - 1) / 2


def log_delta_of_rho(rho: float, epsilon: Array | float) -> Array:
    """Log of the smallest delta proved for `rho`-zCDP at each `epsilon`, at most 0.

    delta is the infimum over a > 1 of exp((a - 1)(a rho - epsilon)) / (a - 1) * (1 - 1/a)^a
    (Canonne, Kamath and Steinke 2020). Any a gives a bound, so the search need not be exact.
    """
    at = np.asarray(epsilon, dtype=np.float64)

    def bound(log_excess: Array) -> Array:
        excess = np.exp(log_excess)
        power = -(1 + excess) * np.log1p(1 / excess)
        return excess * ((1 + excess) * rho - at) - log_excess + power

    middle = np.log(np.maximum((at - rho) / (2 * rho), 1e-3))
    low, high = middle - 4, middle + 4
    for _ in range(36):  # golden section, all epsilons at once
        left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
        better = bound(left) < bound(right)
        low, high = np.where(better, low, left), np.where(better, right, high)
    return np.minimum(bound((low + high) / 2), 0.0)


def epsilon_of_rho(rho: float, delta: float) -> float:
    """The smallest epsilon proved for `rho`-zCDP at `delta`."""
    return _smallest(lambda e: float(log_delta_of_rho(rho, e)), delta, scale=rho)


def log_delta_of_mu(mu: float, epsilon: float) -> float:
    """Log of the exact delta of a Gaussian mechanism with noise multiplier 1 / mu.

    delta = Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu).
    """
    first = float(log_ndtr(mu / 2 - epsilon / mu))
    second = epsilon + float(log_ndtr(-mu / 2 - epsilon / mu))
    if second >= first:  # rounding: delta is far below what double precision can resolve
        return first - 20.0
    return first + math.log(-math.expm1(second - first))


def epsilon_of_mu(mu: float, delta: float) -> float:
    """The exact epsilon of a Gaussian mechanism with noise multiplier 1 / mu."""
    return _smallest(lambda epsilon: log_delta_of_mu(mu, epsilon), delta, scale=mu * mu / 2)


def _smallest(log_delta: Callable[[float], float], delta: float, *, scale: float) -> float:
    """The smallest epsilon with `log_delta(epsilon) <= log(delta)`, rounded up."""
    if delta <= 0 or not math.isfinite(scale):
        return math.inf
    if delta >= 1:
        return 0.0
    target = math.log(delta)
    if log_delta(0.0) <= target:
        return 0.0
    high = scale + 2 * math.sqrt(scale * -target) + 1e-12
    while log_delta(high) > target:
        high *= 2
        if high > 1e300:
            return math.inf
    return bisected(lambda epsilon: log_delta(epsilon) <= target, 0.0, high)


def bisected(
    fits: Callable[[float], bool], low: float, high: float, *, tolerance: float = 1e-12
) -> float:
    """The smallest value that fits, rounded up; `low` does not fit and `high` does."""
    while high - low > tolerance * high:
        middle = (low + high) / 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high
