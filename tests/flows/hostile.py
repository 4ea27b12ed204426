"""Points that a record may hold although nobody expects them, and what must hold there."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from veilflow.flows import AbstractBijection


def points(dim: int) -> np.ndarray:
    """Huge, tiny, zero, and mixtures of them."""
    values = [1e6, -1e6, 0.0, 1e-30, 1.0]
    mixed = np.resize([1e6, -1e6, 0.0, 1e-6], dim)
    return np.float32([*([value] * dim for value in values), mixed])


@eqx.filter_jit
def _values_and_gradients(bijection: AbstractBijection, rows: jax.Array):
    def of(direction):
        def loss(bijection, row):
            image, log_det = getattr(bijection, direction)(row)
            return 0.5 * jnp.sum(jnp.square(image)) - log_det

        both = jax.value_and_grad(loss, argnums=(0, 1))
        return jax.vmap(both, in_axes=(None, 0))(bijection, rows)

    return of("inverse_and_log_det"), of("forward_and_log_det")


def assert_finite(bijection: AbstractBijection) -> None:
    """Values and gradients, with respect to records and parameters, in both directions."""
    seen = _values_and_gradients(bijection, points(bijection.dim))
    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(seen))
