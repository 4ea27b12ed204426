"""Invertible linear maps composed of layers, so that per-record gradients have closed forms.

Both are sums and products of layers that compute their own gradients; the taps of these layers yield
equations (3) and (4) of DP-HFlow. The log-determinant depends on parameters only, so the engine adds
its gradient after the noise.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from veilflow.nn.dense import Dense
from veilflow.nn.elementwise import Scale, Shift
from veilflow.nn.masked import MaskedDense


class LULinear(eqx.Module):
    """y = L U x + b with L unit lower triangular and U upper triangular with positive diagonal."""

    diagonal: Scale
    upper: MaskedDense
    lower: MaskedDense
    shift: Shift

    @classmethod
    def create(cls, size: int, *, key: Key[Array, ""], spread: float = 0.01) -> "LULinear":
        """A new map close to the identity."""
        upper_key, lower_key = jax.random.split(key)
        order = tuple(range(size))
        behind, ahead = tuple(-i for i in order), tuple(-i - 1 for i in order)
        upper = MaskedDense.create(behind, ahead, key=upper_key, bias=False)
        lower = MaskedDense.create(tuple(i + 1 for i in order), order, key=lower_key, bias=False)
        small = lambda layer: eqx.tree_at(lambda m: m.weight, layer, spread * layer.weight)  # noqa: E731
        diagonal, shift = Scale(log_scale=jnp.zeros(size)), Shift(shift=jnp.zeros(size))
        return cls(diagonal, small(upper), small(lower), shift)

    def __call__(self, x: Float[Array, " size"]) -> Float[Array, " size"]:
        x = self.diagonal(x) + self.upper(x)
        return self.shift(x + self.lower(x))

    def log_det(self) -> Float[Array, ""]:
        """Log of the absolute determinant; it does not depend on records."""
        return jnp.sum(self.diagonal.log_scale)


class LowRankLinear(eqx.Module):
    """y = (diag(s) + A B) x + b, with A of `rank` columns."""

    diagonal: Scale
    down: Dense
    up: Dense

    @classmethod
    def create(
        cls, size: int, *, key: Key[Array, ""], rank: int = 1, spread: float = 0.01
    ) -> "LowRankLinear":
        """A new map close to the identity."""
        down_key, up_key = jax.random.split(key)
        down = Dense.create(size, rank, key=down_key, bias=False)
        up = Dense.create(rank, size, key=up_key)
        up = eqx.tree_at(lambda m: m.weight, up, spread * up.weight)
        return cls(Scale(log_scale=jnp.zeros(size)), down, up)

    def __call__(self, x: Float[Array, " size"]) -> Float[Array, " size"]:
        return self.diagonal(x) + self.up(self.down(x))

    def log_det(self) -> Float[Array, ""]:
        """Log of the absolute determinant, by the matrix determinant lemma."""
        inverse_scale = jnp.exp(-self.diagonal.log_scale)
        rank = self.down.weight.shape[0]
        small = jnp.eye(rank) + self.down.weight @ (inverse_scale[:, None] * self.up.weight)
        return jnp.sum(self.diagonal.log_scale) + jnp.linalg.slogdet(small)[1]
