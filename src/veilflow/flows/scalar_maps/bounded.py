"""A soft bound on raw parameters."""

import jax.numpy as jnp
from jaxtyping import Array, Float


def soft_bound(raw: Float[Array, "*shape"], bound: float) -> Float[Array, "*shape"]:
    """Close to `raw` where that is small, never beyond `bound` in size.

    Raw parameters come from networks with noise on their weights, fed with any record. What follows
    is safe for numbers within the bound only, an `exp` above all.
    """
    return bound * jnp.tanh(raw / bound)
