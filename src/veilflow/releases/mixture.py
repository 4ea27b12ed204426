"""A private mixture of normals by expectation-maximization: one Gaussian mechanism a step.

Sound where published DP-EM was not: sensitivities follow from public numbers alone and never from the
records of a component; the number of steps is fixed, with no test of convergence on the data; and
all that a step learns is released together, once.
"""

from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, Self

import numpy as np
from jaxtyping import Float

from veilflow._core import check
from veilflow.privacy import calibration
from veilflow.privacy.budget import Budget
from veilflow.privacy.events import Event, Gaussian, NonPrivate, Repeated, Together
from veilflow.privacy.guarantees import ClippedSum, Released, Sensitive
from veilflow.privacy.ledger import Ledger
from veilflow.privacy.mechanisms import gaussian_once
from veilflow.releases import em
from veilflow.releases.em_growth import resized, sizes
from veilflow.releases.release import Release, Tools
from veilflow.releases.rows import finite

_FAR = 1e15
_NOISE = (1e-2, 1e6)
"""Where the noise multiplier is looked for."""
_MOST_STEPS = 100_000
"""Each has noise of its own, so that a file could ask for any amount of memory."""


@dataclass(frozen=True, kw_only=True)
class ExpectationMaximization(Release):
    """A mixture of normals.

    Guarantee:
        One Gaussian mechanism a step with its noise multiplier, for add/remove of one row, whatever
        the rows are and whatever earlier steps released.

    Attributes:
        dim: Number of columns.
        num_components: Normals in the mixture.
        steps: Of expectation-maximization; each is one mechanism.
        spread: Standard deviation of a column if nothing else is known. Rows are about zero, and one
            that is not finite counts as zero.
        noise_multiplier: All steps together cost as much as so many steps with this; 0 for no noise,
            without privacy.
    """

    purpose: str = "mixture"
    dim: int
    num_components: int
    steps: int
    spread: float
    noise_multiplier: float

    def __post_init__(self) -> None:
        check.count(dim=self.dim, num_components=self.num_components, steps=self.steps)
        if self.steps > _MOST_STEPS:
            raise ValueError(f"steps must be at most {_MOST_STEPS}, got {self.steps}.")

    @property
    def noise_multipliers(self) -> tuple[float, ...]:
        """One for each step: less noise where more components share the records."""
        share = np.sqrt(np.array(sizes(self.num_components, self.steps), np.float64))
        return tuple((self.noise_multiplier / np.sqrt(share / share.mean())).tolist())

    @property
    def event(self) -> Event:
        if not self.noise_multiplier:
            return NonPrivate()
        groups = [(noise, len(list(same))) for noise, same in groupby(self.noise_multipliers)]
        return Together(tuple(Repeated(count, Gaussian(noise)) for noise, count in groups))

    @property
    def num_draws(self) -> int:
        if not self.noise_multiplier:
            return 0
        return sum(sizes(self.num_components, self.steps)) * self._numbers

    @property
    def grids(self) -> tuple[tuple[float, int], ...]:
        most = max(sizes(self.num_components, self.steps))  # on the way there are more than at last
        return ((max(self.noise_multipliers), most * self._numbers),)

    @property
    def rounds(self) -> int:
        return self.steps

    @property
    def _numbers(self) -> int:
        """Of each component."""
        return 1 + self.dim + self.dim * (self.dim + 1) // 2

    def priced(self, budget: Budget, others: Ledger) -> Self:
        noise = calibration.calibrate(
            lambda noise: replace(self, noise_multiplier=noise).event,
            budget,
            bracket=_NOISE,
            increasing=False,
            ledger=others,
            what="noise_multiplier",
        )
        return replace(self, noise_multiplier=noise)

    def run(
        self, records: Sensitive[Float[np.ndarray, "rows dim"]], tools: Tools
    ) -> Released[dict[str, Any]]:
        # so that no square overflows
        rows = records.map(lambda x: np.clip(finite(x), -_FAR, _FAR))
        belief, age = em.first_belief(self.dim, self.spread), 0
        plan = zip(sizes(self.num_components, self.steps), self.noise_multipliers, strict=True)
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
        """The mixture, and the number of records that its counts add up to."""
        return em.Mixture(value["weights"], value["means"], value["factors"]), value["num_records"]
