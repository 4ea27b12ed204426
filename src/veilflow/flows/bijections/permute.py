"""Fixed reorderings of the coordinates."""

from collections.abc import Iterable

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from veilflow._core import check
from veilflow.flows.bijection import AbstractBijection, Condition


class Permutation(AbstractBijection):
    """x[i] = z[order[i]]; the order is a public constant."""

    order: tuple[int, ...] = eqx.field(static=True)

    def __init__(self, order: Iterable[int]):
        """Check the order.

        Args:
            order: Each of 0..dim-1 once.

        Raises:
            ValueError: If it is not that.
        """
        self.order = tuple(int(i) for i in order)
        if not self.order or sorted(self.order) != list(range(len(self.order))):
            raise ValueError(f"order must hold each of 0..dim-1 once, got {self.order}.")

    @property
    def dim(self) -> int:
        """How many numbers an example has."""
        return len(self.order)

    def forward_and_log_det(
        self, z: Float[Array, " dim"], condition: Condition = None
    ) -> tuple[Float[Array, " dim"], Float[Array, ""]]:
        """Base to data; volumes stay."""
        return z[np.asarray(self.order)], jnp.zeros(())

    def inverse_and_private_log_det(
        self, x: Float[Array, " dim"], condition: Condition = None
    ) -> tuple[Float[Array, " dim"], Float[Array, ""]]:
        """Data to base; volumes stay."""
        return x[np.argsort(self.order)], jnp.zeros(())


def reverse(dim: int) -> Permutation:
    """The permutation that turns the order of the coordinates around."""
    check.count(dim=dim)
    return Permutation(range(dim - 1, -1, -1))
