"""What every scalar map promises: one number to one number, increasing, set by a few parameters.

Autoregressive and coupling bijections differ in where the parameters come from; scalar maps in what
they do with them. Each is written once and serves all.
"""

from abc import abstractmethod

import equinox as eqx
from jaxtyping import Array, Float


class AbstractScalarMap(eqx.Module):
    """A family of increasing maps of the line, elementwise over arrays of any shape.

    Row p of `params` holds parameter p of every element. Any real parameters are allowed: what makes
    the map increasing and finite is part of the map. Parameters of zero give the identity, so that a
    network whose last layer starts near zero starts the flow near the identity.
    """

    @property
    @abstractmethod
    def num_params(self) -> int:
        """How many numbers set one map."""

    @abstractmethod
    def forward_and_log_det(
        self, z: Float[Array, "*shape"], params: Float[Array, "num_params *shape"]
    ) -> tuple[Float[Array, "*shape"], Float[Array, "*shape"]]:
        """Base to data, with the log-derivative of this direction, element by element."""

    @abstractmethod
    def inverse_and_log_det(
        self, x: Float[Array, "*shape"], params: Float[Array, "num_params *shape"]
    ) -> tuple[Float[Array, "*shape"], Float[Array, "*shape"]]:
        """Data to base, with the log-derivative of this direction, element by element."""
