"""Expectation-maximization for Gaussian mixtures from noisy sums: the mathematics of DP-EM.

A step asks the records one question with a known sensitivity and turns the noisy answer into the
next mixture. The question is put in the coordinates of each component as it is now: a record's
place relative to a component is measured in that component's own standard deviations and moved into
a ball of fixed radius. Noise is then relative to the component, not to the domain, and shrinks with
it. The answer is not believed more than its noise allows: a Kalman gain weighs it against what was
known before. Where there is no noise the gain is 1, and this is plain EM.

NumPy in double precision; nothing here draws a random number or reads a record without being
handed it. `local_sums` is the only function that sees records.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import logsumexp
from scipy.stats import chi2

Rows = Float[np.ndarray, "rows dim"]

_BLOCK = 2**20
"""Numbers per temporary array: small enough for a cache, large enough for matrix products."""
_NEGLIGIBLE = 1e-9
"""Responsibilities below this count as zero, which only lowers a record's share."""
_BELOW_ONE = 1 - 1e-9
"""Room for rounding: no record's share is above 1, even in floating point."""

_REACH = 1.0
"""A ball of radius sqrt(dim) + this holds most of a standard normal."""
_STEP = (0.05, 20.0)
"""By how much one step may change a variance."""
_SMALLEST_VARIANCE = 1e-8
"""In flow coordinates: repeated values make a narrow peak, not an infinite one."""
_SPLIT = 0.8
"""Halves of a normal cut in two have their means this many deviations from the cut."""
_DRIFT, _COOLING = 0.1, 0.7
"""Squared relative change expected of a step of EM, and what is left of it a step later."""
_DOUBT_OF_START, _DOUBT_OF_HALVES = 1.0, 0.5
"""Squared relative error of a first guess, and of a component that was just split."""
_CAUTION = 2.0
"""Covariances grow by this times the variance of their noise: too wide costs less than too narrow."""


@dataclass(frozen=True)
class Mixture:
    """A mixture of Gaussians; `factors` are the lower Cholesky factors of the covariances."""

    weights: Float[np.ndarray, " k"]
    means: Float[np.ndarray, "k dim"]
    factors: Float[np.ndarray, "k dim dim"]

    @property
    def covariances(self) -> Float[np.ndarray, "k dim dim"]:
        """One matrix for each component."""
        return self.factors @ np.swapaxes(self.factors, 1, 2)

    def log_prob(self, rows: Rows) -> Float[np.ndarray, " rows"]:
        """The natural log of the density at each row; minus infinity where it is too small."""
        parts = [logsumexp(log_joint, axis=1) for log_joint, _ in _blocks(rows, self)]
        return np.concatenate(parts) if parts else np.empty(0)


def _blocks(rows: Rows, mixture: Mixture) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Log joint densities (rows, k) and whitened places (rows, k, dim), some rows at a time."""
    k, dim = mixture.means.shape
    whiten = np.linalg.inv(mixture.factors)
    offsets = np.einsum("kij,kj->ki", whiten, mixture.means)
    flat = whiten.reshape(k * dim, dim).T
    scales = np.log(np.diagonal(mixture.factors, axis1=1, axis2=2)).sum(axis=1)
    constants = np.log(mixture.weights) - scales - dim / 2 * math.log(2 * math.pi)
    size = max(1, _BLOCK // (k * dim))
    for start in range(0, len(rows), size):
        with np.errstate(over="ignore"):  # rows to be judged may lie anywhere
            places = (rows[start : start + size] @ flat).reshape(-1, k, dim) - offsets
            squares = np.einsum("nki,nki->nk", places, places)
        yield constants - 0.5 * squares, places


class Sums(NamedTuple):
    """What a step learns: per component a count, a mean and a deviation of second moments."""

    counts: Float[np.ndarray, " k"]
    shifts: Float[np.ndarray, "k dim"]
    spreads: Float[np.ndarray, "k pairs"]
    """Upper triangles, with off-diagonal entries times sqrt(2): norms are those of the matrix."""


@dataclass(frozen=True)
class Question:
    """How a record's place becomes its share in the sums, and how large that share can be.

    Attributes:
        radius: Places are moved into this ball, in standard deviations of a component.
        expected: Mean squared coordinate of a standard normal moved into the ball.
        scales: What counts, shifts and spreads are multiplied by: chosen so that the expected loss
            of likelihood under noise is least, and that no record's share is longer than 1.
    """

    radius: float
    expected: float
    scales: tuple[float, float, float]

    @classmethod
    def of(cls, dim: int, *, clipped: bool = True) -> "Question":
        """The question for rows of `dim` numbers; `clipped=False` is for runs without noise."""
        if not clipped:
            return cls(math.inf, 1.0, (1.0, 1.0, 1.0))
        radius = math.sqrt(dim) + _REACH
        square = radius**2
        expected = float(chi2.cdf(square, dim + 2) + square / dim * chi2.sf(square, dim))
        # |x x' - e I|^2 is convex in |x|^2, so it is largest at the center or at the border
        spread = math.sqrt(square**2 - 2 * expected * square + expected**2 * dim)
        spread = max(spread, expected * math.sqrt(dim))
        # to second order, noise of deviation s costs s^2 / 2 for the logarithm of a weight, s^2 / 2
        # for each whitened coordinate of a mean and s^2 / 4 for each entry of a whitened covariance
        lengths = np.array([1.0, radius, spread])
        costs = np.array([1 / 2, dim / 2, dim * (dim + 1) / 8])
        scales = np.sqrt(np.sqrt(costs) / lengths)
        scales *= _BELOW_ONE / np.linalg.norm(scales * lengths)
        return cls(radius, expected, (float(scales[0]), float(scales[1]), float(scales[2])))


def local_sums(rows: Rows, mixture: Mixture, question: Question) -> Sums:
    """The sums over all rows, scaled so that no row's share is longer than 1 in L2, all together.

    A row's share is its responsibilities times (1, place, place place' - expected I), scaled. The
    responsibilities are at least 0 and add up to at most 1, so the share is no longer than that of
    the worst component alone, and that is at most 1 by the choice of the scales.
    """
    k, dim = mixture.means.shape
    counts, shifts, products = np.zeros(k), np.zeros((k, dim)), np.zeros((k, dim, dim))
    for log_joint, places in _blocks(rows, mixture):
        for component, share, place in _active(_responsibilities(log_joint), places):
            length = np.sqrt(np.einsum("ni,ni->n", place, place))
            place *= np.minimum(1.0, question.radius / np.maximum(length, 1e-300))[:, None]
            weighted = place * share[:, None]
            counts[component] += share.sum()
            shifts[component] += weighted.sum(axis=0)
            products[component] += weighted.T @ place
    products -= question.expected * counts[:, None, None] * np.eye(dim)
    one, two, three = question.scales
    return Sums(one * counts, two * shifts, three * _to_triangle(products))


def _responsibilities(log_joint: np.ndarray) -> np.ndarray:
    shares = np.exp(log_joint - log_joint.max(axis=1, keepdims=True))
    return shares / shares.sum(axis=1, keepdims=True)


def _active(shares: np.ndarray, places: np.ndarray) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """Component by component, the rows that it has a share in; copies."""
    for component in range(shares.shape[1]):
        rows = np.flatnonzero(shares[:, component] > _NEGLIGIBLE)
        yield component, shares[rows, component], places[rows, component]


@dataclass(frozen=True)
class Belief:
    """A mixture, and how far it is to be believed. All of it follows from releases.

    Attributes:
        mixture: The mixture.
        counts: Records of each component.
        doubt: Squared relative error of each component that is thought possible.
        noise: Squared relative error of each covariance that the noise so far has left.
        settled: Whether the last step left all variances in place, give or take a half.
    """

    mixture: Mixture
    counts: Float[np.ndarray, " k"]
    doubt: Float[np.ndarray, " k"]
    noise: Float[np.ndarray, " k"]
    settled: bool = False


def start(dim: int, spread: float) -> Belief:
    """One round Gaussian in the middle of the domain, with standard deviation `spread`."""
    mixture = Mixture(np.ones(1), np.zeros((1, dim)), spread * np.eye(dim)[None])
    return Belief(mixture, np.zeros(1), np.full(1, _DOUBT_OF_START), np.zeros(1))


def updated(
    belief: Belief, sums: Sums, question: Question, *, noise_stddev: float, cooled: int
) -> Belief:
    """The belief after noisy sums about its mixture.

    Args:
        belief: What was known when the question was asked.
        sums: The answer, as released.
        question: How it was asked.
        noise_stddev: Standard deviation of the noise in every number of `sums`; 0 for none.
        cooled: Steps since the last component was added: EM moves less and less.
    """
    k, dim = belief.mixture.means.shape
    scales = question.scales
    floor = noise_stddev / scales[0] + 1e-9  # a count below its noise is none
    counted = sums.counts / scales[0]
    reference = np.maximum(np.maximum(belief.counts, counted), floor)
    gain = _gain(belief.doubt, noise_stddev / scales[0] / reference)
    counts = np.maximum(belief.counts + gain * (counted - belief.counts), floor)

    # relative noise of a mean and, as the root mean square of eigenvalues, of a covariance
    mean_noise = noise_stddev / scales[1] / counts
    spread_noise = noise_stddev / scales[2] / question.expected / counts * math.sqrt((dim + 1) / 2)
    mean_gain, spread_gain = _gain(belief.doubt, mean_noise), _gain(belief.doubt, spread_noise)
    shifts = sums.shifts / scales[1] / counts[:, None]
    change = _from_triangle(sums.spreads / scales[2], dim) / counts[:, None, None]
    change = change / question.expected - shifts[:, :, None] * shifts[:, None, :]
    values, vectors = np.linalg.eigh(np.eye(dim) + spread_gain[:, None, None] * change)

    factors = belief.mixture.factors
    means = belief.mixture.means + np.einsum("kij,kj->ki", factors, mean_gain[:, None] * shifts)
    roots = factors @ (vectors * np.sqrt(np.clip(values, *_STEP))[:, None, :])
    drift = _DRIFT * _COOLING**cooled
    return Belief(
        mixture=Mixture(counts / counts.sum(), means, _factors(roots)),
        counts=counts,
        doubt=(1 - spread_gain) * belief.doubt + drift,
        noise=((1 - spread_gain) ** 2) * belief.noise + (spread_gain * spread_noise) ** 2,
        settled=bool(np.all(values > 0.5)),
    )


def _gain(doubt: np.ndarray, noise: np.ndarray) -> np.ndarray:
    return doubt / (doubt + noise**2)


def _factors(roots: np.ndarray) -> np.ndarray:
    covariances = roots @ np.swapaxes(roots, 1, 2)
    return np.linalg.cholesky(covariances + _SMALLEST_VARIANCE * np.eye(roots.shape[1]))


def grown(belief: Belief, num_components: int) -> Belief:
    """The belief with more components: the one that spreads most mass furthest is cut in two."""
    weights, means = list(belief.mixture.weights), list(belief.mixture.means)
    covariances = list(belief.mixture.covariances)
    parents = list(range(len(weights)))
    doubt = belief.doubt.copy()
    while len(weights) < num_components:
        axes = [np.linalg.eigh(covariance) for covariance in covariances]
        chosen = int(np.argmax([w * v[-1] for w, (v, _) in zip(weights, axes, strict=True)]))
        values, vectors = axes[chosen]
        away = _SPLIT * math.sqrt(values[-1]) * vectors[:, -1]
        weights[chosen] /= 2
        covariances[chosen] = covariances[chosen] - np.outer(away, away)
        weights.append(weights[chosen])
        covariances.append(covariances[chosen])
        means.append(means[chosen] - away)
        means[chosen] = means[chosen] + away
        parents.append(parents[chosen])
        doubt[parents[chosen]] = max(doubt[parents[chosen]], _DOUBT_OF_HALVES)
    mixture = Mixture(np.array(weights), np.array(means), np.linalg.cholesky(np.array(covariances)))
    counts = mixture.weights * belief.counts.sum()
    return Belief(mixture, counts, doubt[parents], belief.noise[parents])


def cautious(belief: Belief) -> Mixture:
    """The mixture to publish: wider where noise may have made it too narrow."""
    wider = np.sqrt(1 + _CAUTION * belief.noise)
    return replace(belief.mixture, factors=belief.mixture.factors * wider[:, None, None])


def sizes(num_components: int, iterations: int) -> tuple[int, ...]:
    """How many components each iteration has: 1, 2, 4, ... for half of them, then all."""
    stages = [1]
    while stages[-1] < num_components:
        stages.append(min(2 * stages[-1], num_components))
    each = max(1, iterations // (2 * len(stages)))
    plan = [size for size in stages for _ in range(each)]
    plan += [num_components] * max(0, iterations - len(plan))
    return tuple(plan[-iterations:])


def _to_triangle(matrices: np.ndarray) -> np.ndarray:
    rows, columns = np.triu_indices(matrices.shape[1])
    return matrices[:, rows, columns] * np.where(rows == columns, 1.0, math.sqrt(2))


def _from_triangle(triangles: np.ndarray, dim: int) -> np.ndarray:
    rows, columns = np.triu_indices(dim)
    matrices = np.empty((len(triangles), dim, dim))
    matrices[:, rows, columns] = triangles / np.where(rows == columns, 1.0, math.sqrt(2))
    matrices[:, columns, rows] = matrices[:, rows, columns]
    return matrices
