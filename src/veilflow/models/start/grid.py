"""A private grid: in up to three dimensions a histogram says most of what there is to say.

The box is cut into fine cells, their counts are released once, cells that noise cannot tell apart are
joined, and a smooth mixture is fitted to what remains. Only the counts touch the rows.
"""

import numpy as np
from jaxtyping import Float

from veilflow.flows.bases.blend import Blend
from veilflow.flows.bases.histogram import Histogram
from veilflow.flows.bases.mixture import GaussianMixture
from veilflow.models.start import boxes, dyadic
from veilflow.models.start.rows import finite
from veilflow.privacy.events import NonPrivate
from veilflow.privacy.guarantees import Released, Sensitive
from veilflow.privacy.mechanisms import histogram

_SMOOTH = (0.05, 0.95)
"""Least and most weight of the mixture in the blend; the histogram has the rest."""
_BOXES_PER_COMPONENT = 16
_COMPONENTS = (8, 128)


def private_grid(
    rows: Sensitive[Float[np.ndarray, "rows dim"]],
    *,
    border: float,
    bits: int,
    epsilon: float,
) -> Released[Blend]:
    """Release a density of rows in the box from -border to border.

    Guarantee:
        epsilon-DP for add/remove of one row: a row is in one cell. The rest is post-processing.

    Args:
        rows: Rows inside the box; one that is not finite counts as zero.
        border: Declared.
        bits: 2^bits cells along each axis.
        epsilon: Price of the counts; infinite for the counts themselves, without privacy.
    """
    dim = rows.open().shape[1]
    cells = 2 ** (bits * dim)
    inside = rows.map(lambda x: np.clip(finite(x), -border, border))
    index = inside.map(lambda x: dyadic.cell_index((x / border + 1) / 2, bits))
    if epsilon == np.inf:
        counts = Released(np.bincount(index.open(), minlength=cells), NonPrivate())
    else:
        counts = histogram(index, categories=range(cells), epsilon=epsilon)
    return counts.map(lambda noisy: _density(noisy, border, bits, dim, epsilon))


def _density(counts: np.ndarray, border: float, bits: int, dim: int, epsilon: float) -> Blend:
    ratio = np.exp(-epsilon)  # of geometric noise
    noisy = dyadic.denoise(np.asarray(counts, np.float64), 2 * ratio / (1 - ratio) ** 2)
    corner = dyadic.cell_corner(np.arange(len(noisy.mass)), bits, dim)
    mass = np.zeros((2**bits,) * dim)
    mass[tuple(corner.T)] = noisy.mass
    box_mass = np.bincount(noisy.leaf, noisy.mass)
    low = np.full((len(box_mass), dim), 2**bits)
    high = np.zeros_like(low)
    np.minimum.at(low, noisy.leaf, corner)
    np.maximum.at(high, noisy.leaf, corner + 1)
    weights, means, covariances = boxes.fit_mixture(
        box_mass,
        low / 2**bits,
        high / 2**bits,
        num_components=int(np.clip(len(box_mass) // _BOXES_PER_COMPONENT, *_COMPONENTS)),
    )
    # how far the mixture is from the boxes: where it misses much of them, they are sharp for a reason
    volume = np.prod((high - low) / 2**bits, axis=1)
    smooth = boxes.log_density((low + high) / 2 ** (bits + 1), weights, means, covariances)
    missed = float(np.sum(box_mass * (np.log(box_mass / volume) - smooth)))
    weight = float(np.clip(np.exp(-2 * missed), *_SMOOTH))
    side = 2 * border
    mixture = GaussianMixture.create(weights, side * means - border, side**2 * covariances)
    return Blend((mixture, Histogram.create(mass, border=border)), (weight, 1 - weight))
