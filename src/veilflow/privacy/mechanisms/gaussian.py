"""Gaussian noise on a clipped sum: the mechanism of every training step and every released sum."""

from typing import Any

import numpy as np
from jaxtyping import Array, Float, Int, UInt32

from veilflow._core.keys import Secret
from veilflow.privacy.banded_noise import BandedNoise, Past, column_norm
from veilflow.privacy.events import Gaussian, NonPrivate
from veilflow.privacy.grid_noise import GridNoise, grid_for, noisy_on_host
from veilflow.privacy.guarantees import ClippedSum, Released
from veilflow.privacy.unit import Adjacency


def gaussian(
    query: ClippedSum,
    *,
    noise: GridNoise,
    words: UInt32[Array, " 4"],
    adjacency: Adjacency = Adjacency.ADD_REMOVE,
) -> Released[Any]:
    """Release a clipped sum with Gaussian noise, on the device.

    Guarantee:
        A Gaussian mechanism with the `noise_multiplier` of the grid, for the given adjacency, up to
        the total variation distance `grid_noise.closeness`, which the ledger pays once for all steps.
        Assumes that the sum is exact and that the words of the Threefry generator are random.

    Args:
        query: The clipped sum, any pytree of floating-point arrays.
        noise: The noise of the grid that belongs to the sum.
        words: The key of this release; it must not be used again.
        adjacency: The neighboring relation the guarantee is stated for.

    Returns:
        The noisy sum and the event to append to the ledger. Works under `jit` and `lax.scan`.

    Raises:
        ValueError: The grid was built for a smaller sensitivity or another size.
    """
    if query.sensitivity(adjacency) > noise.grid.sensitivity:
        raise ValueError(
            f"the grid is for a sensitivity of {noise.grid.sensitivity}, the sum has "
            f"{query.sensitivity(adjacency)}. Build it with grid_for({query.clip_norm}, "
            f"adjacency={adjacency}, ...)."
        )
    return Released(noise.added(query.total, words), Gaussian(noise.grid.noise_multiplier))


def correlated(
    query: ClippedSum,
    *,
    noise: BandedNoise,
    past: Past,
    step: Int[Array, ""],
    words: UInt32[Array, " 4"],
) -> tuple[Released[Any], Past]:
    """Release the clipped sum of a step with noise of which later steps take back a part.

    Guarantee:
        The `noise.bands` steps from one that a record takes part in, which are its turn, are together
        a Gaussian mechanism with the `noise_multiplier` of the grid, for add/remove. A record must
        take part at most once in any `noise.bands` consecutive steps. Otherwise as for `gaussian`.

    Args:
        query: The clipped sum, any pytree of floating-point arrays.
        noise: The noise of the run.
        past: The noise of earlier steps, which is secret.
        step: The number of the step, from 0.
        words: The key of this step; it must not be used again.

    Returns:
        The noisy sum with the event of a turn, which the ledger pays once for each turn that a record
        has, and the past of the next step.

    Raises:
        ValueError: The noise was made for a smaller sensitivity or another size.
    """
    needed = query.sensitivity(Adjacency.ADD_REMOVE) * column_norm(noise.bands)
    if needed > noise.grid.sensitivity:
        raise ValueError(
            f"the noise is for a turn that changes {noise.grid.sensitivity}, one changes {needed}. "
            f"Build it with BandedNoise.of({query.clip_norm}, ...)."
        )
    value, past = noise.added(query.total, past, step, words)
    return Released(value, Gaussian(noise.grid.noise_multiplier)), past


def gaussian_once(
    query: ClippedSum,
    *,
    noise_multiplier: float,
    secret: Secret,
    purpose: str,
    index: int = 0,
    touched: int | None = None,
) -> Released[Float[np.ndarray, "..."]]:
    """Release a sum over all records, one array, in double precision on the host.

    Guarantee:
        As for `gaussian`, under add/remove of one record, with random words from a cryptographic hash
        of the secret. The sum is in double precision, because in single precision the rounding of a sum
        over a million rows exceeds the weight of one row. A multiplier of 0 adds no noise, and the
        event says so.

    Args:
        query: The clipped sum, as one array.
        noise_multiplier: Noise standard deviation over sensitivity.
        secret: The source of the noise.
        purpose: A name of at most 16 bytes; no other release may have the same purpose and index.
        index: The number of this release among those of the same purpose.
        touched: The most numbers that one record changes; None for all. Only those are rounded
            differently, so the fewer they are, the finer the grid can be.
    """
    total = np.asarray(query.total, np.float64)
    total = np.where(np.isfinite(total), total, 0.0)  # finite by contract, but never skip the noise
    if noise_multiplier == 0:
        return Released(total, NonPrivate())
    # Twice the allowance for rounding to the grid. It also covers the error of counts times a weight in
    # double precision, up to 2^28 records in a cell.
    changed = total.size if touched is None else 4 * touched
    grid = grid_for(query.clip_norm, noise_multiplier=noise_multiplier, num_coordinates=changed)
    noisy = noisy_on_host(total, grid=grid, secret=secret, purpose=purpose, index=index)
    return Released(noisy, Gaussian(noise_multiplier))
