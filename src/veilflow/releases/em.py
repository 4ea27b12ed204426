"""Expectation-maximization for Gaussian mixtures from noisy sums: the mathematics of DP-EM.

A step asks the records one question of known sensitivity and turns the noisy answer into the next
mixture. The question is asked in the current coordinates of each component: the position of a record
is measured in the component's own standard deviations and projected onto a ball of public size. The
noise is then relative to the component, not to the domain, and shrinks with it. A Kalman gain weighs
the answer against the previous estimate, according to its noise. Without noise the gain is 1, and this
is plain EM.

All of it is NumPy in double precision. `local_sums` is the only function that sees records; everything
else is post-processing of releases.
"""

# SciPy has no type stubs
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.stats import chi2

from veilflow.releases.rows import from_upper_triangle, upper_triangle

Rows = Float[np.ndarray, "rows dim"]
Sums = Float[np.ndarray, "k features"]
"""For each component: a count, a shift of `dim` numbers, and the triangle of a second moment."""

_BLOCK = 2**18
"""Size of temporary arrays: small enough for a cache, large enough for matrix products."""
_NEGLIGIBLE = 1e-6
"""Smaller responsibilities count as zero, which only lowers what a record adds."""
_BELOW_ONE = 1 - 1e-9
"""Margin for rounding: no record adds more than 1, even in floating point."""

_REACHES = (5.0, 3.0, 2.0, 1.5, 1.0)
"""A ball of radius sqrt(dim) + the last holds most of a normal; + the first, also unusual shapes."""
_FAINT = 0.1
"""Relative noise of a covariance above which a smaller ball is worth its bias."""
_STEP = (0.05, 20.0)
"""Smallest and largest factor by which a variance changes in a step."""
_SMALLEST_VARIANCE = 1e-8
"""In flow coordinates: repeated values give a narrow peak, not an infinite one."""
_DRIFT, _COOLING = 0.3, 0.6
"""Squared relative change that a step of EM is expected to make, and its decay per step."""
_DOUBT = 1.0
"""Squared relative error of the initial mixture."""
_SURE = 6.0
"""A component moves as if it had at least this many times the noise of its count in records."""
_CAUTION = 4.0
"""Variances are inflated by this multiple of their noise: too wide costs less than too narrow."""


class Mixture(NamedTuple):
    """A mixture of normals."""

    weights: Float[np.ndarray, " k"]
    means: Float[np.ndarray, "k dim"]
    factors: Float[np.ndarray, "k dim dim"]
    """Lower Cholesky factors of the covariances."""

    @property
    def covariances(self) -> Float[np.ndarray, "k dim dim"]:
        """One matrix for each component."""
        return self.factors @ np.swapaxes(self.factors, 1, 2)


@dataclass(frozen=True)
class Question:
    """What a record adds to the sums, and how much that can be.

    A record at `place`, relative to a component and in its standard deviations, adds its
    responsibility times (1, place, place place' - expected I), each part scaled.

    Attributes:
        radius: Places are projected onto the ball of this radius.
        expected: Mean squared coordinate of a standard normal projected onto the ball.
        scales: Scales of the three parts, chosen so that the noise costs the least likelihood and
            that no record adds a vector longer than 1.
    """

    radius: float
    expected: float
    scales: tuple[float, float, float]

    @classmethod
    def of(cls, dim: int, *, reach: float = _REACHES[-1]) -> "Question":
        """The question about rows of `dim` numbers, with a ball of radius sqrt(dim) + `reach`."""
        radius = math.sqrt(dim) + reach
        square = radius**2
        expected = float(chi2.cdf(square, dim + 2) + square / dim * chi2.sf(square, dim))
        # |place place' - e I|^2 is convex in |place|^2: largest at the center or at the border
        border = math.sqrt(square**2 - 2 * expected * square + expected**2 * dim)
        lengths = np.array([1.0, radius, max(border, expected * math.sqrt(dim))])
        # to second order, noise of deviation s costs s^2 / 2 in the logarithm of a weight or in a
        # whitened coordinate of a mean, and s^2 / 4 in each number of a whitened covariance
        costs = np.array([1 / 2, dim / 2, dim * (dim + 1) / 8])
        scales = np.sqrt(np.sqrt(costs) / lengths)
        scales *= _BELOW_ONE / np.linalg.norm(scales * lengths)
        return cls(radius, expected, (float(scales[0]), float(scales[1]), float(scales[2])))

    @classmethod
    def for_counts(cls, counts: Float[np.ndarray, " k"], dim: int, noise: float) -> "Question":
        """The question with the widest ball that noise of this deviation allows.

        A record adds at most 1 whatever the ball is, so it may depend on released counts.
        """
        if noise == 0:
            return cls.without_limit()
        for reach in _REACHES:
            question = cls.of(dim, reach=reach)
            if question.spread_noise(noise, dim) <= _FAINT * counts.mean():
                return question
        return cls.of(dim)

    def spread_noise(self, noise: float, dim: int) -> float:
        """Root mean square noise in the eigenvalues of a whitened covariance, for one record."""
        return noise / self.scales[2] / self.expected * math.sqrt((dim + 1) / 2)

    @classmethod
    def without_limit(cls) -> "Question":
        """The question of a run without privacy: no place is projected."""
        return cls(math.inf, 1.0, (1.0, 1.0, 1.0))


def local_sums(rows: Rows, mixture: Mixture, question: Question) -> Sums:
    """The sums over all rows. No row adds a vector longer than 1, over all components together."""
    k, dim = mixture.means.shape
    upper = np.triu_indices(dim)
    forms = _quadratic_forms(mixture)
    total = np.zeros((k, forms.shape[1]))
    size = max(1, _BLOCK // max(forms.shape))
    for first in range(0, len(rows), size):
        block = rows[first : first + size]
        features = np.ones((len(block), forms.shape[1]))
        features[:, 1 : 1 + dim] = block
        features[:, 1 + dim :] = block[:, upper[0]] * block[:, upper[1]]
        log_joint = features @ forms.T
        shares = np.exp(log_joint - log_joint.max(axis=1, keepdims=True))
        total += weighted_sums(block, shares / shares.sum(axis=1, keepdims=True), mixture, question)
    return total


def _quadratic_forms(mixture: Mixture) -> Float[np.ndarray, "k features"]:
    """Log joint densities, up to a constant, as coefficients of 1, of x and of its products."""
    whiten = np.linalg.inv(mixture.factors)
    centers = np.einsum("kij,kj->ki", whiten, mixture.means)
    log_volumes = np.log(np.diagonal(mixture.factors, axis1=1, axis2=2)).sum(axis=1)
    constants = np.log(mixture.weights) - log_volumes - 0.5 * np.square(centers).sum(axis=1)
    linear = np.einsum("kij,ki->kj", whiten, centers)
    precisions = np.swapaxes(whiten, 1, 2) @ whiten
    i, j = np.triu_indices(whiten.shape[1])
    products = -precisions[:, i, j] * np.where(i == j, 0.5, 1.0)
    return np.hstack([constants[:, None], linear, products])


def weighted_sums(
    rows: Rows, shares: Float[np.ndarray, "rows k"], mixture: Mixture, question: Question
) -> Sums:
    """The sums for given responsibilities, which are nonnegative and sum to at most 1 in each row.

    The squares of such responsibilities sum to at most 1. So a row adds at most what it would add if
    it belonged to the worst component alone, which is at most 1 by the choice of the scales.
    """
    k, dim = mixture.means.shape
    whiten = np.linalg.inv(mixture.factors)
    counts, shifts, squares = np.zeros(k), np.zeros((k, dim)), np.zeros((k, dim, dim))
    for i in range(k):
        active = np.flatnonzero(shares[:, i] > _NEGLIGIBLE)
        share, place = shares[active, i], (rows[active] - mixture.means[i]) @ whiten[i].T
        length = np.sqrt(np.einsum("ni,ni->n", place, place))
        place *= np.minimum(1.0, question.radius / np.maximum(length, 1e-300))[:, None]
        weighted = share[:, None] * place
        counts[i], shifts[i], squares[i] = share.sum(), weighted.sum(axis=0), weighted.T @ place
    squares -= question.expected * counts[:, None, None] * np.eye(dim)
    one, two, three = question.scales
    return np.hstack([one * counts[:, None], two * shifts, three * upper_triangle(squares)])


class Belief(NamedTuple):
    """A mixture and its uncertainty. All of it follows from releases.

    Attributes:
        mixture: The mixture.
        counts: Estimated records of each component.
        doubt: Squared relative error of each component.
        noise: The part of the squared relative error of each covariance that is due to noise.
    """

    mixture: Mixture
    counts: Float[np.ndarray, " k"]
    doubt: Float[np.ndarray, " k"]
    noise: Float[np.ndarray, " k"]


def first_belief(dim: int, spread: float) -> Belief:
    """One isotropic normal at zero with standard deviation `spread`."""
    mixture = Mixture(np.ones(1), np.zeros((1, dim)), spread * np.eye(dim)[None])
    return Belief(mixture, np.zeros(1), np.full(1, _DOUBT), np.zeros(1))


def updated(
    belief: Belief, sums: Sums, question: Question, *, noise_stddev: float, age: int
) -> Belief:
    """The belief after an answer.

    Args:
        belief: The belief with which the question was asked.
        sums: The released answer.
        question: The question.
        noise_stddev: Standard deviation of the noise in every number of `sums`; 0 for none.
        age: Steps since components were last split or merged: EM moves less and less.
    """
    dim = belief.mixture.means.shape[1]
    noises = [noise_stddev / scale for scale in question.scales]
    counted, shifts, squares = np.split(sums, (1, 1 + dim), axis=1)
    counted = counted[:, 0] / question.scales[0]
    floor = (
        noises[0] + 1e-9
    )  # a component with fewer records than the noise is kept, with this count
    largest = np.maximum(np.maximum(belief.counts, counted), floor)
    gain = _gain(belief.doubt, noises[0] / largest)
    counts = np.maximum(belief.counts + gain * (counted - belief.counts), floor)

    sure = np.maximum(counts, _SURE * noises[0])
    shifts = shifts / question.scales[1] / sure[:, None]
    change = from_upper_triangle(squares / question.scales[2], dim) / sure[:, None, None]
    change = change / question.expected - shifts[:, :, None] * shifts[:, None, :]
    mean_gain = _gain(belief.doubt, noises[1] / sure)
    noise = question.spread_noise(noise_stddev, dim) / sure
    gain = _gain(belief.doubt, noise)
    values, vectors = np.linalg.eigh(np.eye(dim) + gain[:, None, None] * change)
    least = np.clip(gain * noise, _STEP[0], 1.0)  # a variance below its noise is unknown
    values = np.clip(values, least[:, None], _STEP[1])

    factors = belief.mixture.factors
    means = belief.mixture.means + np.einsum("kij,kj->ki", factors, mean_gain[:, None] * shifts)
    roots = factors @ (vectors * np.sqrt(values)[:, None, :])
    covariances = roots @ np.swapaxes(roots, 1, 2) + _SMALLEST_VARIANCE * np.eye(dim)
    return Belief(
        mixture=Mixture(counts / counts.sum(), means, np.linalg.cholesky(covariances)),
        counts=counts,
        doubt=(1 - gain) * belief.doubt + _DRIFT * _COOLING**age,
        noise=(1 - gain) ** 2 * belief.noise + (gain * noise) ** 2,
    )


def cautious(belief: Belief) -> Mixture:
    """The mixture to publish: widened where noise may have made it too narrow."""
    wider = np.sqrt(1 + _CAUTION * belief.noise)
    return belief.mixture._replace(factors=belief.mixture.factors * wider[:, None, None])


def _gain(doubt: np.ndarray, noise: np.ndarray) -> np.ndarray:
    return doubt / (doubt + noise**2)
