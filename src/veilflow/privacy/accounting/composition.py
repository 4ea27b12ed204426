"""Composition of dominating pairs on one grid: one Fourier transform per kind of release.

Losses are moved to a grid by splitting the mass of each cell between its two ends, so that P and Q
keep their totals ("connect the dots", Doroshenko et al. 2022). The delta curve on the grid then lies
on or above the true one everywhere, so every answer is an upper bound. Before the transform the
distribution is tilted towards the losses that decide the answer. Rounding is then small relative to
delta itself, not relative to 1, and a delta of 1e-30 is as safe as one of 1e-5.
"""

# SciPy and dp-accounting have no type stubs
# pyright: reportMissingTypeStubs=false, reportUnknownVariableType=false

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray
from scipy.fft import next_fast_len

from veilflow.privacy.accounting.conversions import bisected
from veilflow.privacy.accounting.pairs import Pair

Array = NDArray[np.float64]
Complex = NDArray[np.complex128]
Groups = Sequence[tuple[Pair, int]]

_VARIANCE = 1e-3
"""The relative growth in the variance of the loss that the coarsest grid may cause."""
_SETTLED = 1e-3
"""The relative change at which a grid is fine enough; the remaining error is smaller."""
_MIN_POINTS, _MAX_POINTS = 2**13, 2**22
_MAX_CELLS = 2**20
"""The most cells that one release may have on the grid."""
_COARSE = 1200
"""Nodes per release of the first, coarse grid, which only serves to choose tilt, window and step."""
_LEAK = 1e-10
"""The tilted mass that may lie beyond either end of the window."""
_TRIM = 1e-12
"""The tilted mass of low losses that may be rounded up, for all releases together."""
_MAX_MOVES = 8
_TINY = 1e-290
_GOLDEN = (math.sqrt(5) - 1) / 2
_ROUNDING = 2.0**-50
"""A generous bound on the relative error of the normal distribution function."""
MAX_COUNT = 10**9
"""With more releases than this, rounding in the Fourier transform could matter."""


class TooLargeError(Exception):
    """The composition does not fit the grid; the message says why."""


@dataclass(frozen=True)
class _Grid:
    """One release on nodes: log masses of P, and the mass at infinite loss."""

    losses: Array
    log_masses: Array
    lost: float
    count: int

    @property
    def highest(self) -> float:
        """The largest finite loss of all `count` releases together."""
        return self.count * float(self.losses[np.flatnonzero(self.log_masses > -math.inf)[-1]])


@dataclass(frozen=True)
class Composed:
    """The composed loss within a window, as weights of the delta curve."""

    losses: Array
    weights: Array
    floor: float
    below: float
    slack: float
    log_scale: float
    tilt: float

    def delta(self, epsilon: float) -> float:
        """An upper bound of delta at `epsilon`, tight near the epsilon it was composed for."""
        start = int(np.searchsorted(self.losses, epsilon, side="right"))
        terms = -np.expm1(epsilon - self.losses[start:]) * self.weights[start:]
        # The effect of rounding is proportional to the Chernoff bound at this epsilon.
        chernoff = math.exp(min(self.log_scale - self.tilt * epsilon, 700.0))
        floor = self.floor + (self.below if epsilon < self.losses[0] else 0.0)
        return min(1.0, floor + float(np.sum(terms)) + self.slack * chernoff)

    def epsilon(self, delta: float) -> float:
        """The smallest epsilon in the window with a delta of at most `delta`, rounded up."""
        low, high = max(float(self.losses[0]), 0.0), float(self.losses[-1])
        if self.delta(low) <= delta:
            return low
        if high <= low or self.delta(high) > delta:
            return math.inf
        return bisected(lambda e: self.delta(e) <= delta, low, high, tolerance=1e-9)


def epsilon(groups: Groups, *, delta: float) -> float:
    """An upper bound of epsilon at `delta` for all releases together, one direction."""
    if _is_single(groups):
        return _single_epsilon(groups[0][0], delta)
    coarse = _first_look(groups, tail=delta)
    target = -math.log(delta)
    tilt = _best_tilt(lambda t: (_log_mgf(coarse, t)[0] + target) / t)

    best = _compose(groups, coarse, tilt, 1).epsilon(delta)
    for _ in range(_MAX_MOVES):
        if best in (0.0, math.inf):
            break
        before, tilt = tilt, _centered(coarse, tilt, best)
        if tilt > before / 4:
            break
        # A move this far means that the window began near or above the answer: try again lower.
        lower = _compose(groups, coarse, tilt, 1).epsilon(delta)
        settled = lower >= best / (1 + _SETTLED)
        best = min(best, lower)
        if settled:
            break
    if best == 0:
        return 0.0
    return _refine(lambda fine: _compose(groups, coarse, tilt, fine).epsilon(delta), best)


def delta(groups: Groups, *, epsilon: float) -> float:
    """An upper bound of delta at `epsilon` for all releases together, one direction."""
    if _is_single(groups):
        return _single_delta(groups[0][0], epsilon)
    # The first grid only tells the magnitude of delta, and so which tails may be cut.
    coarse = _first_look(groups, tail=_TINY)
    tilt = _best_tilt(lambda t: _log_mgf(coarse, t)[0] - t * epsilon)
    log_delta = min(_log_mgf(coarse, tilt)[0] - tilt * epsilon, 0.0)
    fitting = _first_look(groups, tail=max(math.exp(max(log_delta, -660.0)) * 1e-3, _TINY))
    tilt = _centered(fitting, tilt, epsilon)

    def attempt(fineness: int) -> float:
        return _compose(groups, fitting, tilt, fineness).delta(epsilon)

    return _refine(attempt, attempt(1))


def _refine(attempt: Callable[[int], float], best: float) -> float:
    """Refines the grid until the answer settles; it is an upper bound on every grid."""
    for fineness in (4, 16, 64):
        previous = best
        try:
            best = min(best, attempt(fineness))
        except TooLargeError:
            break
        if best == 0 or previous / best < 1 + _SETTLED:
            break
    return best


def _is_single(groups: Groups) -> bool:
    return len(groups) == 1 and groups[0][1] == 1


def _single_delta(pair: Pair, epsilon: float) -> float:
    """The delta of one release, whose curve is known: there is nothing to compose."""
    above, scaled = pair.tails(np.array([epsilon]))
    return min(1.0, float((above - scaled + _ROUNDING * above)[0]))


def _single_epsilon(pair: Pair, delta: float) -> float:
    low, high = 0.0, 1.0
    if _single_delta(pair, low) <= delta:
        return low
    while _single_delta(pair, high) > delta:
        low, high = high, 2 * high
        if high > 1e9:
            return math.inf
    return bisected(lambda epsilon: _single_delta(pair, epsilon) <= delta, low, high)


def _first_look(groups: Groups, *, tail: float) -> list[_Grid]:
    total = sum(count for _, count in groups)
    if total > MAX_COUNT:
        raise TooLargeError(f"{total:.3g} releases are more than {MAX_COUNT:.0e}")
    share = max(tail * 1e-6 / total, 1e-300)
    return [_on_nodes(p, p.nodes(num=_COARSE, tail=share), n) for p, n in groups]


def _best_tilt(bound: Callable[[float], float]) -> float:
    """The smallest tilt at which a Chernoff bound is close to its minimum."""
    low, high = -7.0, 16.0
    while high - low > 0.04:  # golden section, in log space
        left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
        low, high = (low, right) if bound(math.exp(left)) < bound(math.exp(right)) else (left, high)
    # For a bounded loss the best tilt is infinite, which would leave a window without width.
    best, least = (low + high) / 2, bound(math.exp((low + high) / 2))
    while best > -7.0 and bound(math.exp(best - 0.1)) <= least + 0.003 * abs(least):
        best -= 0.1
    return math.exp(best)


def _centered(grids: list[_Grid], tilt: float, center: float) -> float:
    """The tilt whose mean loss is `center`, where the answer lies, searched for around `tilt`."""
    low, high = math.log(tilt) - 5.0, math.log(tilt) + 0.5
    for _ in range(14):
        middle = (low + high) / 2
        below = _log_mgf(grids, math.exp(middle))[1] < center
        low, high = (middle, high) if below else (low, middle)
    return math.exp((low + high) / 2)


def _on_nodes(pair: Pair, nodes: Array, count: int) -> _Grid:
    """`pair` on `nodes`: losses above the last node become infinite, those below the first round up."""
    above, scaled = pair.tails(nodes)
    step = np.diff(nodes)
    inside = np.maximum(above[:-1] - above[1:], 0.0)
    shrink = np.exp(-step)
    excess = (above[:-1] - scaled[:-1]) - (above[1:] - shrink * scaled[1:])
    # A difference of nearly equal numbers is rounded up by the possible error of the tails.
    excess += _ROUNDING * above[:-1]
    up = np.clip(excess / -np.expm1(-step), 0.0, inside)
    masses = np.zeros_like(nodes)
    masses[1:] += up
    masses[:-1] += inside - up
    masses[0] += max(0.0, 1 - float(above[0]))
    masses[-1] += scaled[-1]
    lost = max(0.0, float(above[-1] - scaled[-1]))
    with np.errstate(divide="ignore"):
        return _Grid(nodes, np.log(masses), lost, count)


def _log_mgf(grids: list[_Grid], tilt: float) -> tuple[float, float, float]:
    """Log moment generating function of the composed loss, and its tilted mean and variance."""
    value = mean = variance = 0.0
    for grid in grids:
        exponent = grid.log_masses + tilt * grid.losses
        top = float(np.max(exponent))
        weights = np.exp(exponent - top)
        total = float(np.sum(weights))
        center = float(weights @ grid.losses) / total
        value += grid.count * (top + math.log(total))
        mean += grid.count * center
        variance += grid.count * float(weights @ (grid.losses - center) ** 2) / total
    return value, mean, variance


def _compose(groups: Groups, coarse: list[_Grid], tilt: float, fineness: int) -> Composed:
    total = sum(count for _, count in groups)
    coarse = [_trimmed(grid, tilt, _TRIM / total) for grid in coarse]
    low, high, reach, back, variance = _window(coarse, tilt)
    width = high - low
    step = min(math.sqrt(6 * _VARIANCE * variance / total), width / _MIN_POINTS) / fineness
    span = max(float(g.losses[-1] - g.losses[0]) for g in coarse)
    smallest = max(width / _MAX_POINTS, span / _MAX_CELLS)
    if not math.isfinite(width) or (step < smallest and fineness > 1):
        raise TooLargeError(f"the losses span {width:.3g}")
    step = max(step, smallest)  # still an upper bound, if a looser one
    size = cast(int, next_fast_len(math.ceil(width / step) + 2, real=True))

    log_scale = log_kept = log_further = log_before = highest = 0.0
    log_spectrum = np.zeros(size // 2 + 1, dtype=np.complex128)
    for (pair, count), first in zip(groups, coarse, strict=True):
        start = math.floor(float(first.losses[0]) / step)
        stop = math.ceil(float(first.losses[-1]) / step) + 1
        index = np.arange(start, stop + 1)
        grid = _on_nodes(pair, index.astype(np.float64) * step, count)
        exponent = grid.log_masses + tilt * grid.losses
        top = float(np.max(exponent))
        tilted = np.exp(exponent - top)
        mass = float(np.sum(tilted))
        log_scale += count * (top + math.log(mass))
        log_kept += count * math.log1p(-min(grid.lost, 1 - 1e-16))
        log_further += _log_mgf([grid], tilt + reach)[0]
        log_before += _log_mgf([grid], tilt - back)[0]
        highest += grid.highest
        folded = np.bincount(index % size, weights=tilted / mass, minlength=size)
        log_spectrum = _multiplied(log_spectrum, np.fft.rfft(folded), count)
    spectrum = np.zeros(size // 2 + 1, dtype=np.complex128)
    spectrum[: len(log_spectrum)] = np.exp(log_spectrum)
    masses = np.fft.irfft(spectrum, n=size)
    first_index = math.floor(low / step)
    masses = np.maximum(np.roll(masses, -(first_index % size)), 0.0)
    losses = (first_index + np.arange(size, dtype=np.float64)) * step
    weights = masses * np.exp(np.minimum(log_scale - tilt * losses, 700.0))
    # The transform wraps around. Mass from above the window would be missed, so it is charged in
    # full by a Chernoff bound on this very grid. Mass from below the window only adds to delta,
    # unless epsilon is below the window, too: then it is charged as well.
    beyond = 0.0
    if losses[-1] < highest:
        beyond = math.exp(min(log_further - (tilt + reach) * float(losses[-1]), 0.0))
    below = 1.0
    if back > tilt:
        below = math.exp(min(log_before + (back - tilt) * float(losses[0]), 0.0))
    slack = _ROUNDING * (total + 64)
    floor = beyond - math.expm1(log_kept)
    return Composed(losses, weights, floor, below, slack, log_scale, tilt)


def _trimmed(grid: _Grid, tilt: float, share: float) -> _Grid:
    """`grid` without the low losses that, even rounded up, are at most a `share` of the tilted mass.

    When a record is added, losses far below zero are possible but never matter. Left in, they would
    stretch the grid and make it coarser where it matters.
    """
    exponent = grid.log_masses + tilt * grid.losses
    top = float(np.max(exponent))
    tilted = top + math.log(float(np.sum(np.exp(exponent - top))))
    below = np.logaddexp.accumulate(grid.log_masses)
    spare = np.flatnonzero(below + tilt * grid.losses <= tilted + math.log(share))
    start = min(int(spare[-1]), len(below) - 2) if spare.size else 0
    if start <= 0:
        return grid
    masses = grid.log_masses[start:].copy()
    masses[0] = below[start]
    return _Grid(grid.losses[start:], masses, grid.lost, grid.count)


def _window(grids: list[_Grid], tilt: float) -> tuple[float, float, float, float, float]:
    """An interval with all but `_LEAK` of the tilted loss, the orders that prove it, the variance."""
    value, mean, variance = _log_mgf(grids, tilt)
    span = max(float(g.losses[-1] - g.losses[0]) for g in grids)
    # Never so narrow that the losses lie outside.
    margin = max(1e-3 * span, 1e-6 * abs(mean), 1e-12 * sum(g.count for g in grids))
    low, high, up, down = -math.inf, math.inf, 0.0, 0.0
    for reach in np.geomspace(0.05, 20, 18) / max(math.sqrt(variance), margin):
        above = (_log_mgf(grids, tilt + reach)[0] - value - math.log(_LEAK)) / reach
        below = (value - _log_mgf(grids, tilt - reach)[0] + math.log(_LEAK)) / reach
        if below > low:
            low, down = below, float(reach)
        if above < high:
            high, up = above, float(reach)
    high = min(high, sum(g.highest for g in grids))
    return min(low, mean) - margin, max(high, mean) + margin, up, down, variance


def _multiplied(log_product: Complex, factor: Complex, count: int) -> Complex:
    """The log of the product with factor^count, cut where everything that follows is negligible."""
    with np.errstate(divide="ignore"):
        log_factor = np.log(factor[: len(log_product)])
    log_product = log_product + count * log_factor
    # Magnitudes only shrink with every factor: high frequencies that have vanished stay so.
    alive = np.flatnonzero(log_product.real > -90.0)
    return log_product[: alive[-1] + 1]
