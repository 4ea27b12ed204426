"""Private whitening: the mean and covariance of the rows, by rounds of noisy moments.

One Gaussian mechanism releases the sum of (x, xx^T) over rows shortened to a radius. The noise grows
with the radius squared, so a radius that covers the whole domain drowns all small directions. Hence
a few rounds: each whitens by what is known so far and measures again in those coordinates, where
rows are about sqrt(dim) long and the radius can be that small. The number of rounds and their noise
are fixed in advance; only the coordinates adapt, and these come from earlier releases.

References:
    Biswas, Dong, Kamath, Ullman, "CoinPress: practical private mean and covariance estimation", 2020.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from veilflow._core.keys import Secret
from veilflow.flows.bijections.fixed_linear import FixedLinear
from veilflow.models.start.release import release
from veilflow.models.start.rows import finite
from veilflow.privacy.events import Together
from veilflow.privacy.guarantees import ClippedSum, Released, Sensitive

_REACH = 1.5
"""Radius in whitened coordinates, over sqrt(dim), from the second round on."""
_SMALLEST = 1e-12
"""No variance is below this, nor below this part of the largest: columns may be constant, or alike."""
_SENSITIVITY = 2.0**0.5
"""L2 norm of (x, xx^T) at |x| = 1: no row moves the sum by more."""


def private_whitening(
    rows: Sensitive[Float[np.ndarray, "rows dim"]],
    *,
    radius: float,
    num_records: float,
    noise_multipliers: Sequence[float],
    secret: Secret,
    hardened: bool = False,
) -> Released[FixedLinear]:
    """Release the affine map from standard coordinates to the rows.

    Guarantee:
        One Gaussian mechanism a round with its noise multiplier, for add/remove of one row. The
        `radius`, `num_records` and noise are public; a row longer than the radius is shortened.

    Args:
        rows: Rows; one that is not finite counts as zero.
        radius: Length that rows are shortened to in the first round.
        num_records: Declared or released number of rows.
        noise_multipliers: One for each round, fixed beforehand.
        secret: Source of the noise.
        hardened: Noise from the operating system, on a grid.

    Returns:
        The map x = A z + m with z about standard.
    """
    dim = rows.open().shape[1]
    mean, factor = np.zeros(dim), np.eye(dim)
    events = []
    for round_, noise_multiplier in enumerate(noise_multipliers):
        released = release(
            _moments(rows, mean, factor, radius),
            noise_multiplier=noise_multiplier,
            key=secret.key("whitening", round_),
            hardened=hardened,
        )
        events.append(released.event)
        noise = noise_multiplier * _SENSITIVITY * radius**2 / num_records
        shift, covariance = _read(np.asarray(released.value, np.float64), dim, radius, num_records)
        values, vectors = np.linalg.eigh(covariance)
        # below what the noise alone brings, a variance is not known: better too wide than too narrow
        values = np.maximum(values, max(noise * dim**0.5, _SMALLEST))
        mean = mean + factor @ shift
        factor = factor @ (vectors * np.sqrt(values))
        radius = _REACH * dim**0.5
    values, vectors = np.linalg.eigh(factor @ factor.T)
    values = np.maximum(values, _SMALLEST * values.max())  # rounds multiply what is small
    whole = (vectors * values) @ vectors.T
    return Released(FixedLinear.from_moments(mean, whole), Together(tuple(events)))


def _moments(rows: Sensitive, mean: np.ndarray, factor: np.ndarray, radius: float) -> ClippedSum:
    """The sum over rows of z and the upper triangle of zz^T, with z shortened and divided by radius."""
    z = np.linalg.solve(factor, (finite(rows.open()) - mean).T).T / radius
    z[~np.isfinite(z).all(axis=1)] = 0.0  # where the solve overflowed
    with np.errstate(over="ignore"):  # a row of infinite length counts as zero
        z /= np.maximum(np.linalg.norm(z, axis=1, keepdims=True), 1.0)
    square = z.T @ z
    upper = np.triu_indices(len(square))
    # off the diagonal times sqrt(2): half of the matrix then has the norm of the whole
    weights = np.where(upper[0] == upper[1], 1.0, 2.0**0.5)
    total = np.concatenate([z.sum(axis=0), weights * square[upper]])
    return ClippedSum(total, _SENSITIVITY)


def _read(
    total: np.ndarray, dim: int, radius: float, num_records: float
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance from a released sum."""
    mean = total[:dim] * radius / num_records
    upper = np.triu_indices(dim)
    weights = np.where(upper[0] == upper[1], 1.0, 2.0**0.5)
    square = np.zeros((dim, dim))
    square[upper] = total[dim:] / weights
    square = square + np.triu(square, 1).T
    return mean, square * radius**2 / num_records - np.outer(mean, mean)
