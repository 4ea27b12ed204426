"""Trained linear maps, whose log-determinant depends on no record."""

import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Key

from veilflow._core import check
from veilflow.flows.bijection import (
    AbstractBijection,
    Condition,
    Mapped,
    Scalar,
    Vector,
    refuse_taps,
)
from veilflow.nn.elementwise import Scale, Shift
from veilflow.nn.linear_maps import LowRankLinear, LULinear
from veilflow.nn.outer import contract


class ActNorm(AbstractBijection):
    """z = exp(log_scale) * x + shift, starting as the identity.

    The usual initialization, from the mean and spread of a first batch, would release both without
    accounting for them.
    """

    scale: Scale
    shift: Shift

    @classmethod
    def create(cls, dim: int) -> "ActNorm":
        """The identity on `dim` coordinates."""
        check.count(dim=dim)
        return cls(scale=Scale(log_scale=jnp.zeros(dim)), shift=Shift(shift=jnp.zeros(dim)))

    @property
    def dim(self) -> int:
        """How many numbers an example has."""
        return self.shift.shift.shape[-1]

    def forward_and_log_det(self, z: Vector, condition: Condition = None) -> Mapped:
        """Base to data: x = (z - shift) exp(-log_scale)."""
        refuse_taps(self)
        x = (z - self.shift.shift) * jnp.exp(-self.scale.log_scale)
        return x, -self.public_log_det()

    def inverse_and_private_log_det(self, x: Vector, condition: Condition = None) -> Mapped:
        """Data to base; no term of the log-determinant depends on the record."""
        return self.shift(self.scale(x)), jnp.zeros(())

    def public_log_det(self) -> Scalar:
        """The sum of the log-scales."""
        return jnp.sum(self.scale.log_scale)


class LU(AbstractBijection):
    """z = L U x + shift, with L unit lower triangular and U upper triangular.

    The diagonal of U is positive, so the map is always invertible; both directions cost dim^2. It
    mixes all coordinates, so it can take the place of a permutation between blocks.
    """

    linear: LULinear

    @classmethod
    def create(cls, dim: int, *, key: Key[Array, ""]) -> "LU":
        """Close to the identity on `dim` coordinates; the key is spent."""
        check.count(dim=dim)
        return cls(LULinear.create(dim, key=key))

    @property
    def dim(self) -> int:
        """How many numbers an example has."""
        return self.linear.shift.shift.shape[-1]

    def forward_and_log_det(self, z: Vector, condition: Condition = None) -> Mapped:
        """Base to data, by two triangular solves."""
        refuse_taps(self)
        linear = self.linear
        lower = linear.lower.weight  # the solve reads only what is below the diagonal
        upper = linear.upper.weight * linear.upper.mask
        upper = upper + jnp.diag(jnp.exp(linear.diagonal.log_scale))
        x = solve_triangular(lower, z - linear.shift.shift, lower=True, unit_diagonal=True)
        return solve_triangular(upper, x, lower=False), -self.public_log_det()

    def inverse_and_private_log_det(self, x: Vector, condition: Condition = None) -> Mapped:
        """Data to base; no term of the log-determinant depends on the record."""
        return self.linear(x), jnp.zeros(())

    def public_log_det(self) -> Scalar:
        """The sum of the logs of U's diagonal."""
        return self.linear.log_det()


class LowRank(AbstractBijection):
    """z = (diag(s) + A B) x + shift, with A of `rank` columns and s positive.

    Both directions cost dim * rank. The determinant of the rank x rank matrix I + B diag(1/s) A may
    come close to zero, where the map stops being invertible. Its logarithm in the density pushes away
    from there, but nothing rules it out: where noise is large, `LU` is the safer map.
    """

    linear: LowRankLinear

    @classmethod
    def create(cls, dim: int, *, key: Key[Array, ""], rank: int = 1) -> "LowRank":
        """Close to the identity on `dim` coordinates.

        Args:
            dim: How many numbers an example has.
            key: Spent here, for A and B.
            rank: Columns of A, from 1 to dim.

        Returns:
            The map.

        Raises:
            ValueError: If a size is out of range.
        """
        check.count(dim=dim, rank=rank)
        if rank > dim:
            raise ValueError(f"rank must be at most dim={dim}, got {rank}. Use LU for full rank.")
        return cls(LowRankLinear.create(dim, key=key, rank=rank))

    @property
    def dim(self) -> int:
        """How many numbers an example has."""
        return self.linear.diagonal.log_scale.shape[-1]

    def forward_and_log_det(self, z: Vector, condition: Condition = None) -> Mapped:
        """Base to data by the Woodbury identity: the only solve is rank x rank."""
        refuse_taps(self)
        up, down = self.linear.up, self.linear.down.weight
        rank = down.shape[0]
        shift = up(jnp.zeros(rank))
        inverse_scale = jnp.exp(-self.linear.diagonal.log_scale)
        x = inverse_scale * (z - shift)
        scaled_up = inverse_scale[:, None] * up.weight
        small = jnp.eye(rank) + contract("ri,is->rs", down, scaled_up)
        correction = jnp.linalg.solve(small, contract("ri,i->r", down, x))
        return x - contract("ir,r->i", scaled_up, correction), -self.public_log_det()

    def inverse_and_private_log_det(self, x: Vector, condition: Condition = None) -> Mapped:
        """Data to base; no term of the log-determinant depends on the record."""
        return self.linear(x), jnp.zeros(())

    def public_log_det(self) -> Scalar:
        """By the matrix determinant lemma, from the rank x rank matrix."""
        return self.linear.log_det()
