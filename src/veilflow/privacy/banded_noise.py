"""Gaussian noise that is correlated over a few steps, as integers on a grid.

Sums of many steps matter more to training than any single one. Independent noise adds up over steps;
noise of which later steps take back a part does not, and the sum over all steps is much more precise
for the same noise in one step. This is matrix factorization with a banded matrix. Let `C` have the
coefficients 1, c_1, ..., c_{b-1} on and below its diagonal. Step t adds `W_t = k_t - u_t` to its
sum, where `k_t` is fresh noise on a grid, and `u_t = round(c_1 W_{t-1} + ... + c_{b-1} W_{t-b+1})`.
Up to the rounding, W is the inverse of C applied to k.

The proof is for records that take part at most once in any `b` consecutive steps. All numbers are
integers: `X_t` is the sum of a step, rounded to the grid, and what is released is `R_t = X_t + W_t`.

1. *One step, given the past.* As `W_s = R_s - X_s`, what step t releases is `k_t` plus the center
   `X_t - round(sum_i c_i (R_{t-i} - X_{t-i}))`: fresh noise plus an integer that is determined by
   released values and the sums of the last b steps.
2. *What a record changes.* Fix all that is drawn for the other records: their groups, coins and the
   randomness of their losses in all steps. It has the same distribution with and without the record,
   and no divergence between two mixtures is larger than between the worst pair of their components.
   Fix the group of the record likewise; without it, nothing depends on that. Now, given what was
   released before, only the record's own coins matter. If it takes part in step s, it changes X_s by
   some D, |D| <= sensitivity / spacing + sqrt(d). It changes the center of step s by D, and that of
   step s + i, i < b, by c_i D and less than one unit more in each coordinate, which is the rounding.
   From step s + b on, X_s is not used. So all it changes until its next turn has at most the norm
   `|c| (sensitivity / spacing + sqrt(d)) + sqrt((b - 1) d)`, where |c|^2 = 1 + c_1^2 + ...; if the
   run ends earlier, less. That sums saturate, and that noise of the past is cut to 2^27 units, adds
   nothing: both are 1-Lipschitz in each coordinate. `grid_for` gets this norm as the sensitivity and
   the rounding of one release.
3. *A turn is one Gaussian mechanism.* In the reference, k_t is a rounded Gaussian of deviation s, so
   R_t is the rounding of `Y_t = center + N(0, s^2)`, and post-processing of Y. Let v_0, ..., v_{b-1}
   be what the record changes in its turn, and B the norm above. Given the past, v_i is fixed before
   Y_{s+i} is drawn; it may depend on what was released before, but the sum of |v_i|^2 is at most B^2.
   Let one more coordinate, which nobody sees, fill it up to B^2. Let Z_i be Y minus its center without
   the record. The log-ratio of the densities of the turn with and without it is
   sum_i <v_i, Z_i> / s^2 - B^2 / (2 s^2). Without it, exp(a sum_i <v_i, Z_i> - a^2 s^2 B^2 / 2) has
   mean 1 for every a, as it is the end of a martingale; so sum_i <v_i, Z_i> is normal with variance
   s^2 B^2, whatever the v_i are, and the log-ratio has exactly the distribution that it has for
   N(B, s^2) and N(0, s^2). If a coin of probability p decides whether the record takes part, the ratio
   is 1 - p + p exp(log-ratio): the turn is one Poisson-sampled Gaussian of rate p, in both directions.
4. *The run.* Turns of a record begin b steps apart, and do not overlap. Whatever its group, it has at
   most ceil(steps / b) of them, each with a coin of its own. They compose adaptively.
5. *Real noise.* Each center is an integer, so closeness and slack are those of `grid_noise`: the same
   number of draws, each within the same factors of a rounded Gaussian.

The past `W_{t-1}, ...` is secret: it gives the sums away. It is no part of a state that is saved or
shown, and is drawn again from the secret when a run is resumed.

References:
    Choquette-Choo, Ganesh, McKenna, McMahan, Rush, Thakurta, Xu, "(Amplified) banded matrix
    factorization: a unified approach to private training", 2023.
    Fichtenberger, Henzinger, Upadhyay, "Constant matters", 2023, for the coefficients.
"""

# JAX and jaxtyping leave types open (trees, loops, new arrays); see [tool.pyright] in pyproject.toml
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportUnknownLambdaType=false

import functools
import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, UInt32

from veilflow._core import check
from veilflow.privacy.grid_noise import Grid, GridNoise, grid_for, on_grid

MAX_BANDS = 128
"""Beyond, products of integers could leave 32 bits."""
_BITS = 12
"""Coefficients are multiples of 2^-12, so that all arithmetic on noise is exact."""
_LOW = 2**_BITS - 1
_MOST_PAST = 2**27 - 1
"""Noise of the past counts up to this size: 16 deviations of the noise and more."""

Past = Int[Array, "past coordinates"]
"""The noise of the last steps; step t is in row t modulo the number of rows. It is secret."""


@functools.cache
def coefficients(bands: int) -> tuple[int, ...]:
    """The coefficients 1, c_1, ..., c_{bands - 1} in units of 2^-12.

    They are those of 1 / sqrt(1 - x): without an end, their matrix is a square root of that of prefix
    sums. The best ones of so many bands make sums of 1,000 steps 10 % more precise, but single steps
    four times as noisy in variance, and optimizers that divide by the size of gradients suffer from it.
    """
    check_bands(bands)
    exact = [1.0]
    for i in range(1, bands):
        exact.append(exact[-1] * (2 * i - 1) / (2 * i))
    return tuple(round(c * 2**_BITS) for c in exact)


def check_bands(bands: int) -> None:
    """Raise unless there can be so many bands."""
    check.count(noise_bands=bands)
    if bands > MAX_BANDS:
        raise ValueError(f"noise_bands must be 1 to {MAX_BANDS}, got {bands}.")


def column_norm(bands: int) -> float:
    """The L2 norm of a column of the matrix: what one turn of a record weighs, against one step."""
    return math.sqrt(sum(c * c for c in coefficients(bands))) / 2**_BITS


def rounded_coordinates(num_coordinates: int, *, bands: int) -> int:
    """For `grid_for`: the number of coordinates whose rounding costs as much as that of a turn."""
    check.count(num_coordinates=num_coordinates)
    if bands == 1:
        return num_coordinates
    return math.ceil(num_coordinates * (column_norm(bands) + math.sqrt(bands - 1)) ** 2)


class BandedNoise(eqx.Module):
    """Noise for the steps of one run, correlated over `bands` steps.

    Attributes:
        noise: The fresh noise of a step, on a grid for what one turn of a record changes.
        bands: How many steps are correlated; at least 2.
        num_coordinates: How many numbers each step releases.
    """

    noise: GridNoise
    bands: int = eqx.field(static=True)
    num_coordinates: int = eqx.field(static=True)

    @classmethod
    def of(
        cls, clip_norm: float, *, noise_multiplier: float, num_coordinates: int, bands: int
    ) -> "BandedNoise":
        """The noise for sums clipped to `clip_norm`.

        Guarantee:
            All that `added` gives in some steps is a Gaussian mechanism with this `noise_multiplier`
            for each turn of a record, ceil(steps / bands) of them at most, up to `closeness` of
            `grid_noise`. It holds for add/remove of a record that takes part at most once in any
            `bands` consecutive steps. The proof is at the top of this file.
        """
        if bands < 2:
            raise ValueError(f"correlated noise has at least 2 bands, got {bands}.")
        grid = grid_for(
            clip_norm * column_norm(bands),
            noise_multiplier=noise_multiplier,
            num_coordinates=rounded_coordinates(num_coordinates, bands=bands),
        )
        return cls(GridNoise.on(grid), bands, num_coordinates)

    @property
    def grid(self) -> Grid:
        """The grid; its sensitivity is that of a turn."""
        return self.noise.grid

    def init(self) -> Past:
        """The past before the first step, which is zero."""
        return jnp.zeros((self.bands - 1, self.num_coordinates), jnp.int32)

    def next(
        self, past: Past, step: Int[Array, ""], words: UInt32[Array, " 4"]
    ) -> tuple[Int[Array, " coordinates"], Past]:
        """The noise of a step in units of the grid, and the past of the step after it.

        Args:
            past: The noise of earlier steps.
            step: The number of the step, from 0.
            words: The key of the step; it must not be used again.
        """
        fresh = self.noise.draws(words, self.num_coordinates)
        now = fresh - _recalled(past, step, self.bands)
        kept = jnp.clip(now, -_MOST_PAST, _MOST_PAST)
        return now, jax.lax.dynamic_update_index_in_dim(past, kept, step % (self.bands - 1), 0)

    def added(
        self, total: Any, past: Past, step: Int[Array, ""], words: UInt32[Array, " 4"]
    ) -> tuple[Any, Past]:
        """`total` on the grid with the noise of a step, and the past of the step after it.

        Args:
            total: A pytree of floating-point arrays with `num_coordinates` numbers in all.
            past: The noise of earlier steps.
            step: The number of the step, from 0.
            words: The key of the step.

        Raises:
            ValueError: The sizes do not match.
        """
        size = sum(leaf.size for leaf in jax.tree.leaves(total))
        if size != self.num_coordinates:
            raise ValueError(f"the noise is for {self.num_coordinates} coordinates, got {size}.")
        noise, past = self.next(past, step, words)
        return on_grid(total, noise, self.grid.spacing), past


def _recalled(past: Past, step: Int[Array, ""], bands: int) -> Int[Array, " coordinates"]:
    """round(sum_i c_i W_{step - i}), exactly, in 32 bits.

    W is split into 2^12 H + L. |H| <= 2^15, the coefficients are at most 2^11 and sum to less than
    2^16 for 128 bands, so neither sum of products leaves 32 bits.
    """
    weights = np.asarray(coefficients(bands)[1:], np.int32)
    ages = (step - 1 - jnp.arange(bands - 1, dtype=jnp.int32)) % (bands - 1)  # 0 for the last step
    weight = jnp.asarray(weights)[ages][:, None]
    high = jnp.sum(weight * (past >> _BITS), axis=0, dtype=jnp.int32)
    low = jnp.sum(weight * (past & _LOW), axis=0, dtype=jnp.int32)
    return high + ((low + 2 ** (_BITS - 1)) >> _BITS)
