"""What every base distribution promises."""

from abc import abstractmethod

import equinox as eqx
from jaxtyping import Array, Float, Key


class AbstractBase(eqx.Module):
    """A simple distribution over examples of `dim` numbers."""

    dim: eqx.AbstractVar[int]
    """How many numbers an example has."""

    @abstractmethod
    def log_prob(self, z: Float[Array, " dim"]) -> Float[Array, ""]:
        """The natural log of the density at one example."""

    @abstractmethod
    def sample(self, key: Key[Array, ""]) -> Float[Array, " dim"]:
        """One example; the key is spent."""
