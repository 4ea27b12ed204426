"""A trained linear map: a diagonal and a matrix of low rank."""

import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from veilflow._core import check
from veilflow.flows.bijection import AbstractBijection, Condition, refuse_taps
from veilflow.nn.linear_maps import LowRankLinear
from veilflow.nn.outer import contract


class LowRank(AbstractBijection):
    """z = (diag(s) + A B) x + shift, with A of `rank` columns and s positive.

    Both directions cost dim * rank. The determinant of the rank x rank matrix I + B diag(1/s) A may
    come near zero, where the map stops being invertible. Its logarithm in the density pushes away
    from there, but nothing forbids it: where noise is large, `LU` is the safer map.
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

    def forward_and_log_det(
        self, z: Float[Array, " dim"], condition: Condition = None
    ) -> tuple[Float[Array, " dim"], Float[Array, ""]]:
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

    def inverse_and_private_log_det(
        self, x: Float[Array, " dim"], condition: Condition = None
    ) -> tuple[Float[Array, " dim"], Float[Array, ""]]:
        """Data to base; no term of the log-determinant looks at the record."""
        return self.linear(x), jnp.zeros(())

    def public_log_det(self) -> Float[Array, ""]:
        """By the matrix determinant lemma, from the rank x rank matrix."""
        return self.linear.log_det()
