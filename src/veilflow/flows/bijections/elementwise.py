"""A trained scalar map of every coordinate by itself."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from veilflow._core import check
from veilflow.flows.bijection import AbstractBijection, Condition, refuse_taps
from veilflow.flows.scalar_map import AbstractScalarMap
from veilflow.nn.elementwise import Shift


class Elementwise(AbstractBijection):
    """Each coordinate goes through `scalar_map`, with trained parameters and no network.

    The parameters are the output of a shift of zeros. All a record does to them goes through that
    output, so the cotangent the shift's tap sees is the record's gradient.
    """

    params: Shift
    """Parameter p of all coordinates, then parameter p + 1, as one vector."""
    scalar_map: AbstractScalarMap

    def __check_init__(self):
        size, num_params = self.params.shift.shape[-1], self.scalar_map.num_params
        if size == 0 or size % num_params:
            raise ValueError(
                f"params must hold {num_params} numbers a coordinate for "
                f"{type(self.scalar_map).__name__}, got {size} in all. Build it with "
                "Elementwise.create."
            )

    @classmethod
    def create(
        cls,
        dim: int,
        scalar_map: AbstractScalarMap,
        *,
        key: Key[Array, ""],
        spread: float = 0.01,
    ) -> "Elementwise":
        """A map close to the identity.

        Args:
            dim: How many numbers an example has.
            scalar_map: What each goes through.
            key: Spent here, for the parameters.
            spread: Their standard deviation. Not all are zero, because parameters that a map treats
                alike (the parts of a mixture) would stay alike.

        Returns:
            The map.

        Raises:
            ValueError: If `dim` is below 1 or `spread` negative.
        """
        check.count(dim=dim)
        check.nonnegative(spread=spread)
        start = spread * jax.random.normal(key, (scalar_map.num_params * dim,))
        return cls(Shift(shift=start), scalar_map)

    @property
    def dim(self) -> int:
        """How many numbers an example has."""
        return self.params.shift.shape[-1] // self.scalar_map.num_params

    def forward_and_log_det(
        self, z: Float[Array, " dim"], condition: Condition = None
    ) -> tuple[Float[Array, " dim"], Float[Array, ""]]:
        """Base to data."""
        refuse_taps(self)
        x, log_det = self.scalar_map.forward_and_log_det(z, self._params())
        return x, jnp.sum(log_det)

    def inverse_and_private_log_det(
        self, x: Float[Array, " dim"], condition: Condition = None
    ) -> tuple[Float[Array, " dim"], Float[Array, ""]]:
        """Data to base."""
        z, log_det = self.scalar_map.inverse_and_log_det(x, self._params())
        return z, jnp.sum(log_det)

    def _params(self) -> Array:
        flat = self.params(jnp.zeros_like(self.params.shift))
        return flat.reshape(self.scalar_map.num_params, self.dim)
