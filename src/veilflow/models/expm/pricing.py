"""The whole price of a classifier, settled before a record is looked at."""

from dataclasses import dataclass, replace
from typing import Any

from veilflow._core.errors import BudgetError
from veilflow.models.assumptions import GENERATOR_ASSUMPTION, SEED_ASSUMPTION, SUM_ASSUMPTION
from veilflow.models.domain import Box, Domain
from veilflow.models.expm.sampler import CountingSampler, Sampler
from veilflow.models.expm.target import Target
from veilflow.models.table.recipe import count_epsilon
from veilflow.privacy import calibration
from veilflow.privacy.budget import Budget
from veilflow.privacy.events import Event, PureDP, Repeated
from veilflow.privacy.ledger import Ledger


@dataclass(frozen=True)
class Prices:
    """What a fit will do and pay."""

    ledger: Ledger
    """All of it."""
    target: Target
    """With the epsilon of one model."""
    sampler: Any
    """With all that decides its price."""
    count: float
    """The epsilon of a count of the records; 0 where none is needed."""


def settle(
    target: Target,
    sampler: Sampler,
    budget: Budget,
    *,
    num_models: int,
    num_records: int | None,
    model_epsilon: float | None,
) -> Prices:
    """The prices of `num_models` draws that together spend the budget.

    Args:
        target: Of the fit; its epsilon is replaced.
        sampler: Of the fit.
        budget: Of the fit.
        num_models: How many parameter vectors are drawn. Each is paid for.
        num_records: If declared.
        model_epsilon: What each draw costs; None for an equal share of what is there.

    Raises:
        BudgetError: Models cost more than there is.
        ValueError: The target is out of the sampler's reach.
    """
    ledger, count = Ledger(), 0.0
    if isinstance(sampler, CountingSampler):
        sampler = sampler.knowing(num_records)
        if sampler.num_records is None:
            count = count_epsilon(budget)
            ledger = ledger.spend(PureDP(count), purpose="number of records")
    share = (budget.epsilon - count) / num_models
    epsilon = share if model_epsilon is None else model_epsilon
    target = replace(target, epsilon=epsilon)
    if isinstance(sampler, CountingSampler):
        sampler = sampler.settled(target)

    def event(epsilon: float) -> Event:
        one = sampler.event(epsilon)
        return one if num_models == 1 else Repeated(num_models, one)

    if model_epsilon is not None:
        if not budget.admits(ledger.spend(event(epsilon), purpose="models")):
            raise BudgetError(
                f"{num_models} models at model_epsilon={model_epsilon:.4g} cost more than the budget "
                f"of epsilon={budget.epsilon:.4g} at delta={budget.delta:.3g}: every released model "
                f"is paid for. Use model_epsilon of {share:.4g}, or fewer models."
            )
    elif budget.delta > 0:
        # several choices compose to less than their sum where delta is not 0
        epsilon = _calibrated(event, budget, ledger, share=share)
        target = replace(target, epsilon=epsilon)
        if isinstance(sampler, CountingSampler):
            sampler = sampler.settled(target)
    ledger = ledger.spend(event(epsilon), purpose="model" if num_models == 1 else "models")
    return Prices(ledger, target, sampler, count)


def _calibrated(event: Any, budget: Budget, ledger: Ledger, *, share: float) -> float:
    bracket = (share * 1e-3, share * 1e3)
    found = calibration.calibrate(
        event,
        budget,
        bracket=bracket,
        increasing=True,
        ledger=ledger,
        guess=share,
        what="epsilon of a model",
    )
    # pure releases may spend all of their share, whatever delta is
    simple = budget.admits(ledger.spend(event(share), purpose="models"))
    return max(found, share) if simple else found


def resting_on(
    ledger: Ledger,
    target: Target,
    sampler: Sampler,
    domain: Domain,
    *,
    num_records: int | None,
    seeded: bool,
) -> Ledger:
    """`ledger` with what its guarantee assumes; what makes it conditional comes first."""
    if sampler.assumption is not None:
        ledger = ledger.assuming(sampler.assumption)
    what = ["bounds" if isinstance(domain, Box) else "the largest norm of a row"]
    what += ["classes", "prior", *([] if num_records is None else ["number of records"])]
    ledger = ledger.assuming(
        f"{', '.join(what[:-1])} and {what[-1]} were declared, not read from the records"
    )
    if not target.network.exact:
        ledger = ledger.assuming(SUM_ASSUMPTION)
    if sampler.assumption is None:  # all that matters is drawn from operating-system entropy
        return ledger
    ledger = ledger.assuming(GENERATOR_ASSUMPTION)
    return ledger.assuming(SEED_ASSUMPTION) if seeded else ledger
