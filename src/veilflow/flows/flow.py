"""A flow: the image of a base distribution under a bijection."""

import equinox as eqx
from jaxtyping import Array, Key

from veilflow.flows.bases.simple import AbstractBase
from veilflow.flows.bijection import AbstractBijection, Condition, Mapped, Scalar, Vector


class Flow(eqx.Module):
    """The distribution of `bijection.forward(z)` for `z` drawn from `base`.

    Every method takes one example; use `jax.vmap` for batches. Nothing here is
    private: training the parameters on records is the engine's work.
    """

    base: AbstractBase
    bijection: AbstractBijection

    def __check_init__(self):
        if self.base.dim != self.bijection.dim:
            raise ValueError(
                f"base has {self.base.dim} dimensions, bijection {self.bijection.dim}. "
                "Use the same for both."
            )

    @property
    def dim(self) -> int:
        """How many numbers an example has."""
        return self.base.dim

    def log_prob(self, x: Vector, condition: Condition = None) -> Scalar:
        """The natural log of the density at one example."""
        return self.private_log_prob(x, condition) + self.public_log_prob()

    def private_log_prob(self, x: Vector, condition: Condition = None) -> Scalar:
        """The terms of `log_prob` that depend on the record: their gradient is clipped and noised."""
        z, log_det = self.bijection.inverse_and_private_log_det(x, condition)
        return self.base.log_prob(z) + log_det

    def public_log_prob(self) -> Scalar:
        """The other terms: parameters only, so their gradient is added after the noise."""
        return self.bijection.public_log_det()

    def sample(self, key: Key[Array, ""], condition: Condition = None) -> Vector:
        """One example; the key is spent."""
        return self.bijection.forward_and_log_det(self.base.sample(key), condition)[0]

    def sample_and_log_prob(self, key: Key[Array, ""], condition: Condition = None) -> Mapped:
        """One example and the natural log of its density, without the inverse; the key is spent."""
        z = self.base.sample(key)
        x, log_det = self.bijection.forward_and_log_det(z, condition)
        return x, self.base.log_prob(z) - log_det
