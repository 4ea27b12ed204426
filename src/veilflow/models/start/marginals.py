"""Private marginals: every column made about normal, by histograms released together.

Spikes, long tails and loose bounds are matters of single columns. A histogram of each costs little,
and turning it into the map from the column to a normal leaves to the flow what columns have to do
with each other.
"""

import numpy as np
from jaxtyping import Float
from scipy.special import ndtri

from veilflow._core.keys import Secret
from veilflow.flows.bijections.piecewise import PiecewiseLinear
from veilflow.models.start.dyadic import denoise
from veilflow.models.start.release import release
from veilflow.models.start.rows import finite
from veilflow.privacy.guarantees import ClippedSum, Released, Sensitive

_EDGE = 1e-7
"""Mass below the first knot and above the last."""


def private_marginals(
    rows: Sensitive[Float[np.ndarray, "rows dim"]],
    *,
    border: float,
    bits: int,
    noise_multiplier: float,
    secret: Secret,
    hardened: bool = False,
) -> Released[PiecewiseLinear]:
    """Release the map that makes each column about standard normal.

    Guarantee:
        One Gaussian mechanism for add/remove of one row: a row is in one cell of each of `dim`
        histograms, so their joint L2 sensitivity is sqrt(dim).

    Args:
        rows: Rows inside the box from -border to border; one that is not finite counts as zero.
        border: Declared.
        bits: Each histogram has 2^bits cells.
        noise_multiplier: Of the joint release.
        secret: Source of the noise.
        hardened: Noise from the operating system, on a grid.
    """
    values = np.clip(finite(rows.open()), -border, border)
    dim, cells = values.shape[1], 2**bits
    at = np.clip(np.floor((values / border + 1) * (cells / 2)), 0, cells - 1).astype(np.int64)
    counts = np.stack([np.bincount(at[:, i], minlength=cells) for i in range(dim)])
    sensitivity = dim**0.5
    released = release(
        ClippedSum(counts, sensitivity),
        noise_multiplier=noise_multiplier,
        key=secret.key("marginals"),
        hardened=hardened,
    )
    variance = (noise_multiplier * sensitivity) ** 2
    mass = np.stack(
        [denoise(column, variance).mass for column in np.asarray(released.value, np.float64)]
    )
    up_to = np.concatenate([np.zeros((dim, 1)), np.cumsum(mass, axis=1)], axis=1)
    knots = ndtri(_EDGE + (1 - 2 * _EDGE) * np.minimum(up_to, 1.0))
    return Released(PiecewiseLinear.create(knots, border=border), released.event)
