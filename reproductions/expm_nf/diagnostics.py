"""How far a trained flow is from its target, in numbers that nobody has paid for.

Every number here is computed from the records. A choice made by it on private records would be one
more release, and no bound on epsilon follows from a good number: it would have to hold for all
neighboring data sets, too.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree
from scipy.stats import ks_2samp

import veilflow as vf
from reproductions.expm_nf.discrepancy import pareto_k, stein_discrepancy
from veilflow.engine import Secret
from veilflow.flows import Flow

_LARGE_K = 0.7
"""Pareto-k above which importance weights are not to be believed (Vehtari and others, 2024)."""
_SMALL_SHARE = 0.9
"""Least effective share of draws: a chi-squared divergence of 0.11, a total variation up to 0.17."""
_LARGE_GAP = 0.02
"""In nats: by Pinsker's inequality, a total variation of up to 0.1."""
_SMALL_P = 0.01


@dataclass(frozen=True, kw_only=True)
class Importance:
    """Importance weights, target over flow, of draws from the flow.

    They see where the flow has mass. A part of the target that the flow leaves out altogether shows
    in none of them, only in a `gap` to a known normalizing constant.
    """

    effective_share: float
    """Effective sample size over the number of draws: 1 for equal weights."""
    pareto_k: float
    """Shape of the weights' tail: above 0.7 not even their mean can be trusted."""
    log_z: float
    """Log mean weight: an estimate of the log of the target's normalizing constant."""
    gap: float
    """What the mean log weight is below the known constant: the reverse divergence itself."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Draws of a sampler beside draws of an exact one, coordinate by coordinate."""

    distances: tuple[float, ...]
    """Total variation between the histograms of each coordinate."""
    chance: float
    """What two sets of draws from one distribution would differ by, about."""
    p_value: float
    """The p-value of the largest Kolmogorov-Smirnov distance, times the number of coordinates."""


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """All that was measured of a flow, and what speaks against it. Nothing is no proof."""

    importance: Importance
    stein: float
    """The p-value of the kernelized Stein discrepancy between draws and target."""
    comparison: Comparison

    @property
    def objections(self) -> tuple[str, ...]:
        """What speaks against the flow."""
        return tuple(_objections(self.importance, self.stein, self.comparison))


def diagnose(
    flow: Flow,
    target: vf.expm.Target,
    records: PyTree,
    *,
    secret: Secret,
    log_z: float,
    exact: Float[np.ndarray, "draws dim"],
    num: int = 1_000,
) -> Diagnosis:
    """Hold a trained flow against its target.

    Args:
        flow: As `FlowSampler.fit` trains it.
        target: What it was trained towards.
        records: The same records.
        secret: Source of the draws.
        log_z: Log of the integral of prior times weight, from a grid.
        exact: Draws of an exact sampler on the same problem.
        num: How many draws; the Stein discrepancy takes time by its square.
    """
    keys = jax.random.split(secret.key("diagnose"), num)
    thetas, log_flow = (np.asarray(x, np.float64) for x in _draws(flow, keys))
    rng = np.random.default_rng(secret.words("stein bootstrap", 0, 4).ravel().tolist())
    _, p_value = stein_discrepancy(thetas, scores(target, thetas, records), rng=rng)
    return Diagnosis(
        importance=importance(log_target(target, thetas, records) - log_flow, log_z=log_z),
        stein=p_value,
        comparison=compare(thetas, exact),
    )


def log_target(
    target: vf.expm.Target, thetas: Float[np.ndarray, "num dim"], records: PyTree
) -> Float[np.ndarray, " num"]:
    """Prior times weight by the exact sums of losses, in logarithms, unnormalized."""
    prior = np.asarray(jax.vmap(target.prior.log_prob)(jnp.asarray(thetas)), np.float64)
    return prior - target.rate * target.losses(thetas, records)


def scores(
    target: vf.expm.Target, thetas: Float[np.ndarray, "num dim"], records: PyTree
) -> Float[np.ndarray, "num dim"]:
    """Gradients of the target's log-density."""
    data = jax.tree.map(jnp.asarray, records)
    return np.asarray(_scores(target, jnp.asarray(thetas, jnp.float32), data), np.float64)


def importance(log_weights: Float[np.ndarray, " num"], *, log_z: float) -> Importance:
    """Effective sample size, tail and bounds from log weights.

    Args:
        log_weights: Unnormalized, of draws from the flow.
        log_z: Log of the target's normalizing constant.
    """
    top = log_weights.max()
    weights = np.exp(log_weights - top)
    return Importance(
        effective_share=float(weights.sum() ** 2 / np.square(weights).sum() / len(weights)),
        pareto_k=pareto_k(weights),
        log_z=float(top + np.log(weights.mean())),
        gap=log_z - float(log_weights.mean()),
    )


def compare(
    thetas: Float[np.ndarray, "num dim"],
    exact: Float[np.ndarray, "others dim"],
    *,
    bins: int = 20,
) -> Comparison:
    """Draws beside those of an exact sampler, in bins that are equally likely to the latter."""
    inner = np.quantile(exact, np.linspace(0, 1, bins + 1)[1:-1], axis=0).T

    def shares(points: Float[np.ndarray, " draws"], edges: Float[np.ndarray, " inner"]):
        counts = np.bincount(np.searchsorted(edges, points), minlength=bins)
        return counts / len(points)

    distances = [
        0.5 * np.abs(shares(a, edges) - shares(b, edges)).sum()
        for a, b, edges in zip(thetas.T, exact.T, inner, strict=True)
    ]
    # a bin's share varies by p (1 - p) / n in each set, and a normal is sqrt(2 / pi) deviations out
    variance = (1 / bins) * (1 - 1 / bins) * (1 / len(thetas) + 1 / len(exact))
    pairs = zip(thetas.T, exact.T, strict=True)
    tests: list[Any] = [ks_2samp(a, b) for a, b in pairs]
    least = min(float(test.pvalue) for test in tests)
    return Comparison(
        distances=tuple(map(float, distances)),
        chance=0.5 * bins * math.sqrt(2 / math.pi * variance),
        p_value=min(1.0, least * thetas.shape[1]),
    )


def _objections(found: Importance, stein: float, comparison: Comparison) -> Iterator[str]:
    if not found.pareto_k <= _LARGE_K:
        yield f"pareto_k {found.pareto_k:.2f} is above {_LARGE_K}"
    if not found.effective_share >= _SMALL_SHARE:
        yield f"effective_share {found.effective_share:.3f} is below {_SMALL_SHARE}"
    if not found.gap <= _LARGE_GAP:
        yield f"the divergence is {found.gap:.3f} nats, above {_LARGE_GAP}"
    if not stein >= _SMALL_P:
        yield f"the Stein discrepancy has a p-value of {stein:.3f}, below {_SMALL_P}"
    if not comparison.p_value >= _SMALL_P:
        yield f"the exact sampler's draws differ, with a p-value of {comparison.p_value:.3g}"


@eqx.filter_jit
def _draws(flow: Flow, keys: Array) -> tuple[Array, Array]:
    return jax.vmap(flow.sample_and_log_prob)(keys)


@partial(jax.jit, static_argnums=0)
def _scores(target: vf.expm.Target, thetas: Array, records: PyTree) -> Array:
    return jax.vmap(jax.grad(target.log_density), (0, None))(thetas, records)
