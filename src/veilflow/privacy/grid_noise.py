"""Gaussian noise as integers on a grid, so that it does not depend on floating-point arithmetic.

A float32 normal takes 2^23 values and ends at 5.4 standard deviations. Added to a count and stored
with enough digits, such a value rules out most neighboring counts with certainty, however large the
noise is. Here a sum is rounded to a public grid, an integer is added to each coordinate, and only
then does the result become floating point again, which is post-processing.

The proof has four steps. Let `S` be `Grid.sigma`, the noise in grid units, and `d` the number of
coordinates that one record can change.

1. *Sensitivity.* Rounding moves a coordinate by at most half a unit, so two neighboring rounded
   sums differ by at most `sensitivity / spacing + sqrt(d)` in L2. `grid_for` makes `s >=
   noise_multiplier` times that, where s^2 = S^2 - 1/12.
2. *Reference.* Adding a continuous Gaussian of deviation `s` to the integer sum is a Gaussian
   mechanism; rounding its output is post-processing and, the sum being an integer, the same as
   adding a *rounded* Gaussian. So the event `Gaussian(noise_multiplier)` holds for the reference,
   with Poisson sampling, adaptive composition and everything else that event goes through.
3. *Closeness.* What is added is a discrete Gaussian, Q(k) proportional to exp(-k^2 / (2 S^2)); P is
   the rounded one. With T uniform on [-1/2, 1/2] and a = k / s^2, log P(k)/Q(k) is a constant plus
   log E[cosh(aT) exp(-T^2 / 2s^2)] - k^2 / (24 s^2 S^2). Now log E[cosh(aT)] = log(sinh(a/2) / (a/2))
   is between a^2/24 - a^4/2880 and a^2/24; under weights cosh(aT) the mean of T^2 is between 1/12
   and 1/12 + a^2/80; so all of it is a constant plus an error of at most
   ((k/s)^4 / 2880 + (k/s)^2 / 160 + 1/128) / s^4: rounding adds a variance of 1/12, and `S` has it.
   Within 16 deviations that is below 2^-83. The sum `X_1 + w X_2` of two discrete Gaussians of
   parameter v is one of parameter v sqrt(1 + w^2), up to a factor that varies with the residue by
   less than 4 exp(-2 pi^2 t^2), where t = v / sqrt(1 + w^2) is nearly 2 or more: below 2^-110. Each of
   the two comes from the table, whose probabilities are at least 1 - 2^-77 times the exact ones, and
   exceed them by 2^-79 in all. So for one draw P' >= (1 - h) P and P' <= (1 + h) P + excess, with h =
   2^-75 and an excess of 2^-78, on all that can be drawn; beyond it P has less than 2^-179.
4. *Slack.* Over n draws, adaptively chosen or not, such factors multiply: the real run is at least
   1 - n h times the reference, and at most 1 + n h times it but for n 2^-78. Let the reference be
   (epsilon, delta)-DP, p' and q' the probabilities of an event in the real run on two neighbors. Then
   p' <= n 2^-78 + (1 + n h) (delta + e^epsilon q' / (1 - n h)), up to n e^epsilon 2^-179, which is
   nothing for any epsilon below 80. Where e^epsilon q' >= 1 there is nothing to show; elsewhere the
   factors add at most 3 n h. So the real run is (epsilon, delta + n 2^-73)-DP, at every epsilon: an
   `ApproximateDP(0, .)` event, once on the ledger. `closeness` is twice that, for it composes.

What this does not repair: a sum of floating-point numbers was itself rounded on the way, so its true
sensitivity exceeds `clip_norm` by the error of that summation. Guarantees of such sums carry the
assumption that this error can be ignored. Counts are exact.
"""

# JAX and jaxtyping leave types open (trees, loops, new arrays); see [tool.pyright] in pyproject.toml
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportUnknownLambdaType=false

import functools
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, UInt32

from veilflow._core import check
from veilflow._core.keys import Secret
from veilflow._core.threefry import threefry
from veilflow.privacy import discrete_gaussian_table as table
from veilflow.privacy.discrete_gaussian_table import Thresholds, pick
from veilflow.privacy.unit import Adjacency

_WIDENINGS = (2**10, 2**11)
_SATURATION = 2.0**30  # grid units; noise stays below 2^28, so sums fit an int32
_MOST_UNITS = 2.0**62
"""Where sums saturate on the host: far beyond any real one, and still an int64."""


@dataclass(frozen=True, kw_only=True)
class Grid:
    """A public grid and the integer noise that makes a release on it a Gaussian mechanism.

    Attributes:
        spacing: Grid unit in the units of the sum; a power of two, so that scaling is exact.
        widening: The noise is `X_1 + widening * X_2`, with both draws from the table.
        noise_multiplier: What the release pays for; the realized one is at most 0.1 % larger.
        sensitivity: L2 sensitivity of the sum before rounding, for the promised adjacency.
        num_coordinates: How many coordinates of one release a record can change.
    """

    spacing: float
    widening: int
    noise_multiplier: float
    sensitivity: float
    num_coordinates: int

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise in grid units, between 2^22 and 2^23."""
        return table.SIGMA * math.sqrt(1 + self.widening**2)

    @property
    def noise_stddev(self) -> float:
        """Standard deviation of the noise in the units of the sum."""
        return self.spacing * self.sigma


def grid_for(
    clip_norm: float,
    *,
    noise_multiplier: float,
    num_coordinates: int,
    adjacency: Adjacency = Adjacency.ADD_REMOVE,
) -> Grid:
    """The grid on which integer noise honors `noise_multiplier`.

    Guarantee:
        A sum of records clipped to `clip_norm`, released on this grid with fresh noise, is within
        `closeness` of a post-processed Gaussian mechanism with this `noise_multiplier`. The proof is
        at the top of this file.

    Args:
        clip_norm: L2 bound on one record's contribution to the sum.
        noise_multiplier: Noise standard deviation over sensitivity.
        num_coordinates: How many coordinates of the sum one record can change; rounding each of
            them costs a grid unit of sensitivity.
        adjacency: The neighboring relation the guarantee is stated for.

    Raises:
        ValueError: An argument is out of range, or no grid is fine enough.
    """
    check.positive(clip_norm=clip_norm, noise_multiplier=noise_multiplier)
    check.count(num_coordinates=num_coordinates)
    sensitivity = clip_norm * (2 if adjacency is Adjacency.REPLACE_ONE else 1)
    root = math.sqrt(num_coordinates)
    smallest = table.SIGMA * _WIDENINGS[0]
    if noise_multiplier * root > smallest / 4:
        raise ValueError(
            f"noise_multiplier ({noise_multiplier:.4g}) times the root of num_coordinates "
            f"({num_coordinates:,}) must be at most {smallest // 4:,}: the grid would not fit 32-bit "
            "integers."
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
    # the margin exceeds the effect of the variance of rounding, 1 / (24 S^2)
    need = noise_multiplier * (sensitivity / spacing + root) * (1 + 1e-12)
    widening = max(_WIDENINGS[0], math.ceil(math.sqrt((need / table.SIGMA) ** 2 - 1)))
    # spacing > exact / 2, so need <= 2 * smallest and the widening stays within _WIDENINGS;
    # rounding it up to an integer adds at most 1/1024 to the noise.
    assert widening <= _WIDENINGS[1]
    return Grid(
        spacing=spacing,
        widening=widening,
        noise_multiplier=noise_multiplier,
        sensitivity=sensitivity,
        num_coordinates=num_coordinates,
    )


def closeness(num_draws: int) -> float:
    """The most that `num_draws` draws add to delta because they are not exactly rounded Gaussians.

    Args:
        num_draws: How many numbers the whole run draws: steps times coordinates.
    """
    check.count(num_draws=num_draws)
    return num_draws * 2.0**-72


class GridNoise(eqx.Module):
    """Noise for the releases on one grid, drawn on the device from one key per release.

    Attributes:
        grid: The grid.
        thresholds: The table as arrays on the device.
    """

    grid: Grid = eqx.field(static=True)
    thresholds: Thresholds

    @classmethod
    def on(cls, grid: Grid) -> "GridNoise":
        """The noise for a grid."""
        return cls(grid, _on_device())

    def added(self, total: Any, words: UInt32[Array, " 4"]) -> Any:
        """`total` on the grid with fresh noise, in floating point again. Pure and jittable.

        Every step before the last is exact: the spacing is a power of two, so dividing by it only
        changes exponents; a float32 rounded to an integer is a float32; the conversion to int32 and
        the addition stay below 2^31 because sums saturate at 2^30 units (at least about 128 noise
        deviations; the clamp is 1-Lipschitz, so it does not increase the sensitivity). On the way
        back, integers beyond 2^24 are rounded to the nearest float, which is post-processing. NaN
        counts as zero, and infinities saturate.

        Args:
            total: A pytree of floating-point arrays with `grid.num_coordinates` numbers in all.
            words: The key of this release. Another release with the same key would have the same
                noise, which cancels in the difference of the two.

        Raises:
            ValueError: The sizes do not match the grid.
        """
        size = sum(leaf.size for leaf in jax.tree.leaves(total))
        if size != self.grid.num_coordinates:
            raise ValueError(
                f"the grid is for {self.grid.num_coordinates} coordinates, got {size}. Build it with "
                f"num_coordinates={size}."
            )
        return on_grid(total, self.draws(words, size), self.grid.spacing)

    def draws(self, words: UInt32[Array, " 4"], size: int) -> Int[Array, " size"]:
        """The integers that one release of `size` numbers adds to them.

        All arrays of a release share one stream: a program that draws each array by itself holds the
        generator as often as there are arrays, and takes as much longer to compile.
        """
        if jax.default_backend() != "cpu":
            return self._turn(words, size, jnp.zeros((), jnp.uint32))
        # A loop that runs once. Without it, XLA's CPU compiler recomputes the noise wherever it is
        # used, and an optimizer uses it several times. The compiler must not see that it runs once.
        turns = 1 + ((words[0] | 1) == 0).astype(jnp.uint32)
        none, first = jnp.zeros(size, jnp.int32), jnp.zeros((), jnp.uint32)
        return jax.lax.fori_loop(first, turns, lambda turn, _: self._turn(words, size, turn), none)

    def _turn(
        self, words: UInt32[Array, " 4"], size: int, turn: UInt32[Array, ""]
    ) -> Int[Array, " size"]:
        how = functools.partial(pick, self.thresholds, xp=jnp, take=_inside)
        place, none = jnp.arange(size, dtype=jnp.uint32), jnp.zeros((), jnp.uint32)
        four = threefry(words, (place, none, 2 * turn, none))
        two = threefry(words, (place, none, 2 * turn + 1, none))[:2]
        return _wide(how, (*four, *two), self.grid.widening)


def noisy_on_host(
    total: np.ndarray, *, grid: Grid, secret: Secret, purpose: str, index: int = 0
) -> np.ndarray:
    """A sum over all records on its grid with noise, in double precision.

    The random words are a cryptographic hash of the secret, the purpose and the index, so a resumed run
    draws the same noise. In 64 bits, real sums do not saturate.
    """
    words = secret.stream(purpose, index, 6 * total.size).reshape(6, -1)
    how = functools.partial(pick, table.thresholds())
    noise = _wide(how, words, grid.widening).reshape(total.shape)
    units = np.clip(np.rint(total / grid.spacing), -_MOST_UNITS, _MOST_UNITS).astype(np.int64)
    return (units + noise) * grid.spacing


def _wide(how: Callable[..., Any], words: Any, widening: int) -> Any:
    """Two draws from the table as one from a wider distribution; six words for each number."""
    a, b, c, d, e, f = words
    return how(a, b, e) + how(c, d, f) * np.int32(widening)


def on_grid(total: Any, noise: Int[Array, " size"], spacing: float) -> Any:
    """The arrays of `total` rounded to a grid, with integer noise, in floating point again."""
    leaves, structure = jax.tree_util.tree_flatten(total)
    ends = list(itertools.accumulate(leaf.size for leaf in leaves))
    noisy = [
        _sum_on_grid(leaf, share.reshape(leaf.shape), spacing)
        for leaf, share in zip(leaves, jnp.split(noise, ends[:-1]), strict=True)
    ]
    return jax.tree_util.tree_unflatten(structure, noisy)


def _inside(array: Array, places: UInt32[Array, "..."]) -> Array:
    return array.at[places.astype(jnp.int32)].get(mode="promise_in_bounds")


def _sum_on_grid(leaf: Array, noise: Int[Array, "..."], spacing: float) -> Array:
    units = leaf.astype(jnp.promote_types(leaf.dtype, jnp.float32)) * (1 / spacing)
    units = jnp.where(jnp.isnan(units), 0.0, jnp.clip(units, -_SATURATION, _SATURATION))
    released = jnp.round(units).astype(jnp.int32) + noise
    return (released.astype(units.dtype) * spacing).astype(leaf.dtype)


@functools.cache
def _on_device() -> Thresholds:
    with jax.ensure_compile_time_eval():
        return Thresholds(*map(jnp.asarray, table.thresholds()))
