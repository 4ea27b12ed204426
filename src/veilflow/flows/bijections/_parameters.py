"""Parameters of a bijection as one vector: trained numbers, or set by a network from a condition.

Planar and Sylvester maps read a parameter in more than one place: `w` of a planar map enters its
output, its log-determinant and the bound that keeps it invertible. A tap reports the gradient of one
layer call. So the whole vector is the output of one call, of a `Shift` on zeros or of a network, and
all that happens later is a function of that output: the cotangent that the tap sees is the record's
whole gradient. It holds in both directions. The price is a tap of one number for every parameter and
record, little for the few hundred numbers of these maps.
"""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from veilflow._core import check
from veilflow.flows.bijection import Condition
from veilflow.flows.network import MLP
from veilflow.nn.elementwise import Shift


class Parameters(eqx.Module):
    """A vector of `size` numbers."""

    source: Shift | MLP

    @classmethod
    def create(
        cls,
        start: Float[Array, " size"],
        *,
        key: Key[Array, ""],
        condition_dim: int = 0,
        hidden: tuple[int, ...] = (64,),
    ) -> "Parameters":
        """Parameters that start at `start`, or near it for every condition.

        Args:
            start: Their first values.
            key: Spent here, for the network.
            condition_dim: How many numbers a condition has; 0 for none, and then no network.
            hidden: Sizes of the network's hidden layers.

        Returns:
            The parameters.

        Raises:
            ValueError: If a size is out of range.
        """
        check.count(condition_dim=condition_dim, at_least=0)
        if condition_dim == 0:
            return cls(Shift(shift=start))
        network = MLP.create(0, start.size, key=key, hidden=hidden, condition_dim=condition_dim)
        return cls(eqx.tree_at(lambda net: net.layers[-1].bias, network, start))

    @property
    def size(self) -> int:
        """How many numbers there are."""
        if isinstance(self.source, MLP):
            return self.source.out_size
        return self.source.shift.shape[-1]

    def __call__(self, condition: Condition) -> Float[Array, " size"]:
        """The numbers for one record; a condition that nobody asked for is left alone."""
        if isinstance(self.source, MLP):
            return self.source(jnp.zeros(0), condition)
        return self.source(jnp.zeros_like(self.source.shift))
