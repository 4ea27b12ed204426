"""The planar map: all points move along one direction, by an amount set by another."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from veilflow._core import check
from veilflow.flows.bijection import AbstractBijection, Condition
from veilflow.flows.bijections import _tanh_unit as unit
from veilflow.flows.bijections._parameters import Parameters
from veilflow.nn.dense import uniform_init
from veilflow.nn.outer import contract

_SPREAD = 0.01
"""Size of the first steps along `u`: the map starts close to the identity."""


class Planar(AbstractBijection):
    """z = x + u tanh(w.x + b), with `u` shortened where that is needed to keep w.u above -1.

    Data to base is this formula. Base to data solves one increasing equation of one number, by a
    fixed number of Newton steps. Shortening all of `u`, and not only its part along `w`, reaches the
    same maps and divides by no norm, so nothing is singular at w = 0.

    Taps hold in both directions: `Invert(Planar)` can be trained, too.

    References:
        Rezende, Mohamed, "Variational inference with normalizing flows", 2015.
    """

    parameters: Parameters
    """w, then u, then b."""

    @classmethod
    def create(
        cls,
        dim: int,
        *,
        key: Key[Array, ""],
        condition_dim: int = 0,
        hidden: tuple[int, ...] = (64,),
    ) -> "Planar":
        """Close to the identity on `dim` coordinates.

        Args:
            dim: How many numbers an example has.
            key: Spent here, for the first parameters.
            condition_dim: How many numbers the condition that sets the parameters has; 0 for none.
            hidden: Sizes of the hidden layers between condition and parameters.

        Returns:
            The map.

        Raises:
            ValueError: If a size is out of range.
        """
        check.count(dim=dim)
        w_key, u_key, network_key = jax.random.split(key, 3)
        w, u = uniform_init(w_key, (dim,), dim), _SPREAD * uniform_init(u_key, (dim,), dim)
        start = jnp.concatenate([w, u, jnp.zeros(1)])
        return cls(
            Parameters.create(start, key=network_key, condition_dim=condition_dim, hidden=hidden)
        )

    @property
    def dim(self) -> int:
        """How many numbers an example has."""
        return self.parameters.size // 2

    def forward_and_log_det(
        self, z: Float[Array, " dim"], condition: Condition = None
    ) -> tuple[Float[Array, " dim"], Float[Array, ""]]:
        """Base to data: with a = w.x + b, z gives w.z + b = a + (w.u) tanh(a), to be solved for a."""
        w, u, b, t = self._set(condition)
        a = unit.solve(_dot(w, z) + b, t)
        return z - u * jnp.tanh(a), -unit.log_slope(a, t)

    def inverse_and_private_log_det(
        self, x: Float[Array, " dim"], condition: Condition = None
    ) -> tuple[Float[Array, " dim"], Float[Array, ""]]:
        """Data to base; the whole log-determinant looks at the record."""
        w, u, b, t = self._set(condition)
        a = _dot(w, x) + b
        return x + u * jnp.tanh(a), unit.log_slope(a, t)

    def _set(self, condition: Condition) -> tuple[Array, Array, Array, Array]:
        """w, u, b and w.u, for one record."""
        numbers, dim = self.parameters(condition), self.dim
        w, u, b = numbers[:dim], numbers[dim:-1], numbers[-1]
        product = _dot(w, u)
        factor = unit.damping(product)
        return w, factor * u, b, factor * product


def _dot(a: Float[Array, " dim"], b: Float[Array, " dim"]) -> Float[Array, ""]:
    """The product in full float32 on every device: the two directions must agree on it."""
    return contract("i,i->", a, b)
