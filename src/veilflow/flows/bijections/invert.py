"""A bijection turned around."""

from jaxtyping import Array, Float

from veilflow.flows.bijection import AbstractBijection, Condition


class Invert(AbstractBijection):
    """Forward is the inverse of `bijection`, inverse its forward.

    The density then runs through the forward direction of `bijection`, where taps do not hold: a
    bijection with layers refuses them there.
    """

    bijection: AbstractBijection

    @property
    def dim(self) -> int:
        """How many numbers an example has."""
        return self.bijection.dim

    def forward_and_log_det(
        self, z: Float[Array, " dim"], condition: Condition = None
    ) -> tuple[Float[Array, " dim"], Float[Array, ""]]:
        """Base to data: the inverse of `bijection`."""
        return self.bijection.inverse_and_log_det(z, condition)

    def inverse_and_private_log_det(
        self, x: Float[Array, " dim"], condition: Condition = None
    ) -> tuple[Float[Array, " dim"], Float[Array, ""]]:
        """Data to base: the forward direction of `bijection`."""
        z, log_det = self.bijection.forward_and_log_det(x, condition)
        # what is free of data in one direction is so in the other, with the sign changed
        return z, log_det - self.public_log_det()

    def public_log_det(self) -> Float[Array, ""]:
        """Minus that of `bijection`."""
        return -self.bijection.public_log_det()
