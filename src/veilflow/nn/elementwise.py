"""Elementwise layers: a scale or a shift for each coordinate, as in ActNorm and diagonal maps.

Every coordinate is a unit of its own.
"""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from veilflow.nn import outer
from veilflow.nn.tap import AbstractLayer, Tap, observe


class Scale(AbstractLayer):
    """y = exp(log_scale) * x. The scale is never zero, so the map is always invertible."""

    log_scale: Float[Array, "... size"]
    tap: Tap | None = None
    uses: int | None = eqx.field(static=True, default=None)

    def __call__(self, x: Float[Array, " size"]) -> Float[Array, " size"]:
        y = jnp.exp(self.log_scale) * x
        # dy/dlog_scale is y itself, so the tap has to record y
        return observe(y, y, self.tap)

    @property
    def stack(self) -> tuple[int, ...]:
        return self.log_scale.shape[:-1]

    def tap_shapes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        return self.log_scale.shape[-1:], self.log_scale.shape[-1:]

    def squared_norm(self, tap: Tap) -> Float[Array, " records"]:
        return outer.summed_bias_norm(tap.d * tap.a, uses=self.uses is not None)

    def weighted_sum(self, tap: Tap, factors: Float[Array, "records ..."]) -> "Scale":
        gradient = outer.scale(self.per_record(tap).log_scale, factors, uses=False)
        return Scale(log_scale=jnp.sum(gradient, axis=0), uses=self.uses)

    def unit_norms(self, tap: Tap) -> tuple[Float[Array, "records units"], ...]:
        return _entries(tap.d * tap.a, uses=self.uses is not None)

    def per_record(self, tap: Tap) -> "Scale":
        gradient = outer.total(tap.d * tap.a, uses=self.uses is not None)
        return Scale(log_scale=gradient, uses=self.uses)


class Shift(AbstractLayer):
    """y = x + shift."""

    shift: Float[Array, "... size"]
    tap: Tap | None = None
    uses: int | None = eqx.field(static=True, default=None)

    def __call__(self, x: Float[Array, " size"]) -> Float[Array, " size"]:
        # the gradient needs no input, so an empty one is recorded
        return observe(x + self.shift, x[:0], self.tap)

    @property
    def stack(self) -> tuple[int, ...]:
        return self.shift.shape[:-1]

    def tap_shapes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        return (0,), self.shift.shape[-1:]

    def squared_norm(self, tap: Tap) -> Float[Array, " records"]:
        return outer.summed_bias_norm(tap.d, uses=self.uses is not None)

    def weighted_sum(self, tap: Tap, factors: Float[Array, "records ..."]) -> "Shift":
        shift = outer.weighted_total(tap.d, factors, uses=self.uses is not None)
        return Shift(shift=shift, uses=self.uses)

    def unit_norms(self, tap: Tap) -> tuple[Float[Array, "records units"], ...]:
        return _entries(tap.d, uses=self.uses is not None)

    def per_record(self, tap: Tap) -> "Shift":
        return Shift(shift=outer.total(tap.d, uses=self.uses is not None), uses=self.uses)


def _entries(gradient: Array, *, uses: bool) -> tuple[Float[Array, "records units"], ...]:
    """L1 and squared L2 norms of gradients in which every entry is a unit."""
    total = outer.total(gradient, uses=uses)
    lengths = outer.total(jnp.abs(gradient), uses=True) if uses else jnp.zeros_like(total)
    return jnp.abs(total), outer.raised(jnp.square(total), lengths)
