"""Uniform noise: nothing to train, nothing to clip."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from veilflow.flows.dequantizer import AbstractDequantizer


class UniformDequantizer(AbstractDequantizer):
    """Independent uniform numbers, whatever the codes."""

    def noise_and_log_prob(
        self, codes: Int[Array, " listed"], key: Key[Array, ""]
    ) -> tuple[Float[Array, " listed"], Float[Array, ""]]:
        """Numbers in [0, 1), and a log-density of zero; the key is spent."""
        return jax.random.uniform(key, codes.shape), jnp.zeros(())
