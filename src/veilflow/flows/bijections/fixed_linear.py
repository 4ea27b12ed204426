"""A fixed linear map: whitening by moments that are public or were released."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float

from veilflow.flows._covariance import cholesky
from veilflow.flows.bijection import AbstractBijection, Condition
from veilflow.nn.frozen import AbstractFrozen
from veilflow.nn.outer import contract


class FixedLinear(AbstractBijection, AbstractFrozen):
    """x = L z + shift, with L lower triangular; constants that are public and never trained.

    Moments of records are not public: release them through a mechanism first. The constants are
    array leaves of a frozen module, so that maps of one size share compiled code.
    """

    shift: Float[Array, " dim"]
    factor: Float[Array, "dim dim"]
    log_det: Float[Array, ""]
    """Log-determinant of the rounded L, summed in float64."""

    def __init__(self, *, factor: Any, shift: Any):
        """Check the constants.

        Args:
            factor: L, (dim, dim), zero above the diagonal, positive on it.
            shift: What is added, one number a coordinate.

        Raises:
            ValueError: If shapes differ, L is not such a matrix, or a number does not fit float32.
        """
        factor, shift = np.asarray(factor, np.float64), np.asarray(shift, np.float64)
        if shift.ndim != 1 or not shift.size or factor.shape != (shift.size, shift.size):
            raise ValueError(
                "shift must have one number a coordinate and factor a row and a column for each, "
                f"got shapes {shift.shape} and {factor.shape}."
            )
        limits = np.finfo(np.float32)
        if not np.all(np.abs(np.append(factor, shift)) <= limits.max):  # nor is NaN below it
            raise ValueError("factor and shift must be finite and fit float32. Use other units.")
        if np.any(np.triu(factor, 1)):
            raise ValueError("factor must be lower triangular, got numbers above the diagonal.")
        if not np.all(np.diag(factor) >= limits.tiny):
            raise ValueError(
                "the diagonal of factor must be positive and fit float32, got "
                f"{np.diag(factor).min()} on it."
            )
        self.shift, self.factor = jnp.float32(shift), jnp.float32(factor)
        # of what is kept, so that the file of a map gives the very same number
        self.log_det = jnp.float32(np.log(np.diag(np.float64(np.float32(factor)))).sum())

    @classmethod
    def from_moments(cls, mean: Any, covariance: Any) -> "FixedLinear":
        """The map that takes a standard normal to one of this mean and covariance.

        Args:
            mean: Declared or released mean, one number a coordinate.
            covariance: Declared or released covariance, symmetric and positive definite.

        Returns:
            The map; data to base, it whitens.

        Raises:
            ValueError: If shapes differ or the covariance is not symmetric positive definite.
        """
        return cls(factor=cholesky(covariance), shift=mean)

    def restored(self) -> "FixedLinear":
        """The map that `factor` and `shift` make, checked: for arrays that come from a file."""
        return FixedLinear(factor=self.factor, shift=self.shift)

    @property
    def dim(self) -> int:
        """How many numbers an example has."""
        return self.shift.shape[-1]

    def forward_and_log_det(
        self, z: Float[Array, " dim"], condition: Condition = None
    ) -> tuple[Float[Array, " dim"], Float[Array, ""]]:
        """Base to data: x = L z + shift."""
        x = contract("ij,j->i", self.factor, z)  # in full float32, also on accelerators
        return x + self.shift, self.log_det

    def inverse_and_private_log_det(
        self, x: Float[Array, " dim"], condition: Condition = None
    ) -> tuple[Float[Array, " dim"], Float[Array, ""]]:
        """Data to base, by a triangular solve; no term of the log-determinant looks at the record."""
        return solve_triangular(self.factor, x - self.shift, lower=True), jnp.zeros(())

    def public_log_det(self) -> Float[Array, ""]:
        """Minus the sum of the logs of L's diagonal, a constant."""
        return -self.log_det
