"""The plan of a posterior: rounds, steps or both, and what of the budget each takes."""

from dataclasses import dataclass, replace

from veilflow.engine.training import Training
from veilflow.models.posterior.guides import Guide
from veilflow.privacy import calibration
from veilflow.privacy.budget import Budget
from veilflow.privacy.unit import Unit
from veilflow.releases.plan import FitPlan, spending
from veilflow.releases.release import Release
from veilflow.releases.rounds.newton import NewtonRounds
from veilflow.releases.training import PrivateTraining

_ROUNDS_SHARE = 0.6
"""Part of the budget that the rounds take where steps follow, in squared signal over noise."""


@dataclass(frozen=True, kw_only=True)
class PosteriorPlan(FitPlan):
    """The plan of a posterior.

    Attributes:
        start: Where the search begins, one number a parameter.
        scale: How far off that may be.
        flow: The family that the posterior is sought in.
        objective: How it is fitted to what the rounds release.
        noise_aware: Whether the posterior's width contains what the noise adds to its place.
        num_draws: Draws of the guide in a step.
        likelihood: A hash of the code of the likelihood (see `code_hash`), so that a checkpoint does
            not go on with another one.
        prior: The same of the prior.
    """

    start: tuple[float, ...]
    scale: tuple[float, ...]
    flow: Guide
    objective: str
    noise_aware: bool
    num_draws: int
    likelihood: str
    prior: str

    @property
    def dim(self) -> int:
        """How many parameters there are."""
        return len(self.start)


def releases(
    budget: Budget,
    rounds: NewtonRounds | None,
    training: Training,
    *,
    num_parameters: int,
) -> tuple[Release, ...]:
    """Rounds and steps that together spend the budget.

    Args:
        budget: Of the whole fit.
        rounds: If there are any, at no price yet.
        training: With all settings resolved.
        num_parameters: Numbers that the steps train.

    Raises:
        BudgetError: Nothing is left for one of the two.
    """
    unpriced = float(budget.private)
    asked: list[Release] = []
    if rounds is not None:
        noise = unpriced
        if budget.private and training.steps:
            noise = 1 / (calibration.gaussian_mu(budget) * _ROUNDS_SHARE**0.5)
        asked.append(replace(rounds, noise_multiplier=noise))
    if training.steps:
        steps = PrivateTraining(
            settings=training, noise_multiplier=unpriced, num_parameters=num_parameters
        )
        asked.append(steps)
    return spending(budget, tuple(asked), unit=Unit.RECORD)
