"""A bijection whose whole log-determinant counts as the record's.

The log-determinant of a linear map looks at no record, so its gradient can be added after clipping and
noise, for free. That is right as long as the clip leaves most gradients alone. Where it binds, it
shortens what pulls a scale down, the record's part, and not what pushes it up: with a bound C and more
than C^2 scales the two can never balance, and scales grow until training ends. Here the two parts are
one gradient, and are clipped as one.

All parameters are the output of one call of a layer, as in `_parameters`, so the tap of that call sees
the gradient of the log-determinant too. The price is a tap of one number for every parameter and
record: as much as a layer has for a diagonal or a matrix of rank one, more for a full matrix.
"""

from itertools import accumulate
from math import prod
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from veilflow.flows.bijection import AbstractBijection, Condition
from veilflow.nn.elementwise import Shift
from veilflow.nn.frozen import trainable_part


class PrivateLogDet(AbstractBijection):
    """Another bijection, kept as one vector of all its parameters."""

    params: Shift
    size: int = eqx.field(static=True)
    structure: Any = eqx.field(static=True)
    """The other bijection without its arrays."""
    shapes: tuple[tuple[int, ...], ...] = eqx.field(static=True)
    """Those of its arrays."""

    @classmethod
    def create(cls, bijection: AbstractBijection) -> "PrivateLogDet":
        """The same map as `bijection`, with the same trained numbers.

        Raises:
            ValueError: If some of its arrays are not trained.
        """
        trained, rest = trainable_part(bijection)
        if jax.tree.leaves(rest):
            raise ValueError(
                f"{type(bijection).__name__} holds arrays that are not trained. Leave those outside "
                "of PrivateLogDet: what they add to a log-determinant is a constant."
            )
        leaves, structure = jax.tree.flatten(trained)
        vector = jnp.concatenate([jnp.zeros(0), *(jnp.ravel(leaf) for leaf in leaves)])
        shapes = tuple(leaf.shape for leaf in leaves)
        return cls(Shift(shift=vector), bijection.dim, structure, shapes)

    @property
    def dim(self) -> int:
        """How many numbers an example has."""
        return self.size

    def forward_and_log_det(
        self, z: Float[Array, " dim"], condition: Condition = None
    ) -> tuple[Float[Array, " dim"], Float[Array, ""]]:
        """Base to data; taps hold in this direction too."""
        return self._bijection().forward_and_log_det(z, condition)

    def inverse_and_private_log_det(
        self, x: Float[Array, " dim"], condition: Condition = None
    ) -> tuple[Float[Array, " dim"], Float[Array, ""]]:
        """Data to base, with all terms of the log-determinant."""
        return self._bijection().inverse_and_log_det(x, condition)

    def _bijection(self) -> AbstractBijection:
        """The other bijection, whose every parameter has come through the one tap."""
        vector = self.params(jnp.zeros_like(self.params.shift))
        ends = list(accumulate(prod(shape) for shape in self.shapes))
        parts = jnp.split(vector, ends[:-1]) if self.shapes else []
        leaves = [part.reshape(shape) for part, shape in zip(parts, self.shapes, strict=True)]
        return jax.tree.unflatten(self.structure, leaves)
