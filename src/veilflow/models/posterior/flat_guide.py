"""A guide as the engine trains it: one vector of numbers, and draws that all records share.

A guide runs from base to parameters, where taps do not hold. So its numbers lie in one vector, which
the engine clips by each record's own gradient. A record's gradient is J^T of its gradients at the
draws, J the Jacobian of all draws by the numbers, which no record enters: it is made once a step, and
what is left for each record is a product.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, UInt32

from veilflow._core.keys import wrap
from veilflow.flows import Chain, FixedLinear, Flow, StandardNormal
from veilflow.models.posterior.guides import Skeleton

_MIX = 0x9E3779B1
"""Odd, so that no bit of a number is lost in the product."""


class FlatGuide(eqx.Module):
    """The distribution of `place(bijection(z))` for standard normal z."""

    numbers: Float[Array, " numbers"]
    place: FixedLinear
    """Declared or released: where the posterior lies. Not trained."""
    words: UInt32[Array, "2"]
    """What draws grow from."""
    skeleton: Skeleton = eqx.field(static=True)

    def flow(self) -> Flow:
        """The guide as a density over parameters."""
        return self._flow(self.numbers)

    def _flow(self, numbers: Array) -> Flow:
        maps = (self.skeleton.bijection(numbers), self.place)
        return Flow(StandardNormal(self.skeleton.dim), Chain(maps))

    def base_draws(self, count: int) -> Float[Array, "count dim"]:
        """Standard normals and their mirror images, others at every step.

        The key follows from the numbers, which are released and change with every step. So all records
        of a step, and the terms without records, see the same draws.
        """
        bits = jax.lax.bitcast_convert_type(jax.lax.stop_gradient(self.numbers), jnp.uint32)
        places = jnp.arange(bits.size, dtype=jnp.uint32) * 2 + 1
        mixed = jnp.sum(bits * places * jnp.uint32(_MIX), dtype=jnp.uint32)
        key = wrap(self.words ^ jnp.stack([mixed, mixed >> 16]))
        half = jax.random.normal(key, (-(-count // 2), self.skeleton.dim))
        return jnp.concatenate([half, -half])[:count]

    def draws_and_log_prob(self, base: Any) -> tuple[Float[Array, "count dim"], Array]:
        """Parameters, and the natural log of the guide's density there."""

        def one(z: Array) -> tuple[Array, Array]:
            flow = self.flow()
            theta, log_det = flow.bijection.forward_and_log_det(z)
            return theta, flow.base.log_prob(z) - log_det

        return jax.vmap(one)(base)

    def draws_and_jacobian(
        self, base: Any
    ) -> tuple[Float[Array, "count dim"], Float[Array, "count dim numbers"]]:
        """Parameters, and their Jacobian by the numbers: the same for all records."""

        def one(numbers: Array, z: Array) -> Array:
            return self._flow(numbers).bijection.forward_and_log_det(z)[0]

        here = jax.lax.stop_gradient(self.numbers)
        thetas = jax.vmap(one, (None, 0))(here, base)
        return thetas, jax.vmap(jax.jacrev(one), (None, 0))(here, base)
