"""Hardened noise: integers from operating-system entropy, added on an integer grid.

Why: float32 normals from a pseudorandom key have gaps, a bounded tail and a low-bits pattern that
depends on the sum they are added to, none of which the proof of the Gaussian mechanism knows about.
Here the clipped sum is rounded to a public grid, an integer drawn exactly is added to each
coordinate, and only then does the result become floating point again, as post-processing.

The argument, in four steps. Let `s` be `Grid.sigma` (noise in grid units), `d` the coordinates.

1. *Sensitivity.* Rounding moves a coordinate by at most half a unit, so two neighboring rounded
   sums differ by at most `sensitivity / spacing + sqrt(d)` in L2. `hardened_grid` makes
   `s >= noise_multiplier` times that.
2. *Reference.* Adding a continuous Gaussian of deviation `s` to the integer sum is a Gaussian
   mechanism; rounding its output is post-processing and, the sum being an integer, the same as
   adding a *rounded* Gaussian. So the event `Gaussian(noise_multiplier)` holds for the reference,
   with Poisson sampling, adaptive composition and everything else that event goes through.
3. *Closeness.* What is added is a discrete Gaussian, `P(k)` proportional to `exp(-k^2 / (2 s^2))`.
   With P the rounded and Q the discrete law, P(k)/Q(k) = Z * integral of cosh(k t / s^2) exp(-t^2 /
   (2 s^2)) over t in [-1/2, 1/2], where Z is 1 up to exp(-2 pi^2 s^2). Jensen bounds it below by
   exp(-1 / (24 s^2)), and sinh(x)/x <= exp(x^2/6) above by exp(k^2 / (24 s^4)). Hence
   KL(P|Q) <= chi^2(P|Q) <= (1 + E[k^4]/s^4) / (576 s^4) = 4 / (576 s^4) to leading order, and 5 /
   (576 s^4) is safe for s >= 2^10. (The true value is near 1 / (576 s^4).) KL adds up over draws,
   adaptively chosen or not, and Pinsker turns it into a total variation distance: `closeness`.
4. *Slack.* If the reference run is (epsilon, delta)-DP, the real one, at total variation distance
   `tv`, is (epsilon, delta + (1 + e^epsilon) tv)-DP: a `TotalVariation(tv)` event, once on the
   ledger, for which accountants charge that at whichever epsilon they report.

What this does not mend: the sum that arrives was itself added up in floating point, so its true
sensitivity exceeds `clip_norm` by the rounding error of that summation. Whoever can bound that
error declares it as `float_error`; by default it is taken as zero, and that is an assumption.
"""

import functools
import math
import os
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from veilflow._core import check
from veilflow.privacy.unit import Adjacency

TABLE_SIGMA = 2**13
_WIDENINGS = (2**10, 2**11)
_SATURATION = 2.0**30  # grid units; noise stays below 2^28, so sums fit an int32
_GUARD_BITS = 256
_CHUNK = 1 << 16  # words at a time: stays in cache


class DiscreteGaussianTable:
    """Cumulative probabilities of a discrete Gaussian, in 128-bit fixed point.

    Values beyond `reach` (about 13.5 sigma, total mass below 2^-128) are left out and every entry
    is off by less than 2^-128, so a draw is within `2^-128 * (number of entries + 1)` of the exact
    law.
    """

    def __init__(self, sigma: int):
        check.count(sigma=sigma, at_least=4)
        self.sigma = sigma
        self.reach = math.ceil(13.5 * sigma) + 2
        boundaries = _cumulative(sigma, self.reach)
        mask = (1 << 64) - 1
        # boundaries[i] is P(X <= i - reach) * 2^128; the last one, 2^128 itself, is implied
        self.high = np.array([c >> 64 for c in boundaries[:-1]], dtype=np.uint64)
        self.low = np.array([c & mask for c in boundaries[:-1]], dtype=np.uint64)
        self._guide = np.searchsorted(
            self.high, np.arange(1 << 16, dtype=np.uint64) << np.uint64(48), side="right"
        ).astype(np.int32)
        # sentinels, so that the two steps of `invert` never leave the array
        self._padded = np.append(self.high, np.full(3, mask, dtype=np.uint64))

    @property
    def error(self) -> float:
        """Total variation distance of one draw from the exact discrete Gaussian, at most."""
        return math.ldexp(2 * self.reach + 2, -128)

    def sample(self, size: int) -> np.ndarray:
        """`size` independent draws as int32, from operating-system entropy."""
        out = np.empty(size, dtype=np.int32)
        for start in range(0, size, _CHUNK):
            stop = min(start + _CHUNK, size)
            out[start:stop] = self.invert(_entropy(stop - start))
        return out

    def invert(self, words: np.ndarray, low_words: np.ndarray | None = None) -> np.ndarray:
        """The draws that uniform 64-bit `words` stand for.

        A word that equals the high half of a boundary doesn't decide; there the low half is
        consulted, drawn fresh unless given. Reading bits only when they matter changes no
        probability.
        """
        # The guide gives the number of boundaries below the word's top 16 bits; near the center at
        # most two more lie below the word itself. The rest, in the tails, is looked up in full.
        index = self._guide[(words >> np.uint64(48)).astype(np.int32)]
        index = index + (self._padded[index] <= words)
        index = index + (self._padded[index] <= words)
        rest = np.flatnonzero(self._padded[index] <= words)
        if rest.size:
            index[rest] = np.searchsorted(self.high, words[rest], side="right")
        ties = np.flatnonzero(self.high[np.maximum(index, 1) - 1] == words)
        if ties.size:
            low = _entropy(ties.size) if low_words is None else low_words[ties]
            first = np.searchsorted(self.high, words[ties], side="left")
            for place, begin, word in zip(ties, first, low, strict=True):
                end = index[place]
                below = np.searchsorted(self.low[begin:end], word, side="right")
                index[place] = begin + below
        return index.astype(np.int32) - np.int32(self.reach)


def _cumulative(sigma: int, reach: int) -> list[int]:
    # p_k = exp(-k^2 / (2 sigma^2)) by p_{k+1} = p_k r_k and r_{k+1} = r_k exp(-1 / sigma^2), all in
    # 256-bit fixed point: after 2^17 steps the relative error is below 2^-215, far under the 2^-128
    # kept.
    one = 1 << _GUARD_BITS
    ratio = _exp_minus(1, 2 * sigma * sigma)
    decay = _exp_minus(1, sigma * sigma)
    weight, weights = one, []
    for _ in range(reach + 1):
        weights.append(weight)
        weight = weight * ratio >> _GUARD_BITS
        ratio = ratio * decay >> _GUARD_BITS
    both_sides = weights[:0:-1] + weights
    total, running, boundaries = sum(both_sides), 0, []
    for weight in both_sides:
        running += weight
        boundaries.append((running << 128) // total)
    return boundaries


def _exp_minus(numerator: int, denominator: int) -> int:
    """exp(-numerator / denominator) in fixed point, by its alternating series."""
    term, total, k = 1 << _GUARD_BITS, 0, 0
    while term:
        total += -term if k % 2 else term
        k += 1
        term = term * numerator // (denominator * k)
    return total


def _entropy(count: int) -> np.ndarray:
    return np.frombuffer(os.urandom(8 * count), dtype=np.uint64)


@functools.cache
def _table() -> DiscreteGaussianTable:
    return DiscreteGaussianTable(TABLE_SIGMA)


@dataclass(frozen=True, kw_only=True)
class Grid:
    """A public grid and the integer noise that makes a release on it a Gaussian mechanism.

    Attributes:
        spacing: Grid unit in the units of the sum; a power of two, so that scaling is exact.
        widening: Noise is `X_1 + widening * X_2`, both from the table of sigma 2^13.
        noise_multiplier: What the release pays for; the realized one is at most 0.1 % larger.
        sensitivity: L2 sensitivity of the sum before rounding, for the adjacency promised.
        num_coordinates: Numbers in one release.
    """

    spacing: float
    widening: int
    noise_multiplier: float
    sensitivity: float
    num_coordinates: int

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise in grid units, between 2^23 and 2^24."""
        return TABLE_SIGMA * math.sqrt(1 + self.widening**2)

    @property
    def noise_stddev(self) -> float:
        """Standard deviation of the noise in the units of the sum."""
        return self.spacing * self.sigma


def hardened_grid(
    clip_norm: float,
    *,
    noise_multiplier: float,
    num_coordinates: int,
    adjacency: Adjacency = Adjacency.ADD_REMOVE,
    float_error: float = 0.0,
) -> Grid:
    """The grid on which integer noise honors `noise_multiplier`.

    Guarantee:
        A sum whose records are clipped to `clip_norm`, released by `release_on_grid` with fresh
        noise from `draw`, is within `closeness` of a post-processed Gaussian mechanism with this
        `noise_multiplier`. See the top of this file for the proof.

    Args:
        clip_norm: L2 bound on one record's contribution to the sum.
        noise_multiplier: Noise standard deviation over sensitivity.
        num_coordinates: Numbers in the sum; rounding each costs a grid unit of sensitivity.
        adjacency: The neighboring relation the guarantee is stated for.
        float_error: L2 bound on the rounding error made while adding up the sum.

    Returns:
        The grid, with the noise that belongs to it.

    Raises:
        ValueError: If an argument is out of range or no grid is fine enough.
    """
    check.positive(clip_norm=clip_norm, noise_multiplier=noise_multiplier)
    check.count(num_coordinates=num_coordinates)
    check.nonnegative(float_error=float_error)
    sensitivity = clip_norm * (2 if adjacency is Adjacency.REPLACE_ONE else 1) + 2 * float_error
    root = math.sqrt(num_coordinates)
    smallest = TABLE_SIGMA * _WIDENINGS[0]
    if noise_multiplier * root > smallest / 4:
        raise ValueError(
            f"noise_multiplier ({noise_multiplier}) times the root of num_coordinates "
            f"({num_coordinates}) must be at most {smallest / 4:.0f}: the grid would not fit "
            "32-bit integers."
        )
    # need(spacing) = grid units of noise that `spacing` asks for; it falls as the spacing grows.
    # Start from the spacing at which it equals `smallest`, take the next lower power of two.
    exact = noise_multiplier * sensitivity / (smallest - noise_multiplier * root)
    exponent = math.frexp(exact)[1] - 1
    if not -100 <= exponent <= 90:
        raise ValueError(
            f"clip_norm times noise_multiplier must be within float32's range, got {clip_norm} and "
            f"{noise_multiplier}. Rescale the loss."
        )
    spacing = math.ldexp(1.0, exponent)
    need = noise_multiplier * (sensitivity / spacing + root) * (1 + 1e-12)
    widening = max(_WIDENINGS[0], math.ceil(math.sqrt((need / TABLE_SIGMA) ** 2 - 1)))
    # spacing > exact / 2, so need <= 2 * smallest and the widening stays within _WIDENINGS;
    # rounding it up to a whole number adds at most 1/1024 to the noise.
    assert widening <= _WIDENINGS[1]
    return Grid(
        spacing=spacing,
        widening=widening,
        noise_multiplier=noise_multiplier,
        sensitivity=sensitivity,
        num_coordinates=num_coordinates,
    )


def draw(shape: int | tuple[int, ...], *, grid: Grid) -> np.ndarray:
    """Fresh integer noise for `grid`, as an int32 array on the host.

    The sum `X_1 + w X_2` of two discrete Gaussians of sigma 2^13 is a discrete Gaussian of sigma
    2^13 sqrt(1 + w^2) times a factor that varies with the residue by less than 4 exp(-2 pi^2 t^2),
    where t = 2^13 / sqrt(1 + w^2) is nearly 4 or more: below 2^-450, against 2^-109 for the table.

    Args:
        shape: Of the array; `(steps, num_coordinates)` draws ahead for many steps.
        grid: The grid the noise is for.

    Returns:
        Independent draws. Add each number once, to one release, and keep none of them.
    """
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    size = math.prod(shape)
    table = _table()
    noise = table.sample(size)
    noise *= np.int32(grid.widening)
    noise += table.sample(size)
    return noise.reshape(shape)


def closeness(num_draws: int, *, grid: Grid | None = None) -> float:
    """Total variation distance between `num_draws` draws and as many rounded Gaussians, at most.

    Args:
        num_draws: Integers drawn in the whole run: steps times coordinates.
        grid: Where the draws go; without it the bound is that of the worst grid.

    Returns:
        `tv`; a run that is (epsilon, delta)-DP with rounded Gaussians is
        (epsilon, delta + (1 + e^epsilon) tv)-DP with the noise of `draw`.
    """
    check.count(num_draws=num_draws)
    sigma = grid.sigma if grid is not None else TABLE_SIGMA * math.sqrt(1 + _WIDENINGS[0] ** 2)
    divergence = num_draws * 5 / (576 * sigma**4)
    return min(1.0, math.sqrt(divergence / 2) + 2 * num_draws * math.ldexp(1.0, -108))


def release_on_grid(total: Any, grid: Grid, noise: Any) -> Any:
    """Round `total` to the grid, add integer `noise`, return to floating point. Pure, jittable.

    Every step before the last is exact: the spacing is a power of two, so dividing by it only
    changes exponents; a float32 rounded to a whole number is a float32; the conversion to int32 and
    the addition stay below 2^31 because sums saturate at 2^30 units (about 64 noise deviations or
    more, a 1-Lipschitz clamp, so sensitivity is unharmed). Going back, integers beyond 2^24 are
    rounded to the nearest float: that is post-processing. Non-finite coordinates count as zero
    (NaN) or saturate.

    Args:
        total: A pytree of floating-point arrays with `grid.num_coordinates` numbers in all.
        grid: From `hardened_grid`.
        noise: One vector of int32 from `draw`; leaves take their share in tree order.

    Returns:
        The noisy tree, with the shapes and types of `total`.

    Raises:
        ValueError: If sizes do not match the grid, or noise is not int32.
    """
    leaves, structure = jax.tree_util.tree_flatten(total)
    size = sum(leaf.size for leaf in leaves)
    noise = jnp.asarray(noise)
    if size != grid.num_coordinates or noise.shape != (size,):
        raise ValueError(
            f"the grid is for {grid.num_coordinates} coordinates, got {size} and noise of shape "
            f"{noise.shape}. Build it with num_coordinates={size} and draw({size}, grid=grid)."
        )
    if noise.dtype != jnp.int32:
        raise ValueError(f"noise must be int32 as draw returns it, got {noise.dtype}.")
    noisy, start = [], 0
    for leaf in leaves:
        share = noise[start : start + leaf.size].reshape(leaf.shape)
        start += leaf.size
        units = leaf.astype(jnp.promote_types(leaf.dtype, jnp.float32)) * (1 / grid.spacing)
        units = jnp.where(jnp.isnan(units), 0.0, jnp.clip(units, -_SATURATION, _SATURATION))
        released = jnp.round(units).astype(jnp.int32) + share
        noisy.append((released.astype(units.dtype) * grid.spacing).astype(leaf.dtype))
    return jax.tree_util.tree_unflatten(structure, noisy)
