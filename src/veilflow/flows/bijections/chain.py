"""Bijections one after the other."""

from collections.abc import Iterable

import jax.numpy as jnp
from jaxtyping import Array, Float

from veilflow.flows.bijection import AbstractBijection, Condition


class Chain(AbstractBijection):
    """Bijections from base to data: forward runs first to last, inverse last to first."""

    bijections: tuple[AbstractBijection, ...]

    def __init__(self, bijections: Iterable[AbstractBijection]):
        """Check that the dimensions agree.

        Args:
            bijections: At least one, all of the same dimension, from base to data.

        Raises:
            ValueError: If there is none, or dimensions differ.
        """
        self.bijections = tuple(bijections)
        dims = sorted({bijection.dim for bijection in self.bijections})
        if len(dims) != 1:
            raise ValueError(
                f"a chain needs at least one bijection and one dimension for all, got {dims}."
            )

    @property
    def dim(self) -> int:
        """How many numbers an example has."""
        return self.bijections[0].dim

    def forward_and_log_det(
        self, z: Float[Array, " dim"], condition: Condition = None
    ) -> tuple[Float[Array, " dim"], Float[Array, ""]]:
        """Base to data, first to last."""
        total = jnp.zeros(())
        for bijection in self.bijections:
            z, log_det = bijection.forward_and_log_det(z, condition)
            total = total + log_det
        return z, total

    def inverse_and_private_log_det(
        self, x: Float[Array, " dim"], condition: Condition = None
    ) -> tuple[Float[Array, " dim"], Float[Array, ""]]:
        """Data to base, last to first."""
        total = jnp.zeros(())
        for bijection in reversed(self.bijections):
            x, log_det = bijection.inverse_and_private_log_det(x, condition)
            total = total + log_det
        return x, total

    def public_log_det(self) -> Float[Array, ""]:
        """The sum over the chain."""
        total = jnp.zeros(())
        for bijection in self.bijections:
            total = total + bijection.public_log_det()
        return total
