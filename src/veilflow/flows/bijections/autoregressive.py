"""The autoregressive map: density and sampling in one pass of the network each.

Sampling goes coordinate by coordinate, but each step computes only the units that the coordinate
before it made computable (see `conditioner`). One loop over the coordinates, so that the time to
compile does not grow with them.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from veilflow.flows.bijection import AbstractBijection, Condition, refuse_taps
from veilflow.flows.conditioner import Known, MaskedMLP
from veilflow.flows.scalar_map import AbstractScalarMap


class Autoregressive(AbstractBijection):
    """Each coordinate goes through `scalar_map`, with parameters set by the coordinates before it."""

    conditioner: MaskedMLP
    scalar_map: AbstractScalarMap

    def __check_init__(self):
        if self.conditioner.num_params != self.scalar_map.num_params:
            raise ValueError(
                f"conditioner must set {self.scalar_map.num_params} parameters a coordinate for "
                f"{type(self.scalar_map).__name__}, got {self.conditioner.num_params}. Build it "
                f"with num_params={self.scalar_map.num_params}."
            )

    @property
    def dim(self) -> int:
        """How many numbers an example has."""
        return self.conditioner.dim

    def forward_and_log_det(
        self, z: Float[Array, " dim"], condition: Condition = None
    ) -> tuple[Float[Array, " dim"], Float[Array, ""]]:
        """Base to data, coordinate by coordinate; the work of one pass of the network."""
        refuse_taps(self)
        network = self.conditioner

        def one_coordinate(known: Known, step: tuple[Array, Array]) -> tuple[Known, Any]:
            i, z_i = step
            params, known = network.parameters_of(i, known)
            x_i, log_det = self.scalar_map.forward_and_log_det(z_i, params)
            return network.with_coordinate(i, x_i, known), (x_i, log_det)

        dtype = jnp.result_type(z, *jax.tree.leaves(network))
        start = network.nothing_known(condition, dtype=dtype)
        _, (x, log_det) = jax.lax.scan(one_coordinate, start, (jnp.arange(self.dim), z))
        return x, jnp.sum(log_det)

    def inverse_and_private_log_det(
        self, x: Float[Array, " dim"], condition: Condition = None
    ) -> tuple[Float[Array, " dim"], Float[Array, ""]]:
        """Data to base, one pass of the network."""
        z, log_det = self.scalar_map.inverse_and_log_det(x, self.conditioner(x, condition))
        return z, jnp.sum(log_det)
