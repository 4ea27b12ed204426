"""The planar map, and the increasing function a + t tanh(a) that it shares with Sylvester maps."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from veilflow._core import check
from veilflow.flows.bijection import AbstractBijection, Condition, Mapped, Vector
from veilflow.flows.bijections.parameters import Parameters
from veilflow.nn.dense import uniform_init
from veilflow.nn.outer import contract

LEAST_SLOPE = 0.01
"""Lower bound of the slope at 0, 1 + t: closer to zero, a float32 could not be mapped back."""
_SPREAD = 0.01
"""Size of the first steps along `u`: the map starts close to the identity."""
_STEPS = 16
"""Newton steps: measured to give all digits of a float64 wherever t is below 1e6."""


Values = Float[Array, "*shape"]


def damping(product: Values) -> Values:
    """A positive factor that keeps `t = factor * product` above LEAST_SLOPE - 1.

    `t` increases with the product, is close to it where the product is large, and zero where it is.
    """
    return (1 - LEAST_SLOPE) / (1 + jax.nn.softplus(-product))


def log_slope(a: Values, t: Values) -> Values:
    """Log of the derivative, 1 + t / cosh(a)^2."""
    return jnp.log1p(t * _sech_squared(a))


@jax.custom_jvp
def solve(c: Values, t: Values) -> Values:
    """The `a` with a + t tanh(a) = c, element by element; derivatives are those of the exact root.

    For a, c >= 0 the function is concave if t > 0 and convex if t < 0. Newton's method never oversteps
    the root if it starts left of it for a concave function, or right of it for a convex one.
    """
    size = jnp.abs(c)  # the function is odd
    # from tanh(a) <= min(a, 1): bounds on the root, from below if t > 0, from above if t < 0
    linear, saturated = size / (1 + t), size - t
    a = jnp.where(t > 0, jnp.maximum(linear, saturated), jnp.minimum(linear, saturated))

    def newton(_: int, a: Array) -> Array:
        return a - (a + t * jnp.tanh(a) - size) / (1 + t * _sech_squared(a))

    return jnp.copysign(jax.lax.fori_loop(0, _STEPS, newton, a), c)


@solve.defjvp
def _solve_jvp(primals: tuple[Array, Array], tangents: tuple[Array, Array]) -> tuple[Array, Array]:
    (c, t), (dc, dt) = primals, tangents
    a = solve(c, t)
    return a, (dc - jnp.tanh(a) * dt) / (1 + t * _sech_squared(a))


def _sech_squared(a: Array) -> Array:
    # not 1 - tanh^2, which has no digits left where tanh is close to 1
    return 4 * jax.nn.sigmoid(2 * a) * jax.nn.sigmoid(-2 * a)


class Planar(AbstractBijection):
    """z = x + u tanh(w.x + b), with `u` shortened where necessary to keep w.u above -1.

    Data to base is this formula. Base to data solves one increasing equation of one number, by a
    fixed number of Newton steps. Shortening all of `u`, and not only its part along `w`, gives the
    same family of maps without dividing by a norm, so nothing is singular at w = 0.

    Taps hold in both directions, so `Invert(Planar)` can be trained, too.

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
            condition_dim: Size of the condition that sets the parameters; 0 for none.
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

    def forward_and_log_det(self, z: Vector, condition: Condition = None) -> Mapped:
        """Base to data: with a = w.x + b, z gives w.z + b = a + (w.u) tanh(a), to be solved for a."""
        w, u, b, t = self._parts(condition)
        a = solve(_dot(w, z) + b, t)
        return z - u * jnp.tanh(a), -log_slope(a, t)

    def inverse_and_private_log_det(self, x: Vector, condition: Condition = None) -> Mapped:
        """Data to base; the whole log-determinant depends on the record."""
        w, u, b, t = self._parts(condition)
        a = _dot(w, x) + b
        return x + u * jnp.tanh(a), log_slope(a, t)

    def _parts(self, condition: Condition) -> tuple[Array, Array, Array, Array]:
        """w, the shortened u, b and w.u for one record."""
        numbers, dim = self.parameters(condition), self.dim
        w, u, b = numbers[:dim], numbers[dim:-1], numbers[-1]
        product = _dot(w, u)
        factor = damping(product)
        return w, factor * u, b, factor * product


def _dot(a: Float[Array, " dim"], b: Float[Array, " dim"]) -> Float[Array, ""]:
    """The product in full float32 on every device: the two directions must agree on it."""
    return contract("i,i->", a, b)
