"""How many components EM has at each step: from one to twice as many as asked for, then back.

A single normal needs no good starting point. Components are cut in two along their longest axis until
there are twice too many, so that no cluster is left without one, and then joined where that loses
least. Each is a function of released parameters alone.
"""

import math

import jax
import numpy as np
from jaxtyping import Float

from veilflow.releases.em import Belief, Mixture

_CUT = 0.8
"""Halves of a normal cut in two have their means this many deviations from the cut."""
_DOUBT_OF_HALVES, _DOUBT_OF_PAIRS = 0.25, 0.1
"""Squared relative error of components just cut, and just joined."""
_FIRST = 6
"""One step in so many is spent on the single normal."""


def sizes(num_components: int, steps: int) -> tuple[int, ...]:
    """The number of components at each of `steps` steps."""
    if num_components == 1:
        return (1,) * steps
    most, plan = 2 * num_components, [1] * max(1, steps // _FIRST)
    while plan[-1] < most:
        plan.append(min(2 * plan[-1], most))
    plan += [most] + [num_components] * max(1, steps - len(plan) - 1)
    return tuple(plan[-steps:])  # with too few steps for all of it: its end


def resized(belief: Belief, num_components: int) -> Belief:
    """The belief with this many components, cut or joined from those it has."""
    while len(belief.counts) < num_components:
        belief = _cut(belief)
    while len(belief.counts) > num_components:
        belief = _joined(belief)
    return belief


def _cut(belief: Belief) -> Belief:
    """The component that spreads the most mass the furthest, in two halves."""
    mixture = belief.mixture
    values, vectors = np.linalg.eigh(mixture.covariances)
    i = int(np.argmax(mixture.weights * values[:, -1]))
    away = _CUT * math.sqrt(values[i, -1]) * vectors[i, :, -1]
    factor = np.linalg.cholesky(mixture.covariances[i] - np.outer(away, away))
    halves = [
        Belief(
            mixture=Mixture(mixture.weights[[i]] / 2, mean[None], factor[None]),
            counts=belief.counts[[i]] / 2,
            doubt=np.maximum(belief.doubt[[i]], _DOUBT_OF_HALVES),
            noise=belief.noise[[i]],
        )
        for mean in (mixture.means[i] + away, mixture.means[i] - away)
    ]
    return _together(_without(belief, [i]), *halves)


def _joined(belief: Belief) -> Belief:
    """The two components whose union is closest to a normal, as one with the same moments.

    Closest by Runnalls' bound on the divergence (2007): half of what the weighted log determinants
    grow by.
    """
    mixture = belief.mixture
    i, j = np.triu_indices(len(mixture.weights), 1)
    weight = mixture.weights[i] + mixture.weights[j]
    part = mixture.weights[i] / weight
    apart = mixture.means[i] - mixture.means[j]
    covariances = _mean(part, mixture.covariances[i], mixture.covariances[j])
    covariances += (part * (1 - part))[:, None, None] * apart[:, :, None] * apart[:, None, :]
    logs = mixture.weights * _log_det(mixture.covariances)
    best = int(np.argmin(weight * _log_det(covariances) - logs[i] - logs[j]))
    a, b, part = int(i[best]), int(j[best]), part[[best]]
    joined = Belief(
        mixture=Mixture(
            weight[[best]],
            _mean(part, mixture.means[[a]], mixture.means[[b]]),
            np.linalg.cholesky(covariances[[best]]),
        ),
        counts=belief.counts[[a]] + belief.counts[[b]],
        doubt=np.maximum(np.maximum(belief.doubt[[a]], belief.doubt[[b]]), _DOUBT_OF_PAIRS),
        noise=part**2 * belief.noise[[a]] + (1 - part) ** 2 * belief.noise[[b]],
    )
    return _together(_without(belief, [a, b]), joined)


def _mean(
    part: Float[np.ndarray, " k"], first: np.ndarray, second: np.ndarray
) -> Float[np.ndarray, "k ..."]:
    part = part.reshape(-1, *(1,) * (first.ndim - 1))
    return part * first + (1 - part) * second


def _log_det(matrices: np.ndarray) -> np.ndarray:
    return np.linalg.slogdet(matrices)[1]


def _without(belief: Belief, left_out: list[int]) -> Belief:
    kept = np.delete(np.arange(len(belief.counts)), left_out)
    return jax.tree.map(lambda values: values[kept], belief)


def _together(*beliefs: Belief) -> Belief:
    return jax.tree.map(lambda *values: np.concatenate(values), *beliefs)
