"""A trained scale and shift of every coordinate."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from veilflow._core import check
from veilflow.flows.bijection import AbstractBijection, Condition, refuse_taps
from veilflow.nn.elementwise import Scale, Shift


class ActNorm(AbstractBijection):
    """z = exp(log_scale) * x + shift, starting as the identity.

    The usual start, from the mean and spread of a first batch, would release them unpaid.
    """

    scale: Scale
    shift: Shift

    @classmethod
    def create(cls, dim: int) -> "ActNorm":
        """The identity on `dim` coordinates."""
        check.count(dim=dim)
        return cls(scale=Scale(log_scale=jnp.zeros(dim)), shift=Shift(shift=jnp.zeros(dim)))

    @property
    def dim(self) -> int:
        """How many numbers an example has."""
        return self.shift.shift.shape[-1]

    def forward_and_log_det(
        self, z: Float[Array, " dim"], condition: Condition = None
    ) -> tuple[Float[Array, " dim"], Float[Array, ""]]:
        """Base to data: x = (z - shift) exp(-log_scale)."""
        refuse_taps(self)
        x = (z - self.shift.shift) * jnp.exp(-self.scale.log_scale)
        return x, -self.public_log_det()

    def inverse_and_private_log_det(
        self, x: Float[Array, " dim"], condition: Condition = None
    ) -> tuple[Float[Array, " dim"], Float[Array, ""]]:
        """Data to base; no term of the log-determinant looks at the record."""
        return self.shift(self.scale(x)), jnp.zeros(())

    def public_log_det(self) -> Float[Array, ""]:
        """The sum of the log-scales."""
        return jnp.sum(self.scale.log_scale)
