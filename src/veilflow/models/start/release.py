"""One door for the sums a start needs: noisy, hardened, or openly non-private."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from veilflow.privacy.events import Gaussian, NonPrivate
from veilflow.privacy.guarantees import ClippedSum, Released
from veilflow.privacy.mechanisms.gaussian import gaussian
from veilflow.privacy.noise_source import draw, hardened_grid

_MOST_UNITS = 2.0**62
"""Where sums saturate on a grid: far beyond any, and still an int64."""


def release(
    query: ClippedSum, *, noise_multiplier: float, key: Key[Array, ""], hardened: bool = False
) -> Released[Float[np.ndarray, "..."]]:
    """The sum, one array, with noise. A multiplier of 0 adds none, and the event says so.

    A sum over a million rows in single precision is rounded by more than a row weighs, so it comes in
    double precision, and noise is added there.
    """
    total = np.asarray(query.total, np.float64)
    total = np.where(np.isfinite(total), total, 0.0)  # finite by contract; noise must come out
    if noise_multiplier == 0:
        return Released(total, NonPrivate())
    if not hardened:
        nothing = ClippedSum(jnp.zeros(total.shape), query.clip_norm)
        noise = gaussian(nothing, noise_multiplier=noise_multiplier, key=key)
        # rounded after the noise: digits finer than those of the noise would show the sum's own
        return noise.map(
            lambda drawn: np.asarray(total + np.asarray(drawn, np.float64), np.float32)
        )
    grid = hardened_grid(
        query.clip_norm, noise_multiplier=noise_multiplier, num_coordinates=total.size
    )
    # In the 32 bits of a training step sums end at 64 deviations of the noise. Those of a start, over
    # all rows, go far beyond; here on the host there is room.
    units = np.clip(np.rint(total / grid.spacing), -_MOST_UNITS, _MOST_UNITS).astype(np.int64)
    noisy = units + draw(total.shape, grid=grid)
    return Released(noisy * grid.spacing, Gaussian(grid.noise_multiplier))
