"""Gaussian noise on a clipped sum: the mechanism inside every training step."""

from typing import Any

import jax
import jax.numpy as jnp

from veilflow._core import check
from veilflow.privacy.events import Gaussian
from veilflow.privacy.guarantees import ClippedSum, Released
from veilflow.privacy.noise_source import Grid, release_on_grid
from veilflow.privacy.unit import Adjacency


def gaussian(
    query: ClippedSum,
    *,
    noise_multiplier: float,
    adjacency: Adjacency = Adjacency.ADD_REMOVE,
    key: jax.Array,
) -> Released[Any]:
    """Release a clipped sum with Gaussian noise.

    Guarantee:
        One call is a Gaussian mechanism with this `noise_multiplier`, for the adjacency given.
        Assumes real-valued noise and a key nobody else knows; float32 normals only come close (they
        end near 5.4 standard deviations). `hardened_gaussian` needs neither assumption.

    Args:
        query: The clipped sum, any pytree of floating-point arrays.
        noise_multiplier: Noise standard deviation over sensitivity; positive.
        adjacency: The neighboring relation the guarantee is stated for.
        key: Spent here, for this noise only; every array gets its own part of it.

    Returns:
        The noisy sum and the event to append to the ledger. Works under `jit` and `lax.scan`.

    Raises:
        ValueError: If `noise_multiplier` or the clip norm is not positive.

    Example:
        >>> total = ClippedSum(jnp.zeros(2), clip_norm=1.0)
        >>> gaussian(total, noise_multiplier=1.5, key=jax.random.key(0)).event
        Gaussian(noise_multiplier=1.5)
    """
    event = Gaussian(noise_multiplier)
    check.positive(clip_norm=query.clip_norm)
    stddev = noise_multiplier * query.sensitivity(adjacency)
    leaves, structure = jax.tree_util.tree_flatten(query.total)
    keys = jax.random.split(key, len(leaves)) if leaves else ()
    noisy = [
        # A clipped sum is finite by contract; should it break that, noise still comes out, not NaN.
        jnp.where(jnp.isfinite(leaf), leaf, 0)
        + stddev * jax.random.normal(leaf_key, leaf.shape, leaf.dtype)
        for leaf, leaf_key in zip(leaves, keys, strict=True)
    ]
    return Released(jax.tree_util.tree_unflatten(structure, noisy), event)


def hardened_gaussian(
    query: ClippedSum,
    *,
    grid: Grid,
    noise: Any,
    adjacency: Adjacency = Adjacency.ADD_REMOVE,
) -> Released[Any]:
    """Release a clipped sum on an integer grid, with noise drawn exactly on the host.

    Guarantee:
        A Gaussian mechanism with the grid's `noise_multiplier`, up to the total variation
        distance `noise_source.closeness(num_draws)`, which the ledger pays once for all steps.
        Assumes that the sum was added up with an error of at most the `float_error` the grid was
        built for.

    Args:
        query: The clipped sum, any pytree of floating-point arrays.
        grid: From `noise_source.hardened_grid`.
        noise: Fresh int32 vector from `noise_source.draw`, used here and never again.
        adjacency: The neighboring relation the guarantee is stated for.

    Returns:
        The noisy sum and its event. Works under `jit` and `lax.scan`, with `noise` as data.

    Raises:
        ValueError: If the grid was built for a smaller sensitivity or another size.
    """
    if query.sensitivity(adjacency) > grid.sensitivity:
        raise ValueError(
            f"the grid is for a sensitivity of {grid.sensitivity}, the sum has "
            f"{query.sensitivity(adjacency)}. Build it with hardened_grid({query.clip_norm}, "
            f"adjacency={adjacency}, ...)."
        )
    return Released(release_on_grid(query.total, grid, noise), Gaussian(grid.noise_multiplier))
