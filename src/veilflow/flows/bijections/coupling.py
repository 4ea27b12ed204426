"""Coupling: some of the coordinates pass unchanged, and set how the others are mapped.

Both directions are one pass of the network, so samples are as cheap as densities.

References:
    Dinh, Sohl-Dickstein, Bengio, "Density estimation using Real NVP", 2017.
"""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Key

from veilflow._core import check
from veilflow.flows.bijection import AbstractBijection, Condition, Mapped, Vector, refuse_taps
from veilflow.flows.network import MLP
from veilflow.flows.scalar_maps.simple import AbstractScalarMap


class Coupling(AbstractBijection):
    """The first `network.in_size` coordinates pass; `scalar_map` maps each of the others.

    The network sees the coordinates that pass, and the condition. With one coordinate nothing passes:
    its parameters are trained numbers, or depend on the condition only.
    """

    network: MLP
    scalar_map: AbstractScalarMap
    size: int = eqx.field(static=True)

    def __check_init__(self):
        check.count(size=self.size)
        num_in, num_out = self.network.in_size, self.network.out_size
        num_params = self.scalar_map.num_params
        if num_in >= self.size or num_out != (self.size - num_in) * num_params:
            raise ValueError(
                f"network must take fewer than {self.size} coordinates and set {num_params} "
                f"parameters for each of the others, got {num_in} in and {num_out} out. Build it "
                "with Coupling.create."
            )

    @classmethod
    def create(
        cls, dim: int, scalar_map: AbstractScalarMap, *, key: Key[Array, ""], **network: Any
    ) -> "Coupling":
        """A coupling close to the identity, in which the first half of the coordinates pass.

        Args:
            dim: How many numbers an example has; if odd, the smaller half passes.
            scalar_map: The map of the others.
            key: Spent here, for the weights.
            **network: Settings of the network, as for `MLP.create`.

        Returns:
            The coupling.

        Raises:
            ValueError: If a size is out of range or the activation is unknown.
        """
        check.count(dim=dim)
        passing = dim // 2
        num_params = (dim - passing) * scalar_map.num_params
        return cls(MLP.create(passing, num_params, key=key, **network), scalar_map, dim)

    @property
    def dim(self) -> int:
        """How many numbers an example has."""
        return self.size

    def forward_and_log_det(self, z: Vector, condition: Condition = None) -> Mapped:
        """Base to data, one pass of the network."""
        refuse_taps(self)
        passing, mapped, params = self._parts(z, condition)
        mapped, log_det = self.scalar_map.forward_and_log_det(mapped, params)
        return jnp.concatenate([passing, mapped]), jnp.sum(log_det)

    def inverse_and_private_log_det(self, x: Vector, condition: Condition = None) -> Mapped:
        """Data to base, one pass of the network."""
        passing, mapped, params = self._parts(x, condition)
        mapped, log_det = self.scalar_map.inverse_and_log_det(mapped, params)
        return jnp.concatenate([passing, mapped]), jnp.sum(log_det)

    def _parts(self, x: Array, condition: Condition) -> tuple[Array, Array, Array]:
        """What passes, what is mapped and with which parameters; the same in both directions."""
        split = self.network.in_size
        params = self.network(x[:split], condition)
        return x[:split], x[split:], params.reshape(self.scalar_map.num_params, -1)
