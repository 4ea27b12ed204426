"""DP-EM: a mixture of normals by noisy expectation-maximization, as one entry of a plan.

The number of components goes from one to twice as many as requested and back (`sizes`). A single
normal needs no good starting point. Components are split along their longest axis until there are
twice too many, so that no cluster is left without one, and are then merged where that loses least.
Splitting and merging are functions of released parameters alone.
"""

# NumPy leaves some results open
# pyright: reportUnknownVariableType=false

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import jax
import numpy as np
from jaxtyping import Float

from veilflow._core import check
from veilflow.privacy.budget import Budget
from veilflow.privacy.events import Event, Gaussian, NonPrivate, Repeated
from veilflow.privacy.guarantees import ClippedSum, Released, Sensitive
from veilflow.privacy.ledger import Ledger
from veilflow.privacy.mechanisms import gaussian_once
from veilflow.releases import em
from veilflow.releases.em import Belief, Mixture
from veilflow.releases.release import Release, Tools
from veilflow.releases.rows import finite

_FAR = 1e15
_NOISE = (1e-2, 1e6)
"""Range of noise multipliers that is searched."""
_MOST_STEPS = 100_000
"""Each step has its own noise, so without a limit a file could demand any amount of memory."""
_CUT = 0.8
"""Distance of the means of two halves from the cut, in standard deviations."""
_DOUBT_OF_HALVES, _DOUBT_OF_PAIRS = 0.25, 0.1
"""Squared relative error of components that were just split, and just merged."""
_MOST_TRIED = 1000
"""Components at most, where their number follows from that of the records: each is tried out."""
_LEAST = 2
"""Components at least, where their number follows from that of the records."""
_ABOVE_ONE = 1 + 1e-12
"""Margin for rounding: the steps never cost more than their price says."""
_FIRST = 6
"""One of this many steps is spent on the single normal."""


@dataclass(frozen=True, kw_only=True)
class ExpectationMaximization(Release):
    """A mixture of normals.

    Guarantee:
        One Gaussian mechanism a step with its noise multiplier, for add/remove of one row, whatever
        the rows are and whatever earlier steps released. The squared inverse multipliers of all
        steps have a fixed sum, and Gaussian mechanisms compose by this sum alone. So the price is
        the same however the steps share it, and the number of components, which decides that, may
        follow from a number of records that was released before.

    Attributes:
        dim: Number of columns.
        num_components: Components of the mixture; the most, where their number follows from the
            number of records.
        steps: Steps of expectation-maximization; each is one mechanism.
        spread: Standard deviation of a column a priori. Rows are centered at about zero, and one that
            is not finite counts as zero.
        noise_multiplier: All steps together cost as much as `steps` mechanisms with this multiplier;
            0 without privacy.
        records_per_component: If given, there is one component for so many records, and `run` needs
            their declared or released number.
    """

    purpose: str = "mixture"
    dim: int
    num_components: int
    steps: int
    spread: float
    noise_multiplier: float
    records_per_component: float | None = None

    def __post_init__(self) -> None:
        check.count(dim=self.dim, num_components=self.num_components, steps=self.steps)
        if self.steps > _MOST_STEPS:
            raise ValueError(f"steps must be at most {_MOST_STEPS}, got {self.steps}.")
        if self.records_per_component is None:
            return
        check.positive(records_per_component=self.records_per_component)
        if self.num_components > _MOST_TRIED:
            raise ValueError(f"num_components must be at most {_MOST_TRIED} there.")

    def noise_multipliers(self, num_components: int) -> tuple[float, ...]:
        """One for each step, with less noise where more components share the records."""
        share = np.sqrt(np.array(sizes(num_components, self.steps), np.float64))
        noise = self.noise_multiplier / np.sqrt(share / share.mean())
        return tuple((_ABOVE_ONE * noise).tolist())

    def components(self, num_records: float | None) -> int:
        """The number of components for a declared or released number of records."""
        if self.records_per_component is None:
            return self.num_components
        if num_records is None:
            raise ValueError("the number of components follows from num_records. Give it.")
        enough = round(max(num_records, 0.0) / self.records_per_component)
        return min(max(enough, _LEAST), self.num_components)

    @property
    def event(self) -> Event:
        if not self.noise_multiplier:
            return NonPrivate()
        return Repeated(self.steps, Gaussian(self.noise_multiplier))

    @property
    def num_draws(self) -> int:
        if not self.noise_multiplier:
            return 0
        return max(sum(sizes(k, self.steps)) for k in self._possible) * self._numbers

    @property
    def grids(self) -> tuple[tuple[float, int], ...]:
        # there are more components before the end
        most = max(max(sizes(k, self.steps)) for k in self._possible)
        noise = max(max(self.noise_multipliers(k)) for k in self._possible)
        return ((noise, most * self._numbers),)

    @property
    def _possible(self) -> range:
        """All numbers of components that a run may have."""
        if self.records_per_component is None:
            return range(self.num_components, self.num_components + 1)
        return range(min(_LEAST, self.num_components), self.num_components + 1)

    @property
    def rounds(self) -> int:
        return self.steps

    @property
    def _numbers(self) -> int:
        """Released for each component."""
        return 1 + self.dim + self.dim * (self.dim + 1) // 2

    def priced(self, budget: Budget, others: Ledger) -> Self:
        return self._with_least_noise(budget, others, bracket=_NOISE)

    def run(
        self,
        records: Sensitive[Float[np.ndarray, "rows dim"]],
        tools: Tools,
        *,
        num_records: float | None = None,
    ) -> Released[dict[str, Any]]:
        """Ask in steps; `num_records` is declared or released."""
        num_components = self.components(num_records)
        # so that no square overflows
        rows = records.map(lambda x: np.clip(finite(x), -_FAR, _FAR))
        belief, age = em.first_belief(self.dim, self.spread), 0
        noises = self.noise_multipliers(num_components)
        plan = zip(sizes(num_components, self.steps), noises, strict=True)
        for step, (size, noise_multiplier) in enumerate(plan):
            age = age + 1 if size == len(belief.counts) and step else 0
            belief = resized(belief, size)
            question = em.Question.for_counts(belief.counts, self.dim, noise_multiplier)
            sums = em.local_sums(rows.open(), belief.mixture, question)
            noisy = gaussian_once(
                ClippedSum(sums, clip_norm=1.0),
                noise_multiplier=noise_multiplier,
                secret=tools.secret,
                purpose="mixture",
                index=step,
            ).value
            belief = em.updated(belief, noisy, question, noise_stddev=noise_multiplier, age=age)
            tools.monitor(step + 1)
        mixture = em.cautious(belief)._asdict()
        return Released({**mixture, "num_records": float(belief.counts.sum())}, self.event)

    def result(self, value: dict[str, Any]) -> tuple[em.Mixture, float]:
        """The mixture, and the estimated number of records."""
        return em.Mixture(value["weights"], value["means"], value["factors"]), value["num_records"]


def sizes(num_components: int, steps: int) -> tuple[int, ...]:
    """The number of components at each of `steps` steps."""
    if num_components == 1:
        return (1,) * steps
    most, plan = 2 * num_components, [1] * max(1, steps // _FIRST)
    while plan[-1] < most:
        plan.append(min(2 * plan[-1], most))
    plan += [most] + [num_components] * max(1, steps - len(plan) - 1)
    return tuple(plan[-steps:])  # its end, if there are too few steps for all of it


def resized(belief: Belief, num_components: int) -> Belief:
    """The belief with this many components, by splitting or merging."""
    while len(belief.counts) < num_components:
        belief = _split(belief)
    while len(belief.counts) > num_components:
        belief = _merged(belief)
    return belief


def _split(belief: Belief) -> Belief:
    """Split the component with the largest weighted variance into two halves."""
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


def _merged(belief: Belief) -> Belief:
    """Merge the two components whose union is closest to a normal, preserving its moments.

    The distance is Runnalls' bound on the divergence (2007): half of the increase of the weighted log
    determinants.
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
    merged = Belief(
        mixture=Mixture(
            weight[[best]],
            _mean(part, mixture.means[[a]], mixture.means[[b]]),
            np.linalg.cholesky(covariances[[best]]),
        ),
        counts=belief.counts[[a]] + belief.counts[[b]],
        doubt=np.maximum(np.maximum(belief.doubt[[a]], belief.doubt[[b]]), _DOUBT_OF_PAIRS),
        noise=part**2 * belief.noise[[a]] + (1 - part) ** 2 * belief.noise[[b]],
    )
    return _together(_without(belief, [a, b]), merged)


def _mean(
    part: Float[np.ndarray, " k"], first: np.ndarray, second: np.ndarray
) -> Float[np.ndarray, "k ..."]:
    part = part.reshape(-1, *(1,) * (first.ndim - 1))
    return part * first + (1 - part) * second


def _log_det(matrices: np.ndarray) -> np.ndarray:
    return np.linalg.slogdet(matrices)[1]


def _without(belief: Belief, left_out: list[int]) -> Belief:
    rest = np.delete(np.arange(len(belief.counts)), left_out)
    return jax.tree.map(partial(np.take, indices=rest, axis=0), belief)


def _together(*beliefs: Belief) -> Belief:
    return jax.tree.map(lambda *values: np.concatenate(values), *beliefs)
