"""The dense layer: y = W a + b."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from veilflow.nn import outer
from veilflow.nn.tap import AbstractLayer, Tap, observe


def uniform_init(key: Key[Array, ""], shape: tuple[int, ...], fan_in: int) -> Array:
    """Uniform in +-1/sqrt(fan_in), as in the code of the DP-NF authors."""
    bound = 1 / max(fan_in, 1) ** 0.5
    return jax.random.uniform(key, shape, minval=-bound, maxval=bound)


class Dense(AbstractLayer):
    """A dense layer that maps one record's vector of `in_size` to `out_size`."""

    weight: Float[Array, "... out_size in_size"]
    bias: Float[Array, "... out_size"] | None
    tap: Tap | None = None
    uses: int | None = eqx.field(static=True, default=None)

    @classmethod
    def create(
        cls,
        in_size: int,
        out_size: int,
        *,
        key: Key[Array, ""],
        bias: bool = True,
        init: Callable[..., Array] = uniform_init,
    ) -> "Dense":
        """A new layer with random weights and a zero bias."""
        weight = init(key, (out_size, in_size), in_size)
        return cls(weight=weight, bias=jnp.zeros(out_size) if bias else None)

    def __call__(self, x: Float[Array, " in_size"]) -> Float[Array, " out_size"]:
        y = self.weight @ x
        return observe(y if self.bias is None else y + self.bias, x, self.tap)

    @property
    def stack(self) -> tuple[int, ...]:
        return self.weight.shape[:-2]

    def tap_shapes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        out_size, in_size = self.weight.shape[-2:]
        return (in_size,), (out_size,)

    def squared_norm(self, tap: Tap) -> Float[Array, " records"]:
        uses = self.uses is not None
        norm = outer.squared_norm(tap.d, tap.a, uses=uses)
        return norm if self.bias is None else norm + outer.summed_bias_norm(tap.d, uses=uses)

    def weighted_sum(self, tap: Tap, factors: Float[Array, "records ..."]) -> "Dense":
        uses = self.uses is not None
        weight = outer.weighted_sum(tap.d, tap.a, factors, uses=uses)
        bias = None if self.bias is None else outer.weighted_total(tap.d, factors, uses=uses)
        return Dense(weight=weight, bias=bias, uses=self.uses)

    def unit_norms(self, tap: Tap) -> tuple[Float[Array, "records units"], ...]:
        if self.uses is not None:
            return rows_of(self.per_record(tap), tap)
        sees = jnp.ones((1, tap.a.shape[-1]), tap.a.dtype)
        return rows_once(tap, sees, bias=self.bias is not None)

    def per_record(self, tap: Tap) -> "Dense":
        uses = self.uses is not None
        bias = None if self.bias is None else outer.total(tap.d, uses=uses)
        weight = outer.outer(tap.d, tap.a, uses=uses)
        return Dense(weight=weight, bias=bias, uses=self.uses)


def rows_of(gradient, tap: Tap) -> tuple[Float[Array, "records units"], ...]:
    """L1 and squared L2 norms of the rows of gradients summed over uses, biases included."""
    l1, l2 = jnp.sum(jnp.abs(gradient.weight), -1), jnp.sum(jnp.square(gradient.weight), -1)
    if gradient.bias is not None:
        l1, l2 = l1 + jnp.abs(gradient.bias), l2 + jnp.square(gradient.bias)
    return l1, outer.raised(l2, outer.row_lengths(tap.d, tap.a))


def rows_once(
    tap: Tap, sees: Float[Array, "#units inputs"], *, bias: bool
) -> tuple[Float[Array, "records units"], ...]:
    """The same in closed form for one use: row i of `d a^T` is d_i times the inputs seen by unit i."""
    one = 1.0 if bias else 0.0
    l1 = outer.contract("ri,oi->ro", jnp.abs(tap.a), sees) + one
    l2 = outer.contract("ri,oi->ro", jnp.square(tap.a), sees) + one
    return jnp.abs(tap.d) * l1, (jnp.square(tap.d) + outer.TINY) * (l2 + outer.TINY)
