"""The plan of a classifier: a count where the sampler needs one, and draws for all that is left."""

from typing import Any

from veilflow._core.errors import BudgetError
from veilflow.models.domain import Box, Domain
from veilflow.privacy.budget import Budget
from veilflow.privacy.unit import Unit
from veilflow.releases.count import Count
from veilflow.releases.expm.draw import ExponentialDraw
from veilflow.releases.expm.sampler import CountingSampler
from veilflow.releases.plan import FitPlan, spending, spent_on
from veilflow.releases.release import Release


def plan_classifier(
    draw: ExponentialDraw,
    *,
    domain: Domain,
    budget: Budget,
    num_records: int | None,
    model_epsilon: float | None,
    seeded: bool,
) -> FitPlan:
    """The plan of a fit.

    Args:
        draw: All but its price.
        domain: As declared.
        budget: Of the whole fit.
        num_records: If declared.
        model_epsilon: What each model costs; None for an equal share of what is there.
        seeded: Whether a person chose the seed.

    Raises:
        BudgetError: The settings cost more than the budget.
        ValueError: The target is out of the sampler's reach.
    """
    count: tuple[Release, ...] = ()
    if isinstance(draw.sampler, CountingSampler):
        draw = draw.knowing(num_records)
        # what is declared to the sampler is a declared fact, too
        num_records = draw.num_records
        count = (Count.within(budget),) if num_records is None else ()
    bounds = "bounds" if isinstance(domain, Box) else "the largest norm of a row"
    return FitPlan(
        model="ExpMechClassifier",
        budget=budget,
        releases=_priced(count, draw, budget, model_epsilon),
        declared=(bounds, "classes", "the prior"),
        num_records=num_records,
        seeded=seeded,
        unit=Unit.RECORD,
    )


def _priced(
    count: tuple[Release, ...], draw: ExponentialDraw, budget: Budget, model_epsilon: float | None
) -> tuple[Release, ...]:
    """All releases, with an epsilon for each model: the chosen one, or all that is left."""
    unit: Any = {"unit": Unit.RECORD}
    if model_epsilon is None:
        return spending(budget, (*count, draw), **unit)
    releases = (*count, draw.at(model_epsilon))
    if not budget.admits(spent_on(releases, budget, **unit)):
        share = draw.share(budget, spent_on(count, budget, **unit))
        raise BudgetError(
            f"{draw.num_models} models at model_epsilon={model_epsilon:.4g} cost more than the budget "
            f"of epsilon={budget.epsilon:.4g} at delta={budget.delta:.3g}: every released model is "
            f"paid for. Use model_epsilon of {share:.4g}, or fewer models."
        )
    return releases
