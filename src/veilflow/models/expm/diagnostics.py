"""How far a trained flow is from its target: for whoever holds the records, never for release.

Every number here is computed from the records, and nobody pays for it. A curator may look at it while
she sets things up on data that may be looked at, or to understand a failure. A choice made by it on
private records would be one more release, and no bound on epsilon follows from a good number: it
would have to hold for all neighboring data sets, too.
"""

import math
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, PyTree

from veilflow._core import check
from veilflow._core.keys import Secret
from veilflow.flows import Flow
from veilflow.models.expm.discrepancy import pareto_k, stein_discrepancy
from veilflow.models.expm.smooth import log_densities, on_device
from veilflow.models.expm.target import Target
from veilflow.privacy.guarantees import Sensitive

INTERNAL = "internal: reads private data"
_TOGETHER = 256
"""Parameter vectors whose scores are computed at a time."""
_LARGE_K = 0.7
"""Pareto-k above which importance weights are not to be believed (Vehtari and others, 2024)."""
_SMALL_SHARE = 0.9
"""Of the effective sample size: a chi-squared divergence of 0.11, a total variation of up to 0.17."""
_LARGE_GAP = 0.02
"""In nats: by Pinsker's inequality, a total variation of up to 0.1."""
_SMALL_P = 0.01


@dataclass(frozen=True, kw_only=True)
class Internal:
    """Something that was computed from the records without paying for it, and says so."""

    label: ClassVar[str] = INTERNAL

    def __repr__(self) -> str:
        shown = (f"{f.name}={_shown(getattr(self, f.name))}" for f in fields(self))
        return f"{type(self).__name__}[{self.label}]({', '.join(shown)})"

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values, the label first."""
        return {"label": self.label} | {f.name: _plain(getattr(self, f.name)) for f in fields(self)}


@dataclass(frozen=True, kw_only=True, repr=False)
class Importance(Internal):
    """Importance weights, target over flow, of draws from the flow.

    They see where the flow has mass. A part of the target that the flow leaves out altogether shows
    in none of them, only in a `gap` to a known normalizing constant.
    """

    effective_share: float
    """Effective sample size over the number of draws: 1 for equal weights."""
    pareto_k: float
    """Shape of the weights' tail: above 0.7 not even their mean can be trusted."""
    elbo: float
    """Mean log weight: a lower bound on the log of the target's normalizing constant."""
    log_z: float
    """Log mean weight: an estimate of that constant."""
    gap: float | None
    """What `elbo` is below the constant, where that is known: the reverse divergence itself."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Stein(Internal):
    """Kernelized Stein discrepancy between draws and the target."""

    discrepancy: float
    """Squared, unbiased: around 0 for draws from the target."""
    p_value: float
    """Share of bootstrapped discrepancies that are larger, if the draws were from the target."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Comparison(Internal):
    """Draws of a sampler beside draws of an exact one, coordinate by coordinate."""

    distances: tuple[float, ...]
    """Total variation between the histograms of each coordinate."""
    chance: float
    """What two sets of draws from one distribution would differ by, about."""
    p_value: float
    """Of the largest Kolmogorov-Smirnov distance, times the number of coordinates."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Mixing(Internal):
    """Agreement of chains that began apart."""

    rhat: tuple[float, ...]
    """Split potential scale reduction of every coordinate: 1 where all halves of chains agree."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Diagnosis(Internal):
    """All that was measured of a flow, and what speaks against it."""

    importance: Importance
    stein: Stein
    comparison: Comparison | None
    objections: tuple[str, ...]

    @property
    def is_close(self) -> bool:
        """Whether nothing speaks against the flow. That is no proof."""
        return not self.objections


def diagnose(
    flow: Sensitive[Flow],
    target: Target,
    records: Sensitive[PyTree],
    *,
    secret: Secret,
    num: int = 1_000,
    log_z: float | None = None,
    exact: Float[np.ndarray, "draws dim"] | None = None,
) -> Diagnosis:
    """Hold a trained flow against its target.

    Args:
        flow: As `FlowSampler.fit` returns it.
        target: What it was trained towards.
        records: The same records.
        secret: Source of the draws.
        num: How many draws; the Stein discrepancy takes time by its square.
        log_z: Log of the integral of prior times weight, where a grid or a formula knows it.
        exact: Draws of an exact sampler on the same problem.

    Returns:
        The diagnosis, which is internal.
    """
    check.count(num=num, at_least=100)
    thetas, log_flow = draws(flow.open(), num, key=secret.key("diagnose"))
    data = on_device(records.open())
    log_weights = log_target(target, thetas, records.open()) - log_flow
    found = importance(log_weights, log_z=log_z)
    discrepancy, p_value = stein_discrepancy(
        thetas, scores(target, thetas, data), rng=_generator(secret, "stein bootstrap")
    )
    stein = Stein(discrepancy=discrepancy, p_value=p_value)
    comparison = None if exact is None else compare(thetas, exact)
    objections = tuple(_objections(found, stein, comparison))
    return Diagnosis(importance=found, stein=stein, comparison=comparison, objections=objections)


def draws(
    flow: Flow, num: int, *, key: Key[Array, ""]
) -> tuple[Float[np.ndarray, "num dim"], Float[np.ndarray, " num"]]:
    """Draws from a flow, with their log-densities."""
    thetas, log_flow = _draws(flow, jax.random.split(key, num))
    return np.asarray(thetas, np.float64), np.asarray(log_flow, np.float64)


def log_target(
    target: Target, thetas: Float[np.ndarray, "num dim"], records: PyTree
) -> Float[np.ndarray, " num"]:
    """Prior times weight by the exact sums of losses, in logarithms, unnormalized."""
    prior = np.asarray(jax.vmap(target.prior.log_prob)(jnp.asarray(thetas)), np.float64)
    return prior - target.rate * target.losses(thetas, records)


def scores(
    target: Target, thetas: Float[np.ndarray, "num dim"], records: PyTree
) -> Float[np.ndarray, "num dim"]:
    """Gradients of the target's log-density."""
    parts = [thetas[i : i + _TOGETHER] for i in range(0, len(thetas), _TOGETHER)]
    found = [_scores(target, part.astype(np.float32), records) for part in parts]
    return np.concatenate([np.asarray(part, np.float64) for part in found])


def importance(log_weights: Float[np.ndarray, " num"], *, log_z: float | None = None) -> Importance:
    """Effective sample size, tail and bounds from log weights.

    Args:
        log_weights: Unnormalized, of draws from the flow.
        log_z: Log of the target's normalizing constant, where it is known.
    """
    top = log_weights.max()
    weights = np.exp(log_weights - top)
    elbo = float(log_weights.mean())
    return Importance(
        effective_share=float(weights.sum() ** 2 / np.square(weights).sum() / len(weights)),
        pareto_k=pareto_k(weights),
        elbo=elbo,
        log_z=float(top + np.log(weights.mean())),
        gap=None if log_z is None else log_z - elbo,
    )


def compare(
    thetas: Float[np.ndarray, "num dim"],
    exact: Float[np.ndarray, "others dim"],
    *,
    bins: int = 20,
) -> Comparison:
    """Draws beside those of an exact sampler, in bins that are equally likely to the latter."""
    from scipy.stats import ks_2samp

    if thetas.shape[1] != exact.shape[1]:
        raise ValueError(
            f"draws have {thetas.shape[1]} parameters and exact ones {exact.shape[1]}."
        )
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


def mixing(chains: Sensitive[Float[np.ndarray, "chains steps dim"]]) -> Mixing:
    """How far chains agree, as `HmcSampler.run` returns them.

    Raises:
        ValueError: Chains have fewer than four states.
    """
    states = chains.open()
    half = states.shape[1] // 2
    if half < 2:
        raise ValueError(f"chains must have at least 4 states, got {states.shape[1]}.")
    halves = np.concatenate([states[:, :half], states[:, -half:]]).astype(np.float64)
    within = halves.var(axis=1, ddof=1).mean(axis=0)
    between = halves.mean(axis=1).var(axis=0, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # chains that never moved
        reduction = (half - 1) / half + between / within
    return Mixing(rhat=tuple(map(float, np.sqrt(reduction))))


def _objections(found: Importance, stein: Stein, comparison: Comparison | None):
    if not found.pareto_k <= _LARGE_K:
        yield f"pareto_k {found.pareto_k:.2f} is above {_LARGE_K}"
    if not found.effective_share >= _SMALL_SHARE:
        yield f"effective_share {found.effective_share:.3f} is below {_SMALL_SHARE}"
    if found.gap is not None and not found.gap <= _LARGE_GAP:
        yield f"the divergence is {found.gap:.3f} nats, above {_LARGE_GAP}"
    if not stein.p_value >= _SMALL_P:
        yield f"the Stein discrepancy has a p-value of {stein.p_value:.3f}, below {_SMALL_P}"
    if comparison is not None and not comparison.p_value >= _SMALL_P:
        yield f"the exact sampler's draws differ, with a p-value of {comparison.p_value:.3g}"


@eqx.filter_jit
def _draws(flow: Flow, keys: Array) -> tuple[Array, Array]:
    return jax.vmap(flow.sample_and_log_prob)(keys)


@partial(jax.jit, static_argnums=0)
def _scores(target: Target, thetas: Array, records: PyTree) -> Array:
    return jax.grad(lambda thetas: log_densities(target, thetas, records).sum())(thetas)


def _generator(secret: Secret, purpose: str) -> np.random.Generator:
    return np.random.default_rng(secret.words(purpose, 0, 4).ravel().tolist())


def _plain(value: Any) -> Any:
    if isinstance(value, Internal):
        return value.to_json()
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    # JSON has no word for it
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else repr(value)
