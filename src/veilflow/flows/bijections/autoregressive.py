"""The autoregressive map: density in one pass, sampling coordinate by coordinate."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from veilflow.flows.bijection import AbstractBijection, Condition, refuse_taps
from veilflow.flows.conditioner import MaskedMLP
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
        """Base to data, one pass of the network for each coordinate."""
        refuse_taps(self)

        def one_coordinate(x: Array, i: Array) -> tuple[Array, Array]:
            params = self.conditioner(x)
            # only coordinate i: the later ones are not right yet, and could be infinite
            x_i, log_det = self.scalar_map.forward_and_log_det(z[i], params[:, i])
            return x.at[i].set(x_i), log_det

        x, log_det = jax.lax.scan(one_coordinate, jnp.zeros_like(z), jnp.arange(self.dim))
        return x, jnp.sum(log_det)

    def inverse_and_private_log_det(
        self, x: Float[Array, " dim"], condition: Condition = None
    ) -> tuple[Float[Array, " dim"], Float[Array, ""]]:
        """Data to base, one pass of the network."""
        z, log_det = self.scalar_map.inverse_and_log_det(x, self.conditioner(x))
        return z, jnp.sum(log_det)
