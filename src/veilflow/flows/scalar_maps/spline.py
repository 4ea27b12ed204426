"""The monotone rational-quadratic spline.

A box [-bound, bound] is divided into bins; in each the map is a quotient of two quadratics through
the bin's corners, with given slopes there. Data to base evaluates the quotient, base to data solves a
quadratic. There are few bins, so the bin of a number is found by comparing it with all knots, and its
parameters are selected by sums against the resulting zeros and ones: no gather, whose gradient would be
a scatter, and no cumulative sum in the backward pass.

References:
    Durkan, Bekasov, Murray, Papamakarios, "Neural spline flows", 2019.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from veilflow._core import check
from veilflow.flows.scalar_maps.simple import AbstractScalarMap, Params, Values, soft_bound

_RAW_BOUND = 3.0
"""Slopes at knots stay within exp(-3) and exp(3), ratios of bins within exp(6)."""

_EVEN_SHARE = 0.01
"""Share of the box divided evenly, so that no bin is narrower than float32 can resolve."""


class _Bins(NamedTuple):
    """Widths on the side of data, heights on the side of the base, slopes at the inner knots."""

    widths: Float[Array, "bins *shape"]
    heights: Float[Array, "bins *shape"]
    slopes: Float[Array, "inner *shape"]


class _Bin(NamedTuple):
    """The bin that a number is in: its lower corner, its size, and the slopes at its ends."""

    left: Array
    bottom: Array
    width: Array
    height: Array
    slope_left: Array
    slope_right: Array


class SplineMap(AbstractScalarMap):
    """Increasing bins inside [-bound, bound], the identity outside, slope 1 at the two ends.

    The parameters are raw widths, raw heights and raw slopes at the inner knots. Zero gives the
    identity: bins of equal size, slopes of 1. Numbers outside the box do not move: combine the spline
    with an `AffineMap` in a `Composed`.
    """

    num_bins: int = eqx.field(static=True, default=8)
    bound: float = eqx.field(static=True, default=4.0)

    def __check_init__(self):
        check.count(at_least=2, num_bins=self.num_bins, hint="One bin could only be the identity.")
        check.positive(bound=self.bound)

    @property
    def num_params(self) -> int:
        """A width and a height for each bin, a slope for each knot between two bins."""
        return 3 * self.num_bins - 1

    def forward_and_log_det(self, z: Values, params: Params) -> tuple[Values, Values]:
        """Base to data: the root of a quadratic."""
        inside = jnp.abs(z) <= self.bound
        safe = jnp.where(inside, z, jnp.zeros_like(z))
        bins = self._bins(params)
        at = self._bin(bins, safe, bins.heights)
        across = _root(at, (safe - at.bottom) / at.height)
        x = at.left + at.width * across
        return jnp.where(inside, x, z), jnp.where(inside, -_log_slope(at, across), 0)

    def inverse_and_log_det(self, x: Values, params: Params) -> tuple[Values, Values]:
        """Data to base: the quotient itself."""
        inside = jnp.abs(x) <= self.bound
        safe = jnp.where(inside, x, jnp.zeros_like(x))
        bins = self._bins(params)
        at = self._bin(bins, safe, bins.widths)
        across = (safe - at.left) / at.width
        slope, bump = at.height / at.width, _bump(across)
        up = (slope * jnp.square(across) + at.slope_left * bump) / _denominator(at, bump)
        z = at.bottom + at.height * up
        return jnp.where(inside, z, x), jnp.where(inside, _log_slope(at, across), 0)

    def _bins(self, params: Array) -> _Bins:
        num = self.num_bins
        sizes = jnp.exp(soft_bound(params, _RAW_BOUND))

        def shares(sizes: Array) -> Array:
            part = sizes / jnp.sum(sizes, axis=0, keepdims=True)
            return 2 * self.bound * (_EVEN_SHARE / num + (1 - _EVEN_SHARE) * part)

        return _Bins(shares(sizes[:num]), shares(sizes[num : 2 * num]), sizes[2 * num :])

    def _bin(self, bins: _Bins, value: Array, sizes: Array) -> _Bin:
        """The bin of `value`, on the side whose bins have these sizes."""
        knots = jnp.cumsum(sizes[:-1], axis=0) - self.bound
        # comparisons have no gradient: positions get theirs through the sums of sizes below
        past = (value[None] >= knots).astype(value.dtype)
        first, none = jnp.ones_like(past[:1]), jnp.zeros_like(past[:1])
        here = jnp.concatenate([first, past]) - jnp.concatenate([past, none])
        pick = lambda mask, values: jnp.sum(mask * values, axis=0)  # noqa: E731
        return _Bin(
            left=pick(past, bins.widths[:-1]) - self.bound,
            bottom=pick(past, bins.heights[:-1]) - self.bound,
            width=pick(here, bins.widths),
            height=pick(here, bins.heights),
            slope_left=here[0] + pick(here[1:], bins.slopes),
            slope_right=pick(here[:-1], bins.slopes) + here[-1],
        )


def _bump(t: Array) -> Array:
    """The product t (1 - t), but at least 0 if rounding put `t` past an end; the gradient is kept."""
    bump = t * (1 - t)
    return bump - jax.lax.stop_gradient(jnp.minimum(bump, 0))


def _denominator(at: _Bin, bump: Array) -> Array:
    """The denominator of the quotient, written as a sum of positive terms."""
    return at.height / at.width * (1 - 2 * bump) + (at.slope_left + at.slope_right) * bump


def _log_slope(at: _Bin, across: Array) -> Array:
    """Log-derivative of data to base, at a fraction `across` of the bin's width."""
    slope, bump = at.height / at.width, _bump(across)
    numerator = (
        at.slope_right * jnp.square(across)
        + 2 * slope * bump
        + at.slope_left * jnp.square(1 - across)
    )
    return jnp.log(numerator * jnp.square(slope / _denominator(at, bump)))


def _root(at: _Bin, up: Array) -> Array:
    """The fraction of the bin's width at which the spline has risen by a fraction `up` of its height.

    With q = slope_left - up (slope_left + slope_right), the quadratic's discriminant is
    q^2 + (2 slope)^2 up (1 - up): a sum of nonnegative terms, so rounding cannot make it negative. The
    root is written in the form without cancellation for either sign of q.
    """
    slope = at.height / at.width
    q = at.slope_left - up * (at.slope_left + at.slope_right)
    curved = jnp.square(2 * slope) * _bump(up)
    size = jnp.where(q > 0, q, -q)
    long = size + jnp.sqrt(jnp.square(q) + curved)
    return 2 * slope * up / (2 * slope * up + jnp.where(q > 0, long, curved / long))
