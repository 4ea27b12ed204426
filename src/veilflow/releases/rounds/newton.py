"""Private rounds of Newton's method: the location and the width of a posterior.

Each round asks all records for gradient and curvature in the coordinates that earlier rounds
determined. In these coordinates the contributions of records have similar lengths, so clipping costs
little, and the noise is small compared with their sum. A few early rounds find the posterior; the late
ones stay there and are averaged, so that dividing the budget among them loses nothing. The noise is
fixed before the first round; only the questions adapt.
"""

# JAX and jaxtyping leave types open (trees, loops, new arrays); see [tool.pyright] in pyproject.toml
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportUnknownLambdaType=false

from dataclasses import dataclass
from itertools import count as counter
from typing import Any, NamedTuple, Self

import numpy as np
from jaxtyping import Float, PyTree

from veilflow._core.fields import convert, count, each, finite, flag, nonnegative, positive
from veilflow._core.keys import Secret
from veilflow.privacy import calibration
from veilflow.privacy.budget import Budget
from veilflow.privacy.events import Event, Together
from veilflow.privacy.guarantees import ClippedSum, Released, Sensitive
from veilflow.privacy.ledger import Ledger
from veilflow.privacy.mechanisms import gaussian_once
from veilflow.releases.release import Release, Tools, gaussians
from veilflow.releases.rounds.lengths import NOISE_RANGE
from veilflow.releases.rounds.state import State, next_state, surrogate_of, with_lengths
from veilflow.releases.rounds.statistics import (
    BINS,
    LogLikelihood,
    clipped_statistics,
    length_counts,
    num_statistics,
)
from veilflow.releases.rounds.surrogate import LogPrior, Surrogate, prior_parts

_COUNTS_SHARE, _LATE_SHARE = 0.08, 0.62
"""Shares of the price, in squared mu, of counts of lengths and of the late rounds."""
_MOST_ROUNDS = 1000
_DRAWS = 8
"""Draws of the posterior at which late rounds evaluate records, half of them mirrored."""


class Noises(NamedTuple):
    """Noise multipliers of the single mechanisms."""

    counts: float
    early: float
    late: float


@dataclass(frozen=True, kw_only=True)
class NewtonRounds(Release):
    """A quadratic approximation of the log-likelihood around the posterior.

    Guarantee:
        A Gaussian mechanism for each count of lengths and for each sum of statistics, for add/remove of
        one record, whatever it holds: `statistics` proves that it moves either by at most sqrt(2). Each
        question is computed from declared and released numbers alone.

    Attributes:
        start: Initial value of each parameter.
        scale: Its expected error, and the most that one early round may move it.
        noise_multiplier: All rounds together cost as much as one release with this; 0 without privacy.
        early: Rounds that find the posterior; each counts lengths and measures statistics.
        late: Rounds that refine it.
        average: Whether late rounds are averaged; otherwise the last one is used alone.
    """

    purpose: str = "gradients and curvatures"
    start: tuple[float, ...]
    scale: tuple[float, ...]
    noise_multiplier: float
    early: int = 8
    late: int = 3
    average: bool = True

    def __post_init__(self) -> None:
        convert(
            self,
            start=each(finite),
            scale=each(positive, lengths=(len(self.start),)),
            noise_multiplier=nonnegative,
            early=count(),
            late=count(),
            average=flag,
        )
        if self.rounds > _MOST_ROUNDS:
            raise ValueError(f"early + late must be at most {_MOST_ROUNDS}, got {self.rounds}.")

    @property
    def noises(self) -> Noises:
        """Mechanisms with these multipliers together cost as much as one with `noise_multiplier`."""
        rest = 1 - _COUNTS_SHARE - _LATE_SHARE
        shares = (_COUNTS_SHARE / self.early, rest / self.early, _LATE_SHARE / self.late)
        return Noises(*(self.noise_multiplier / share**0.5 for share in shares))

    @property
    def event(self) -> Event:
        return self.event_after(self.rounds)

    def event_after(self, done: int) -> Event:
        noises, done = self.noises, max(1, done)
        early = min(done, self.early)
        return gaussians((noises.counts, noises.early) * early + (noises.late,) * (done - early))

    @property
    def num_draws(self) -> int:
        if not self.noise_multiplier:
            return 0
        return self.early * 2 * BINS + self.rounds * num_statistics(len(self.start))

    @property
    def grids(self) -> tuple[tuple[float, int], ...]:
        numbers = num_statistics(len(self.start))
        noises = self.noises
        return ((noises.counts, 2 * BINS), (noises.early, numbers), (noises.late, numbers))

    @property
    def rounds(self) -> int:
        return self.early + self.late

    def priced(self, budget: Budget, others: Ledger) -> Self:
        guess = 1 / calibration.gaussian_mu(budget)
        return self._with_least_noise(budget, others, bracket=NOISE_RANGE, guess=guess)

    def run(
        self,
        records: Sensitive[PyTree],
        tools: Tools,
        *,
        log_likelihood: LogLikelihood,
        log_prior: LogPrior,
    ) -> Released[dict[str, Any]]:
        """Measure in rounds.

        Args:
            records: Arrays with the record as first axis.
            tools: The tools of the run.
            log_likelihood: The log-likelihood of one record.
            log_prior: The log-density of the prior.
        """
        start, scale = np.array(self.start), np.array(self.scale)
        noises, events, index = self.noises, [], counter(1)

        def ask(query: ClippedSum, noise: float) -> Any:
            released = gaussian_once(
                query,
                noise_multiplier=noise,
                secret=tools.secret,
                purpose="curvature",
                index=next(index),
            )
            events.append(released.event)
            return released.value

        state = State.first(start, scale)
        for round_ in range(self.rounds):
            late = round_ - self.early
            if late < 0:
                draws, noise, reach = state.mean[None], noises.early, scale
                factor = state.next_factor(scale)
                lengths = length_counts(log_likelihood, records, draws=draws, factor=factor)
                counts = ask(lengths, noises.counts)
                state = with_lengths(state, factor, counts, noise=noises.counts)
                informative, bounds = state.significant, state.rough
            else:
                # in the coordinates of the last significant lengths: their bounds hold there
                draws = state.mean + _mirrored(tools.secret, late, len(start)) @ state.posterior.T
                noise, reach = noises.late, None
                informative, bounds = state.lengths is not None, state.bounds
            sums = clipped_statistics(
                log_likelihood, records, draws=draws, factor=state.factor, bounds=bounds
            )
            statistics = ask(sums, noise)
            if informative:
                prior = prior_parts(log_prior, draws, state.factor)
                average = self.average and late > 0
                settings: Any = {"bounds": bounds, "noise": noise, "reach": reach}
                state = next_state(state, statistics, prior, average=average, **settings)
            tools.monitor(round_ + 1)
        surrogate = surrogate_of(state, start=start, scale=scale, noise=noises.late)
        return Released(dict(vars(surrogate)), Together(tuple(events)))

    def result(self, value: dict[str, Any]) -> Surrogate:
        """The quadratic approximation."""
        return Surrogate(**value)


def _mirrored(secret: Secret, round_: int, dim: int) -> Float[np.ndarray, "draws dim"]:
    """Standard normal draws and their mirror images, so that their mean is zero."""
    rng = np.random.default_rng(secret.words("guide draws", round_, 1)[0])
    half = rng.standard_normal((_DRAWS // 2, dim))
    return np.concatenate([half, -half])
