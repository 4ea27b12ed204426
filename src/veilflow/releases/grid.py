"""A private grid: in up to three dimensions a histogram says most of what there is to say.

The box is cut into fine cells, their counts are released once, cells that noise cannot tell apart are
joined, and a smooth mixture is fitted to what remains. Only the counts touch the rows.
"""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from jaxtyping import Float

from veilflow.flows.bases.histogram import Histogram
from veilflow.flows.bases.mixtures import Blend, GaussianMixture
from veilflow.privacy import calibration
from veilflow.privacy.budget import Budget
from veilflow.privacy.events import Event, NonPrivate, PureDP
from veilflow.privacy.guarantees import Released, Sensitive
from veilflow.privacy.ledger import Ledger
from veilflow.privacy.mechanisms import histogram
from veilflow.releases import boxes, dyadic
from veilflow.releases.release import Release, Tools
from veilflow.releases.rows import finite

_SMOOTH = (0.05, 0.95)
"""Least and most weight of the mixture in the blend; the histogram has the rest."""
_BOXES_PER_COMPONENT = 16
_COMPONENTS = (8, 128)


@dataclass(frozen=True, kw_only=True)
class Grid(Release):
    """A density of rows in the box from -border to border.

    Guarantee:
        epsilon-DP for add/remove of one row: a row is in one cell. The rest is post-processing.

    Attributes:
        dim: Number of columns.
        bits: 2^bits cells along each axis.
        border: Declared. A row that is not finite counts as zero.
        epsilon: Price of the counts; infinite for the counts themselves, without privacy.
    """

    purpose: str = "grid"
    dim: int
    bits: int
    border: float
    epsilon: float

    @property
    def event(self) -> Event:
        return NonPrivate() if self.epsilon == np.inf else PureDP(self.epsilon)

    def priced(self, budget: Budget, others: Ledger) -> Self:
        if not budget.private:
            return replace(self, epsilon=np.inf)
        epsilon = calibration.calibrate(
            PureDP,
            budget,
            bracket=(1e-6 * budget.epsilon, budget.epsilon),
            increasing=True,
            ledger=others,
            what="epsilon of the grid",
        )
        return replace(self, epsilon=epsilon)

    def run(
        self, records: Sensitive[Float[np.ndarray, "rows dim"]], tools: Tools
    ) -> Released[np.ndarray]:
        border, cells = self.border, 2 ** (self.bits * self.dim)
        inside = records.map(lambda x: np.clip(finite(x), -border, border))
        index = inside.map(lambda x: dyadic.cell_index((x / border + 1) / 2, self.bits))
        if self.epsilon == np.inf:
            return Released(np.bincount(index.open(), minlength=cells), NonPrivate())
        return histogram(index, categories=range(cells), epsilon=self.epsilon)

    def result(self, value: np.ndarray) -> Blend:
        """The density: joined cells, smoothed as far as they allow."""
        return _density(value, self.border, self.bits, self.dim, self.epsilon)


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
