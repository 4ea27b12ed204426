"""A private grid: in up to three dimensions, a histogram captures most of a density.

The box is divided into fine cells and their counts are released once. Everything after that is
post-processing: cells that the noise makes indistinguishable are merged (`dyadic`), and a mixture of
normals is fitted to the merged boxes, because a histogram has edges that the data do not have.
"""

# SciPy has no type stubs
# pyright: reportMissingTypeStubs=false, reportUnknownVariableType=false

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from jaxtyping import Float
from scipy.special import logsumexp

from veilflow.flows.bases.histogram import Histogram
from veilflow.flows.bases.mixtures import Blend, GaussianMixture
from veilflow.privacy import calibration
from veilflow.privacy.budget import Budget
from veilflow.privacy.events import Event, NonPrivate, PureDP
from veilflow.privacy.guarantees import Released, Sensitive
from veilflow.privacy.ledger import Ledger
from veilflow.privacy.mechanisms import histogram
from veilflow.releases import dyadic
from veilflow.releases.release import Release, Tools, pure_event
from veilflow.releases.rows import finite

_SMOOTH = (0.05, 0.95)
"""Smallest and largest weight of the mixture in the blend; the rest is the histogram's."""
_BOXES_PER_COMPONENT = 16
_COMPONENTS = (8, 128)
_ROUNDS = 60
_RIDGE = 1e-6
"""Smallest variance, in the unit cube."""


@dataclass(frozen=True, kw_only=True)
class Grid(Release):
    """A density of rows in the box from -border to border.

    Guarantee:
        epsilon-DP for add/remove of one row: a row is in one cell. The rest is post-processing.

    Attributes:
        dim: Number of columns.
        bits: Each axis has 2^bits cells.
        border: Declared. A row that is not finite counts as zero.
        epsilon: Price of the counts; infinite for exact counts, without privacy.
    """

    purpose: str = "grid"
    dim: int
    bits: int
    border: float
    epsilon: float

    @property
    def event(self) -> Event:
        return pure_event(self.epsilon)

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
        """The density: merged cells, smoothed as far as they allow."""
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
    weights, means, covariances = fit_mixture(
        box_mass,
        low / 2**bits,
        high / 2**bits,
        num_components=int(np.clip(len(box_mass) // _BOXES_PER_COMPONENT, *_COMPONENTS)),
    )
    # the divergence of the mixture from the boxes: if it is large, their edges are real
    volume = np.prod((high - low) / 2**bits, axis=1)
    smooth = log_density((low + high) / 2 ** (bits + 1), weights, means, covariances)
    divergence = float(np.sum(box_mass * (np.log(box_mass / volume) - smooth)))
    weight = float(np.clip(np.exp(-2 * divergence), *_SMOOTH))
    side = 2 * border
    mixture = GaussianMixture.create(weights, side * means - border, side**2 * covariances)
    return Blend((mixture, Histogram.create(mass, border=border)), (weight, 1 - weight))


def fit_mixture(
    mass: Float[np.ndarray, " boxes"],
    low: Float[np.ndarray, "boxes dim"],
    high: Float[np.ndarray, "boxes dim"],
    *,
    num_components: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weights, means and covariances of a mixture close to mass spread evenly over boxes.

    A box enters by its exact first and second moments, and responsibilities are taken at its center.
    """
    rng = np.random.default_rng(0)  # public: it only picks where EM starts
    centers, dim = (low + high) / 2, low.shape[1]
    spread = ((high - low) ** 2 / 12)[:, :, None] * np.eye(dim)
    second = centers[:, :, None] * centers[:, None, :] + spread
    num_components = min(num_components, len(mass))
    means = _spread_out(centers, mass, num_components, rng)
    weights = np.full(num_components, 1 / num_components)
    size = num_components ** (-1 / dim) / 2
    covariances = np.broadcast_to(size**2 * np.eye(dim) / 4, (num_components, dim, dim))
    for _ in range(_ROUNDS):
        log_joint = np.log(weights) + _log_normal(centers, means, covariances)
        log_joint -= log_joint.max(axis=1, keepdims=True)
        shares = np.exp(log_joint)
        shares *= (mass / shares.sum(axis=1))[:, None]
        weights = np.maximum(shares.sum(axis=0), 1e-12)
        means = shares.T @ centers / weights[:, None]
        moments = (shares.T @ second.reshape(len(mass), -1)).reshape(-1, dim, dim)
        covariances = moments / weights[:, None, None] - means[:, :, None] * means[:, None, :]
        covariances = (covariances + covariances.transpose(0, 2, 1)) / 2 + _RIDGE * np.eye(dim)
        heavy = weights > 1e-6
        weights, means, covariances = weights[heavy], means[heavy], covariances[heavy]
        weights = weights / weights.sum()
    return weights, means, covariances


def log_density(
    x: Float[np.ndarray, "rows dim"],
    weights: np.ndarray,
    means: np.ndarray,
    covariances: np.ndarray,
) -> Float[np.ndarray, " rows"]:
    """Log-density of a mixture."""
    return np.asarray(logsumexp(np.log(weights) + _log_normal(x, means, covariances), axis=1))


def _spread_out(
    centers: np.ndarray, mass: np.ndarray, num_components: int, rng: np.random.Generator
) -> np.ndarray:
    """Starting means, far from each other, by the k-means++ rule."""
    chosen = [rng.choice(len(mass), p=mass / mass.sum())]
    distance = np.full(len(mass), np.inf)
    while len(chosen) < num_components:
        distance = np.minimum(distance, ((centers - centers[chosen[-1]]) ** 2).sum(axis=1))
        odds = mass * distance
        if not odds.sum() > 0:
            break
        chosen.append(rng.choice(len(mass), p=odds / odds.sum()))
    return centers[chosen]


def _log_normal(x: np.ndarray, means: np.ndarray, covariances: np.ndarray) -> np.ndarray:
    """Log-density of every point under every component, as one matrix product.

    The square (x - m)' P (x - m) is linear in the products of coordinates, the coordinates and 1. In
    a unit cube, with variances no smaller than the ridge, doubles lose nothing that matters by it.
    """
    dim = x.shape[1]
    precisions = np.linalg.inv(covariances)
    pulled = np.einsum("kij,kj->ki", precisions, means)
    constant = np.linalg.slogdet(precisions)[1] - dim * np.log(2 * np.pi)
    constant -= np.einsum("ki,ki->k", pulled, means)
    products = (x[:, :, None] * x[:, None, :]).reshape(len(x), -1)
    features = np.concatenate([products, x, np.ones((len(x), 1))], axis=1)
    columns = [-0.5 * precisions.reshape(len(means), -1), pulled, 0.5 * constant[:, None]]
    return features @ np.concatenate(columns, axis=1).T
