"""A trained flow beside what is known of its target: its constant and draws of an exact sampler.

The numbers of `vf.expm.diagnose`, and two more that need a grid. As there, every number is computed
from the records: here they are generated.
"""

import math
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jaxtyping import Float, PyTree
from scipy.stats import ks_2samp

import veilflow as vf
from veilflow.engine import Secret
from veilflow.flows import Flow

_LARGE_GAP = 0.02
"""In nats: by Pinsker's inequality, a total variation of up to 0.1."""
_SMALL_P = 0.01


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
class Known:
    """What was measured of a flow whose target is known, and what speaks against it."""

    diagnosis: vf.expm.Diagnosis
    gap: float
    """What the mean log weight is below the known constant: the reverse divergence itself."""
    comparison: Comparison

    @property
    def objections(self) -> tuple[str, ...]:
        """What speaks against the flow. No objection proves nothing."""
        found = [*self.diagnosis.objections]
        if not self.gap <= _LARGE_GAP:
            found.append(f"the divergence is {self.gap:.3f} nats, above {_LARGE_GAP}")
        if not self.comparison.p_value >= _SMALL_P:
            p_value = self.comparison.p_value
            found.append(f"the exact sampler's draws differ, with a p-value of {p_value:.3g}")
        return tuple(found)


def diagnose(
    flow: Flow,
    target: vf.expm.Target,
    records: PyTree,
    *,
    secret: Secret,
    log_z: float,
    exact: Float[np.ndarray, "draws dim"],
    num: int = 1_000,
) -> Known:
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
    found = vf.expm.diagnose_flow(flow, target, records, secret=secret, draws=num)
    keys = jax.random.split(secret.key("compare"), num)
    thetas = np.asarray(jax.jit(jax.vmap(flow.sample))(keys), np.float64)
    return Known(
        diagnosis=found, gap=log_z - found.importance.mean_log, comparison=compare(thetas, exact)
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
