"""The affine autoregressive map of MAF: density in one pass, sampling coordinate by coordinate."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from veilflow._core import check
from veilflow.flows.bijection import AbstractBijection, refuse_taps
from veilflow.flows.conditioner import MaskedMLP


class AffineAutoregressive(AbstractBijection):
    """z_i = (x_i - shift_i) exp(-log_scale_i), both set by the coordinates before i.

    The log-scale is softly bounded, `b tanh(raw / b)` with `b` the `log_scale_bound`: close to
    `raw` where that is small, never beyond `b`. Without it one hostile row, or one large draw of
    noise on the weights, gives exp(raw) = inf, and the flow never comes back.
    """

    conditioner: MaskedMLP
    log_scale_bound: float = eqx.field(static=True, default=5.0)

    def __check_init__(self):
        check.positive(log_scale_bound=self.log_scale_bound)
        if self.conditioner.num_params != 2:
            raise ValueError(
                "conditioner must set 2 parameters a coordinate (shift, log-scale), got "
                f"{self.conditioner.num_params}. Build it with num_params=2."
            )

    @property
    def dim(self) -> int:
        """How many numbers an example has."""
        return self.conditioner.dim

    def forward_and_log_det(
        self, z: Float[Array, " dim"]
    ) -> tuple[Float[Array, " dim"], Float[Array, ""]]:
        """Base to data, one pass of the network for each coordinate."""
        refuse_taps(self)

        def one_coordinate(x: Array, i: Array) -> tuple[Array, Array]:
            shift, log_scale = self._parameters(x)
            # only coordinate i: the later ones are not right yet, and could be infinite
            return x.at[i].set(z[i] * jnp.exp(log_scale[i]) + shift[i]), log_scale[i]

        x, log_scale = jax.lax.scan(one_coordinate, jnp.zeros_like(z), jnp.arange(self.dim))
        return x, jnp.sum(log_scale)

    def inverse_and_private_log_det(
        self, x: Float[Array, " dim"]
    ) -> tuple[Float[Array, " dim"], Float[Array, ""]]:
        """Data to base, one pass of the network."""
        shift, log_scale = self._parameters(x)
        return (x - shift) * jnp.exp(-log_scale), -jnp.sum(log_scale)

    def _parameters(self, x: Array) -> tuple[Array, Array]:
        shift, raw = self.conditioner(x)
        return shift, self.log_scale_bound * jnp.tanh(raw / self.log_scale_bound)
