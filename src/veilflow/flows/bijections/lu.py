"""A trained linear map, kept as a product of two triangular ones."""

import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float, Key

from veilflow._core import check
from veilflow.flows.bijection import AbstractBijection, Condition, refuse_taps
from veilflow.nn.linear_maps import LULinear


class LU(AbstractBijection):
    """z = L U x + shift, with L unit lower triangular and U upper triangular.

    The diagonal of U is positive, so the map is always invertible; both directions cost dim^2. It
    mixes all coordinates, which is what a permutation between blocks is for.
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

    def forward_and_log_det(
        self, z: Float[Array, " dim"], condition: Condition = None
    ) -> tuple[Float[Array, " dim"], Float[Array, ""]]:
        """Base to data, by two triangular solves."""
        refuse_taps(self)
        linear = self.linear
        lower = linear.lower.weight  # below the diagonal is all that the solve reads of it
        upper = linear.upper.weight * linear.upper.mask
        upper = upper + jnp.diag(jnp.exp(linear.diagonal.log_scale))
        x = solve_triangular(lower, z - linear.shift.shift, lower=True, unit_diagonal=True)
        return solve_triangular(upper, x, lower=False), -self.public_log_det()

    def inverse_and_private_log_det(
        self, x: Float[Array, " dim"], condition: Condition = None
    ) -> tuple[Float[Array, " dim"], Float[Array, ""]]:
        """Data to base; no term of the log-determinant looks at the record."""
        return self.linear(x), jnp.zeros(())

    def public_log_det(self) -> Float[Array, ""]:
        """The sum of the logs of U's diagonal."""
        return self.linear.log_det()
