"""A small network in the place of a simulator, as the paper has one in the place of CVSim-6.

CVSim-6 in JAX is fast enough to do without; this is here to compare. It is fitted to simulations alone:
no record is in it.
"""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float
from scipy.stats import qmc

_PENALTY = 1e-4
_RATE = 0.01


class Emulator(eqx.Module):
    """Layers of tanh units between standardized inputs and outputs."""

    weights: tuple[Array, ...]
    biases: tuple[Array, ...]
    inputs: tuple[Array, Array]
    """Mean and deviation."""
    outputs: tuple[Array, Array]

    def __call__(self, parameters: Float[Array, " inputs"]) -> Float[Array, " outputs"]:
        x = (parameters - self.inputs[0]) / self.inputs[1]
        return self._standardized(x) * self.outputs[1] + self.outputs[0]

    def _standardized(self, x: Array) -> Array:
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            x = jnp.tanh(weight @ x + bias)
        return self.weights[-1] @ x + self.biases[-1]


def emulate(
    simulator: Callable[[Float[Array, " inputs"]], Float[Array, " outputs"]],
    low: Float[np.ndarray, " inputs"],
    high: Float[np.ndarray, " inputs"],
    *,
    points: int = 128,
    hidden: tuple[int, ...] = (64, 32),
    steps: int = 5_000,
    seed: int = 0,
) -> Emulator:
    """A network fitted to a simulator at scrambled Sobol points of a box.

    Args:
        simulator: Simulates one vector of parameters.
        low: Lowest corner of the box.
        high: Highest corner.
        points: How many, a power of 2.
        hidden: Sizes of the layers of tanh units.
        steps: Of Adam.
        seed: Seed of points and weights.
    """
    low, high = np.asarray(low, np.float64), np.asarray(high, np.float64)
    unit = qmc.Sobol(len(low), rng=np.random.default_rng(seed)).random(points)
    x = jnp.float32(low + (high - low) * unit)
    y = jax.jit(jax.vmap(simulator))(x)
    scale_x = (jnp.mean(x, axis=0), jnp.std(x, axis=0))
    # an output that does not move is a constant: its deviation is rounding
    spread = jnp.maximum(jnp.std(y, axis=0), 1e-6 * (1 + jnp.abs(jnp.mean(y, axis=0))))
    scale_y = (jnp.mean(y, axis=0), spread)
    sizes = (len(low), *hidden, y.shape[1])
    keys = jax.random.split(jax.random.key(seed), len(sizes) - 1)
    weights = tuple(
        jax.random.normal(key, (after, before)) / before**0.5
        for key, before, after in zip(keys, sizes[:-1], sizes[1:], strict=True)
    )
    biases = tuple(jnp.zeros(after) for after in sizes[1:])
    x, y = ((v - mean[None]) / sd[None] for v, (mean, sd) in ((x, scale_x), (y, scale_y)))
    return _trained(Emulator(weights, biases, scale_x, scale_y), x, y, steps)


@eqx.filter_jit
def _trained(network: Emulator, x: Array, y: Array, steps: int) -> Emulator:
    optimizer = optax.adam(optax.cosine_decay_schedule(_RATE, steps))

    def loss(parts: tuple[tuple[Array, ...], tuple[Array, ...]]) -> Array:
        moved = eqx.tree_at(lambda n: (n.weights, n.biases), network, parts)
        error = jnp.mean((jax.vmap(moved._standardized)(x) - y) ** 2)
        return error + _PENALTY * sum(jnp.sum(jnp.abs(w)) for w in parts[0]) / len(x)

    def step(carry, _):
        parts, state = carry
        updates, state = optimizer.update(jax.grad(loss)(parts), state)
        return (optax.apply_updates(parts, updates), state), None

    parts = (network.weights, network.biases)
    (parts, _), _ = jax.lax.scan(step, (parts, optimizer.init(parts)), None, length=steps)
    return eqx.tree_at(lambda n: (n.weights, n.biases), network, parts)
