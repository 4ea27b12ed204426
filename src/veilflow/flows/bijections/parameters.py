"""All parameters of a bijection as the output of one layer call.

Some bijections read a parameter in more than one place: `w` of a planar map enters its output, its
log-determinant and the bound that keeps it invertible. A tap reports the gradient of one layer call. So
the whole vector of parameters is the output of one call, of a `Shift` on zeros or of a network, and
everything after it is a function of that output: the cotangent that the tap sees is the record's whole
gradient, in both directions. The price is a tap of one number for every parameter and record, which is
small for the few hundred parameters of a planar or Sylvester map, and larger for a full matrix.
"""

from itertools import accumulate
from math import prod
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from veilflow._core import check
from veilflow.flows.bijection import AbstractBijection, Condition, Mapped, Vector
from veilflow.flows.network import MLP
from veilflow.nn.elementwise import Shift
from veilflow.nn.frozen import trainable_part


class Parameters(eqx.Module):
    """A vector of `size` numbers: trained, or set by a network from a condition."""

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
        """Parameters that start at `start`, or close to it for every condition.

        Args:
            start: Initial values.
            key: Spent here, for the network.
            condition_dim: Size of the condition; 0 for none, and then there is no network.
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
        """The numbers for one record; a condition that is not used is ignored."""
        if isinstance(self.source, MLP):
            return self.source(jnp.zeros(0), condition)
        return self.source(jnp.zeros_like(self.source.shift))


class PrivateLogDet(AbstractBijection):
    """A bijection whose whole log-determinant is treated as depending on the record.

    The log-determinant of a linear map depends on no record, so its gradient can be added after
    clipping and noise, without cost. That is right as long as the clip leaves most gradients alone.
    Where the clip binds, it shortens what decreases a scale, which is the record's part, and not what
    increases it: with a clip norm C and more than C^2 scales the two can never balance, and scales
    grow until training ends. Here the two parts are one gradient, and are clipped as one.

    The parameters of the bijection are kept as one vector, the output of one layer call.
    """

    params: Shift
    size: int = eqx.field(static=True)
    structure: Any = eqx.field(static=True)
    """The bijection without its arrays."""
    shapes: tuple[tuple[int, ...], ...] = eqx.field(static=True)
    """Shapes of its arrays."""

    @classmethod
    def create(cls, bijection: AbstractBijection) -> "PrivateLogDet":
        """The same map as `bijection`, with the same trained numbers.

        Raises:
            ValueError: If it holds arrays that are not trained.
        """
        trained, rest = trainable_part(bijection)
        if jax.tree.leaves(rest):
            raise ValueError(
                f"{type(bijection).__name__} holds arrays that are not trained. Keep those outside "
                "of PrivateLogDet: they add only a constant to the log-determinant."
            )
        leaves, structure = jax.tree.flatten(trained)
        vector = jnp.concatenate([jnp.zeros(0), *(jnp.ravel(leaf) for leaf in leaves)])
        shapes = tuple(leaf.shape for leaf in leaves)
        return cls(Shift(shift=vector), bijection.dim, structure, shapes)

    @property
    def dim(self) -> int:
        """How many numbers an example has."""
        return self.size

    def forward_and_log_det(self, z: Vector, condition: Condition = None) -> Mapped:
        """Base to data; taps hold in this direction too."""
        return self._bijection().forward_and_log_det(z, condition)

    def inverse_and_private_log_det(self, x: Vector, condition: Condition = None) -> Mapped:
        """Data to base, with all terms of the log-determinant."""
        return self._bijection().inverse_and_log_det(x, condition)

    def _bijection(self) -> AbstractBijection:
        """The bijection, with all parameters read through the one tap."""
        vector = self.params(jnp.zeros_like(self.params.shift))
        ends = list(accumulate(prod(shape) for shape in self.shapes))
        parts = jnp.split(vector, ends[:-1]) if self.shapes else []
        leaves = [part.reshape(shape) for part, shape in zip(parts, self.shapes, strict=True)]
        return jax.tree.unflatten(self.structure, leaves)
