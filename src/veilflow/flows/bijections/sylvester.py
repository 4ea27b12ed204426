"""The Sylvester map: a planar map of several units at once, mixed by Householder reflections."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from veilflow._core import check
from veilflow.flows.bijection import AbstractBijection, Condition
from veilflow.flows.bijections import _tanh_unit as unit
from veilflow.flows.bijections._parameters import Parameters
from veilflow.nn.dense import uniform_init
from veilflow.nn.outer import contract

_SPREAD = 0.01
"""Size of the first entries of R: the map starts close to the identity."""
_SHORTEST = 1e-12
"""Squared length below which a reflection is left out: its direction would be rounding error."""


class _Setting(eqx.Module):
    """The parameters of the map for one record, unpacked."""

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
        """Q R h: by how much a point moves."""
        return self.out_of(_times(self.outer, h) + self.outer_diagonal * h)


class Sylvester(AbstractBijection):
    """z = x + Q R tanh(S Q^T x + b), with R and S upper triangular and Q of orthonormal columns.

    Q is a product of Householder reflections, applied to vectors one after the other: no dim x dim
    matrix is ever formed. The diagonals of R are shortened where that is needed to keep the products
    with those of S above -1, which keeps the map invertible. Data to base is the formula above. Base
    to data goes from the last unit to the first: each is one increasing equation of one number.

    Where entries of R and S above the diagonal grow far beyond 1, the map comes close to a singular one
    and the way back loses digits, as with any triangular matrix. Densities do not go that way.

    Taps hold in both directions: `Invert(Sylvester)` can be trained, too.

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
            rank: How many units, from 1 to dim; a planar map has one.
            reflections: How many reflections make Q; `rank` of them, the default, make every Q.
            condition_dim: How many numbers the condition that sets the parameters has; 0 for none.
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

    def forward_and_log_det(
        self, z: Float[Array, " dim"], condition: Condition = None
    ) -> tuple[Float[Array, " dim"], Float[Array, ""]]:
        """Base to data: unit by unit from the last, since R and S are triangular."""
        setting = self._set(condition)
        t, v = setting.t, setting.into(z)

        def one_unit(known: tuple[Array, Array], i: Array) -> tuple[tuple[Array, Array], Array]:
            y, h = known  # zero where not known yet
            v_i = v[i] - _times(setting.outer[i], h)
            inside = setting.bias[i] + _times(setting.inner[i], y)
            a_i = unit.solve(inside + setting.inner_diagonal[i] * v_i, t[i])
            h_i = jnp.tanh(a_i)
            y_i = v_i - setting.outer_diagonal[i] * h_i
            return (y.at[i].set(y_i), h.at[i].set(h_i)), a_i

        nothing = (jnp.zeros_like(v), jnp.zeros_like(v))
        (_, h), a = jax.lax.scan(one_unit, nothing, jnp.arange(self.rank), reverse=True)
        return z - setting.step(h), -jnp.sum(unit.log_slope(a, t))

    def inverse_and_private_log_det(
        self, x: Float[Array, " dim"], condition: Condition = None
    ) -> tuple[Float[Array, " dim"], Float[Array, ""]]:
        """Data to base; the whole log-determinant looks at the record."""
        setting = self._set(condition)
        y = setting.into(x)
        a = _times(setting.inner, y) + setting.inner_diagonal * y + setting.bias
        return x + setting.step(jnp.tanh(a)), jnp.sum(unit.log_slope(a, setting.t))

    def _set(self, condition: Condition) -> _Setting:
        rank = self.rank
        above = rank * (rank - 1) // 2
        sizes = [self.reflections * self.size, above, above, rank, rank]
        vectors, outer, inner, outer_diagonal, inner_diagonal, bias = jnp.split(
            self.parameters(condition), np.cumsum(sizes)
        )
        rows, columns = np.triu_indices(rank, 1)
        empty = jnp.zeros((rank, rank), bias.dtype)
        return _Setting(
            vectors=vectors.reshape(self.reflections, self.size),
            outer=empty.at[rows, columns].set(outer),
            inner=empty.at[rows, columns].set(inner),
            outer_diagonal=outer_diagonal * unit.damping(outer_diagonal * inner_diagonal),
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
