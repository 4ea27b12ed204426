"""The Sylvester map: a planar map of several units at once, mixed by Householder reflections."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from veilflow._core import check
from veilflow.flows.bijection import AbstractBijection, Condition, Mapped, Vector
from veilflow.flows.bijections.parameters import Parameters
from veilflow.flows.bijections.planar import damping, log_slope, solve
from veilflow.nn.dense import uniform_init
from veilflow.nn.outer import contract

_SPREAD = 0.01
"""Size of the first entries of R: the map starts close to the identity."""
_SHORTEST = 1e-12
"""Reflections of a smaller squared length are left out: their direction would be rounding error."""


class _Matrices(eqx.Module):
    """The parameters of the map for one record, as matrices and vectors."""

    vectors: Float[Array, "reflections dim"]
    outer: Float[Array, "rank rank"]
    """R, above its diagonal."""
    inner: Float[Array, "rank rank"]
    """The matrix inside tanh, above its diagonal."""
    outer_diagonal: Float[Array, " rank"]
    inner_diagonal: Float[Array, " rank"]
    bias: Float[Array, " rank"]

    @property
    def t(self) -> Float[Array, " rank"]:
        """Products of the diagonals, each above -1."""
        return self.outer_diagonal * self.inner_diagonal

    def into(self, x: Float[Array, " dim"]) -> Float[Array, " rank"]:
        """Q^T x: all reflections in turn, then the first `rank` coordinates."""
        return _reflect(self.vectors, x, reverse=False)[: self.bias.shape[0]]

    def out_of(self, y: Float[Array, " rank"]) -> Float[Array, " dim"]:
        """Q y."""
        padded = jnp.zeros(self.vectors.shape[1], y.dtype).at[: y.shape[0]].set(y)
        return _reflect(self.vectors, padded, reverse=True)

    def step(self, h: Float[Array, " rank"]) -> Float[Array, " dim"]:
        """Q R h, the step by which a point moves."""
        return self.out_of(_times(self.outer, h) + self.outer_diagonal * h)


class Sylvester(AbstractBijection):
    """z = x + Q R tanh(S Q^T x + b), with R and S upper triangular and Q of orthonormal columns.

    Q is a product of Householder reflections, applied to vectors one after the other: no dim x dim
    matrix is ever formed. The diagonal of R is shortened where necessary to keep its products with
    the diagonal of S above -1, which keeps the map invertible. Data to base is the formula above. Base
    to data goes from the last unit to the first, and solves one increasing equation of one number each.

    Where entries of R and S above the diagonal grow far beyond 1, the map is close to singular and
    base to data loses digits, as with any triangular matrix. Densities do not use that direction.

    Taps hold in both directions, so `Invert(Sylvester)` can be trained, too.

    References:
        van den Berg, Hasenclever, Tomczak, Welling, "Sylvester normalizing flows for variational
        inference", 2018.
    """

    parameters: Parameters
    """The reflections, R and S above their diagonals, their diagonals, b."""
    size: int = eqx.field(static=True)
    rank: int = eqx.field(static=True)
    reflections: int = eqx.field(static=True)

    @classmethod
    def create(
        cls,
        dim: int,
        *,
        key: Key[Array, ""],
        rank: int,
        reflections: int | None = None,
        condition_dim: int = 0,
        hidden: tuple[int, ...] = (64,),
    ) -> "Sylvester":
        """Close to the identity on `dim` coordinates.

        Args:
            dim: How many numbers an example has.
            key: Spent here, for the first parameters.
            rank: Number of units, from 1 to dim; a planar map has one.
            reflections: Number of reflections in Q; `rank` of them, the default, can form every Q.
            condition_dim: Size of the condition that sets the parameters; 0 for none.
            hidden: Sizes of the hidden layers between condition and parameters.

        Returns:
            The map.

        Raises:
            ValueError: If a size is out of range.
        """
        reflections = rank if reflections is None else reflections
        check.count(dim=dim, rank=rank, reflections=reflections)
        if rank > dim:
            raise ValueError(f"rank must be at most dim={dim}, got {rank}.")
        vector_key, outer_key, inner_key, network_key = jax.random.split(key, 4)
        triangle = rank * (rank + 1) // 2
        outer = _SPREAD * uniform_init(outer_key, (triangle,), rank)
        inner = uniform_init(inner_key, (triangle,), rank)
        above = triangle - rank
        start = jnp.concatenate(
            [
                jax.random.normal(vector_key, (reflections * dim,)),
                outer[:above],
                inner[:above],
                outer[above:],
                inner[above:],
                jnp.zeros(rank),
            ]
        )
        parameters = Parameters.create(
            start, key=network_key, condition_dim=condition_dim, hidden=hidden
        )
        return cls(parameters, dim, rank, reflections)

    @property
    def dim(self) -> int:
        """How many numbers an example has."""
        return self.size

    def forward_and_log_det(self, z: Vector, condition: Condition = None) -> Mapped:
        """Base to data: unit by unit from the last, since R and S are triangular."""
        matrices = self._matrices(condition)
        t, v = matrices.t, matrices.into(z)

        def one_unit(known: tuple[Array, Array], i: Array) -> tuple[tuple[Array, Array], Array]:
            y, h = known  # zero where not known yet
            v_i = v[i] - _times(matrices.outer[i], h)
            inside = matrices.bias[i] + _times(matrices.inner[i], y)
            a_i = solve(inside + matrices.inner_diagonal[i] * v_i, t[i])
            h_i = jnp.tanh(a_i)
            y_i = v_i - matrices.outer_diagonal[i] * h_i
            return (y.at[i].set(y_i), h.at[i].set(h_i)), a_i

        nothing = (jnp.zeros_like(v), jnp.zeros_like(v))
        (_, h), a = jax.lax.scan(one_unit, nothing, jnp.arange(self.rank), reverse=True)
        return z - matrices.step(h), -jnp.sum(log_slope(a, t))

    def inverse_and_private_log_det(self, x: Vector, condition: Condition = None) -> Mapped:
        """Data to base; the whole log-determinant depends on the record."""
        matrices = self._matrices(condition)
        y = matrices.into(x)
        a = _times(matrices.inner, y) + matrices.inner_diagonal * y + matrices.bias
        return x + matrices.step(jnp.tanh(a)), jnp.sum(log_slope(a, matrices.t))

    def _matrices(self, condition: Condition) -> _Matrices:
        rank = self.rank
        above = rank * (rank - 1) // 2
        sizes = [self.reflections * self.size, above, above, rank, rank]
        vectors, outer, inner, outer_diagonal, inner_diagonal, bias = jnp.split(
            self.parameters(condition), np.cumsum(sizes)
        )
        rows, columns = np.triu_indices(rank, 1)
        empty = jnp.zeros((rank, rank), bias.dtype)
        return _Matrices(
            vectors=vectors.reshape(self.reflections, self.size),
            outer=empty.at[rows, columns].set(outer),
            inner=empty.at[rows, columns].set(inner),
            outer_diagonal=outer_diagonal * damping(outer_diagonal * inner_diagonal),
            inner_diagonal=inner_diagonal,
            bias=bias,
        )


def _reflect(
    vectors: Float[Array, "reflections dim"], x: Float[Array, " dim"], *, reverse: bool
) -> Float[Array, " dim"]:
    """`x` reflected at the hyperplanes orthogonal to the vectors, one after the other."""

    def one(x: Array, v: Array) -> tuple[Array, None]:
        squared = _times(v, v)
        long_enough = squared > _SHORTEST
        # selected before the division: 0/0 would be NaN in the gradient even if not in the value
        factor = jnp.where(long_enough, 2 / jnp.where(long_enough, squared, 1.0), 0.0)
        return x - factor * _times(v, x) * v, None

    return jax.lax.scan(one, x, vectors, reverse=reverse)[0]


def _times(a: Float[Array, "*rows n"], b: Float[Array, " n"]) -> Float[Array, "*rows"]:
    """The product in full float32 on every device: the two directions must agree on it."""
    return contract("...n,n->...", a, b)
