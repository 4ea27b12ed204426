"""The log-likelihood as a surface, known from noisy values at points: post-processing.

The model is kriging: a quadratic trend, whose slope the rounds have released as well, plus a Gaussian
process for whatever is not quadratic. Its amplitude and length are weighted by their evidence, and an
amplitude of zero is among them: where the values tell of nothing but a quadratic, the surface is one.

A surface is not certain, and the posterior should not pretend that it is. So `draw_surfaces` returns
several that are all plausible given the values, as functions; the posterior is the average of what each
of them implies.

References:
    Rasmussen, Williams, "Gaussian processes for machine learning", 2006; Acerbi, "Variational Bayesian
    Monte Carlo with noisy likelihoods", 2020; Wilson et al., "Efficiently sampling functions from
    Gaussian process posteriors", 2020.
"""

import dataclasses
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.linalg import cho_solve, cholesky

_AMPLITUDES = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
"""Of the deviation from the quadratic, in nats. If 0, there is none."""
_LENGTHS = (1.0, 1.6, 2.5, 4.0, 6.5, 10.0, 16.0)
"""Over which the deviation changes, in standard deviations of the quadratic."""
_CURVATURE = 0.3
"""Prior standard deviation of the curvatures, which are about 1 in these coordinates."""
_BENT = 0.5
"""The same where the surface deviates from the quadratic."""
_SLOPE = 2.0
"""The same of its slope at the origin; a deviation that is small bends the slope less."""
_CONSTANT = 1e3
"""Prior standard deviation of the constant of each round of values."""
_DEPTH, _LOOSE = 10.0, 0.3
"""Values lower than the highest by more than this are known only up to a share of the rest: how deep
a valley is does not matter to the posterior, and a smooth surface should not be bent to follow it."""
_FREQUENCIES = 128

Points = Float[np.ndarray, "points dim"]


class Surfaces(eqx.Module):
    """Functions of coordinates, as many as the arrays are long."""

    trend: Float[Array, "surfaces features"]
    frequencies: Float[Array, "surfaces frequencies dim"]
    phases: Float[Array, "surfaces frequencies"]
    heights: Float[Array, "surfaces frequencies"]
    points: Float[Array, "points dim"]
    weights: Float[Array, "surfaces points"]
    lengths: Float[Array, " surfaces"]
    offsets: Float[Array, " surfaces"]

    def __call__(self, u: Float[Array, "surfaces draws dim"]) -> Float[Array, "surfaces draws"]:
        """Each surface at its own draws."""
        trend = jnp.einsum("sdf,sf->sd", _features(u), self.trend)
        waves = jnp.einsum("sdk,smk->sdm", u, self.frequencies) + self.phases[:, None]
        waves = jnp.einsum("sdm,sm->sd", jnp.cos(waves), self.heights)
        scaled = u / self.lengths[:, None, None]
        points = self.points[None] / self.lengths[:, None, None]
        cross = jnp.einsum("sdk,spk->sdp", scaled, points)
        squares = jnp.sum(scaled**2, 2)[:, :, None] + jnp.sum(points**2, 2)[:, None]
        kernel = jnp.exp(-0.5 * jnp.maximum(squares - 2 * cross, 0.0))
        return (
            trend + waves + jnp.einsum("sdp,sp->sd", kernel, self.weights) - self.offsets[:, None]
        )

    def repeated(self, count: int) -> "Surfaces":
        """A single surface, as if it were several."""
        repeated = {
            field.name: jnp.repeat(getattr(self, field.name), count, axis=0)
            for field in dataclasses.fields(self)
            if field.name != "points"
        }
        return Surfaces(points=self.points, **repeated)


@dataclass(frozen=True)
class Known:
    """What was released of the log-likelihood, in coordinates.

    Attributes:
        gradient: At the origin, by the rounds.
        precision: Minus the second derivative there.
        noise: Covariance of the noise in `gradient`.
        points: Where values are known.
        values: The values, up to a constant for each round.
        deviations: Standard deviation of the noise in each.
        rounds: The round of each value.
    """

    gradient: Float[np.ndarray, " dim"]
    precision: Float[np.ndarray, "dim dim"]
    noise: Float[np.ndarray, "dim dim"]
    points: Points
    values: Float[np.ndarray, " points"]
    deviations: Float[np.ndarray, " points"]
    rounds: Float[np.ndarray, " points"]


class _Fit(NamedTuple):
    """A Gaussian process of one amplitude and length, given the values."""

    amplitude: float
    length: float
    mean: Float[np.ndarray, " features"]
    root: Float[np.ndarray, "features features"]
    smooth: Float[np.ndarray, "points points"]
    chol: Float[np.ndarray, "points points"]
    solved: Float[np.ndarray, " points"]
    expected: Float[np.ndarray, " points"]
    evidence: float


def draw_surfaces(
    known: Known, count: int, rng: np.random.Generator, *, padded: int
) -> tuple[Surfaces, Surfaces]:
    """Plausible surfaces, and the one that is expected.

    Args:
        known: What was released.
        count: The number of surfaces.
        rng: Public randomness.
        padded: The number of points for which arrays are made, so that programs are compiled once.
    """
    best = max(_fits(known, known.deviations), key=lambda fit: fit.evidence)
    deviations = _loosened(known, best.expected)
    fits = _fits(known, deviations)
    best = max(fits, key=lambda fit: fit.evidence)
    odds = np.exp([fit.evidence - best.evidence for fit in fits])
    relevant = np.exp(best.expected - best.expected.max())
    features = _features_of(known.points)
    # every round's constant is drawn as well: what is left belongs to the values
    constants = _CONSTANT * rng.standard_normal((count, int(known.rounds.max()) + 1))
    drawn: list[dict[str, Any]] = []
    for i, constant in zip(
        rng.choice(len(fits), count, p=odds / odds.sum()), constants, strict=True
    ):
        fit = fits[i]
        trend = fit.mean + fit.root @ rng.standard_normal(len(fit.mean))
        frequencies = rng.standard_normal((_FREQUENCIES, known.points.shape[1])) / fit.length
        phases = rng.uniform(0, 2 * np.pi, _FREQUENCIES)
        heights = fit.amplitude * (2 / _FREQUENCIES) ** 0.5 * rng.standard_normal(_FREQUENCIES)
        prior = features @ trend + np.cos(known.points @ frequencies.T + phases) @ heights
        noise = constant[known.rounds] + deviations * rng.standard_normal(len(prior))
        solved = cho_solve((fit.chol, True), known.values - prior - noise)
        # a constant means nothing: surfaces agree where it matters
        offset = relevant @ (prior + fit.smooth @ solved - best.expected) / relevant.sum()
        waves = {"frequencies": frequencies, "phases": phases, "heights": heights}
        drawn.append(_one(fit, trend, solved, features, padded) | waves | {"offsets": offset})
    one = _one(best, best.mean, best.solved, features, padded)
    still = {name: np.zeros_like(drawn[0][name]) for name in ("frequencies", "phases", "heights")}
    points = jnp.float32(np.pad(known.points, [(0, padded - len(features)), (0, 0)]))
    return _stacked(drawn, points), _stacked([one | still | {"offsets": 0.0}], points)


def _one(fit: "_Fit", trend: Any, solved: Any, features: Any, padded: int) -> dict[str, Any]:
    """The part of a surface that follows from the values."""
    return {
        "trend": trend + fit.root @ (fit.root.T @ (features.T @ solved)),
        "weights": np.pad(fit.amplitude**2 * solved, (0, padded - len(solved))),
        "lengths": fit.length,
    }


def _stacked(parts: list[dict[str, Any]], points: Any) -> Surfaces:
    arrays = {name: jnp.float32(np.array([part[name] for part in parts])) for name in parts[0]}
    return Surfaces(points=points, **arrays)


def _loosened(known: Known, expected: Float[np.ndarray, " points"]) -> Float[np.ndarray, " points"]:
    """Deviations of the values, larger where they are too low to matter."""
    # by the value itself where it is higher: what looks deep to a poor fit may be another mode
    precisions = (known.rounds[:, None] == known.rounds) / known.deviations**2
    constants = precisions @ (known.values - expected) / precisions.sum(axis=1)
    height = np.maximum(expected, known.values - constants)
    top = (expected - known.deviations).max()
    below = np.maximum(top - height - _DEPTH, 0.0)
    return np.hypot(known.deviations, _LOOSE * below)


def _fits(known: Known, deviations: Float[np.ndarray, " points"]) -> list[_Fit]:
    """All amplitudes and lengths."""
    features = _features_of(known.points)
    constants = _CONSTANT**2 * (known.rounds[:, None] == known.rounds)
    squares = ((known.points[:, None] - known.points) ** 2).sum(axis=2)
    dim = known.points.shape[1]
    fits: list[_Fit] = []
    for amplitude, length in product(_AMPLITUDES, _LENGTHS):
        if not amplitude and length > _LENGTHS[0]:
            continue
        mean = _trend_of(known, bent=amplitude > 0)
        residual = known.values - features @ mean
        covariance = np.zeros((len(mean), len(mean)))
        covariance[:dim, :dim] = known.noise
        covariance[:dim, :dim] += min(amplitude, _SLOPE) ** 2 * np.eye(dim)
        curvature = _CURVATURE if not amplitude else _BENT
        covariance[dim:, dim:] = curvature**2 * np.eye(len(mean) - dim)
        root = np.linalg.cholesky(covariance + 1e-12 * np.eye(len(mean)))
        smooth = (features @ root) @ (features @ root).T
        smooth += amplitude**2 * np.exp(-0.5 * squares / length**2)
        total = smooth + constants + np.diag(deviations**2 + 1e-6)
        chol = cholesky(total, lower=True)
        solved = cho_solve((chol, True), residual)
        # as likely as all amplitudes together, lest chance find a shape
        prior = -np.log(len(_AMPLITUDES) - 1) - np.log(len(_LENGTHS)) if amplitude else 0.0
        evidence = prior - 0.5 * residual @ solved - np.log(np.diag(chol)).sum()
        expected = features @ mean + smooth @ solved
        parts = (mean, root, smooth, chol, solved, expected, float(evidence))
        fits.append(_Fit(amplitude, length, *parts))
    return fits


def _trend_of(known: Known, *, bent: bool) -> Float[np.ndarray, " features"]:
    rows, columns = np.triu_indices(len(known.gradient))
    # a valley or a ridge between modes is not as steep as each of them
    curvature = known.precision[rows, columns] * (0.5 if bent else 1.0)
    return np.append(known.gradient, curvature)


def _features(u: Float[Array, "surfaces draws dim"]) -> Float[Array, "surfaces draws features"]:
    rows, columns = np.triu_indices(u.shape[-1])
    scale = jnp.float32(np.where(rows == columns, -0.5, -1.0))
    return jnp.concatenate([u, u[..., rows] * u[..., columns] * scale[None, None]], axis=-1)


def _features_of(u: Points) -> Float[np.ndarray, "points features"]:
    rows, columns = np.triu_indices(u.shape[1])
    scale = np.where(rows == columns, -0.5, -1.0)
    return np.concatenate([u, u[:, rows] * u[:, columns] * scale], axis=1)
