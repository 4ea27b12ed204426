"""One door for the sums a start needs: noisy, hardened, or openly non-private."""

from typing import Any

import jax
from jaxtyping import Array, Key

from veilflow.privacy.events import NonPrivate
from veilflow.privacy.guarantees import ClippedSum, Released
from veilflow.privacy.mechanisms.gaussian import gaussian, hardened_gaussian
from veilflow.privacy.noise_source import draw, hardened_grid


def release(
    query: ClippedSum, *, noise_multiplier: float, key: Key[Array, ""], hardened: bool = False
) -> Released[Any]:
    """The sum with noise. A multiplier of 0 adds none, and the event says so."""
    if noise_multiplier == 0:
        return Released(query.total, NonPrivate())
    if not hardened:
        return gaussian(query, noise_multiplier=noise_multiplier, key=key)
    size = sum(leaf.size for leaf in jax.tree.leaves(query.total))
    grid = hardened_grid(query.clip_norm, noise_multiplier=noise_multiplier, num_coordinates=size)
    return hardened_gaussian(query, grid=grid, noise=draw((size,), grid=grid))
