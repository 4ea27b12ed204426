"""The whole price of a posterior, settled before a record is looked at."""

from dataclasses import dataclass
from typing import Any

from veilflow.models.posterior.rounds import Noises, num_numbers
from veilflow.models.pricing import spend_slack
from veilflow.privacy import calibration
from veilflow.privacy.budget import Budget
from veilflow.privacy.events import Event, NonPrivate
from veilflow.privacy.ledger import Ledger

_NOISE = (1e-3, 1e6)
_ROUNDS_SHARE = 0.6
"""Part of the budget that the rounds take where steps follow, in squared signal over noise."""


@dataclass(frozen=True)
class Prices:
    """What a fit will pay."""

    ledger: Ledger
    """All of it."""
    noises: Noises | None
    """Of the rounds, where there are any."""
    noise_multiplier: float
    """Of the steps."""


def settle(
    budget: Budget,
    *,
    dim: int,
    precondition: bool,
    steps: int,
    sampling_rate: float,
    hardened: bool,
    guide: Any,
) -> Prices:
    """The prices of rounds and steps that together spend the budget.

    Args:
        budget: Of the whole fit.
        dim: Number of parameters.
        precondition: Whether there are rounds.
        steps: Through the engine.
        sampling_rate: Of these.
        hardened: Whether noise is drawn on a grid.
        guide: What the steps train.

    Raises:
        BudgetError: Nothing is left for one of the two.
    """
    ledger = Ledger()
    if hardened:
        others = num_numbers(dim) if precondition else 0
        ledger = spend_slack(ledger, budget, guide if steps else (), steps=steps, others=others)
    noises, noise = None, 0.0
    if precondition:
        noises = _noises(budget, ledger, alone=steps == 0)
        ledger = ledger.spend(noises.event, purpose="gradients and curvatures")
    if steps:
        event: Event = NonPrivate()
        if budget.private:
            noise = calibration.noise_multiplier(
                budget, sampling_rate=sampling_rate, steps=steps, ledger=ledger
            )
            event = calibration.training_event(sampling_rate, noise, steps)
        ledger = ledger.spend(event, purpose="training")
    return Prices(ledger, noises, noise)


def _noises(budget: Budget, ledger: Ledger, *, alone: bool) -> Noises:
    if not budget.private:
        return Noises(0.0, 0.0, 0.0)
    if not alone:
        return Noises.of(1 / (calibration.gaussian_mu(budget) * _ROUNDS_SHARE**0.5))
    whole = calibration.calibrate(
        lambda noise: Noises.of(noise).event,
        budget,
        bracket=_NOISE,
        increasing=False,
        ledger=ledger,
        guess=1 / calibration.gaussian_mu(budget),
        what="noise_multiplier",
    )
    return Noises.of(whole)
