"""The whole price of a density fit, settled before a record is looked at.

Composition is proved for parameters that do not depend on the data, so every noise multiplier and
every epsilon comes from here, and what is released later enters none of them.
"""

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import numpy as np

from veilflow._core.errors import BudgetError
from veilflow._core.keys import Secret
from veilflow.engine import Flat, Optimizer, TrainingPlan
from veilflow.engine.loop import hardened_slack
from veilflow.models.domain import Domain
from veilflow.models.planner import Recipe
from veilflow.models.starting import start_coordinates, start_event
from veilflow.privacy import calibration
from veilflow.privacy.budget import Budget
from veilflow.privacy.events import Event, NonPrivate, PureDP
from veilflow.privacy.guarantees import Sensitive
from veilflow.privacy.ledger import Ledger
from veilflow.privacy.mechanisms import count_records

_COUNT_SHARE = 0.02
"""Part of epsilon that each paid count takes."""
_GRID_SHARE = 0.8
"""Part of epsilon that a grid takes where private training is asked for on top of it."""


@dataclass(frozen=True, kw_only=True)
class Counts:
    """Which numbers of rows are to be paid for."""

    records: bool
    clamped: bool


@dataclass(frozen=True)
class Prices:
    """What a fit will pay."""

    ledger: Ledger
    """All but the training."""
    noise_multiplier: float
    """Of the training."""
    grid_epsilon: float | None


def settle(recipe: Recipe, dim: int, budget: Budget, *, counts: Counts, hardened: bool) -> Prices:
    """The prices of a fit by `recipe` that together spend the budget.

    Raises:
        BudgetError: Nothing is left for the training.
    """
    ledger = Ledger()
    count: Event = PureDP(_COUNT_SHARE * budget.epsilon) if budget.private else NonPrivate()
    if counts.records:
        ledger = ledger.spend(count, purpose="number of records")
    if counts.clamped:
        ledger = ledger.spend(count, purpose="number of rows outside the bounds")
    start_draws = start_coordinates(recipe, dim)
    if hardened and (start_draws or recipe.steps):
        flow = eqx.filter_eval_shape(
            lambda: recipe.architecture.build(dim, key=Secret.from_seed(0).key("weights"))
        )
        ledger = spend_slack(ledger, budget, flow, steps=recipe.steps, others=start_draws)
    grid_epsilon = None
    if recipe.start == "grid":
        grid_epsilon = _grid_epsilon(budget, ledger, alone=recipe.steps == 0)
    event = start_event(recipe, grid_epsilon)
    if event is not None:
        ledger = ledger.spend(event, purpose=f"start ({recipe.start})")
    noise = 0.0
    if budget.private and recipe.steps:
        noise = calibration.noise_multiplier(
            budget, sampling_rate=recipe.sampling_rate, steps=recipe.steps, ledger=ledger
        )
    return Prices(ledger, noise, grid_epsilon)


def spend_slack(ledger: Ledger, budget: Budget, model: Any, *, steps: int, others: int) -> Ledger:
    """`ledger` with what hardened noise owes for not being Gaussian.

    Args:
        ledger: Of the fit.
        budget: Of the whole fit.
        model: What is to be trained.
        steps: Of the training.
        others: Numbers that get noise outside of it.

    Raises:
        BudgetError: That alone is more than the budget's delta.
    """
    slack = hardened_slack(model, steps=steps, others=others)
    delta = Ledger().spend(slack, purpose="slack").delta(epsilon=budget.epsilon)
    if delta >= budget.delta:
        raise BudgetError(
            f"the noise of a hardened fit alone needs a delta of {delta:.2g} at "
            f"epsilon={budget.epsilon:.4g}, the budget has {budget.delta:.2g}. Lower epsilon or "
            "the number of steps, train a smaller flow, or leave hardened out."
        )
    return ledger.spend(slack, purpose="distance of grid noise from Gaussian")


def _grid_epsilon(budget: Budget, ledger: Ledger, *, alone: bool) -> float:
    """The price of a grid: all that is left, or a share of the budget if training follows."""
    if not budget.private:
        return np.inf
    if not alone:
        return _GRID_SHARE * budget.epsilon
    return calibration.calibrate(
        PureDP,
        budget,
        bracket=(1e-6 * budget.epsilon, budget.epsilon),
        increasing=True,
        ledger=ledger,
        what="epsilon of the grid",
    )


def training_price(recipe: Recipe, prices: Prices, budget: Budget) -> Event:
    """What the training that `prices` leave room for will cost."""
    if not budget.private:
        return NonPrivate()
    return calibration.training_event(recipe.sampling_rate, prices.noise_multiplier, recipe.steps)


def training_plan(
    recipe: Recipe,
    prices: Prices,
    budget: Budget,
    *,
    num_records: float,
    ema_decay: float | None,
    hardened: bool,
) -> TrainingPlan:
    """The plan of the training that `prices` leave room for."""
    plan = TrainingPlan(
        clipping=Flat(recipe.clip_norm),
        noise_multiplier=prices.noise_multiplier,
        sampling_rate=recipe.sampling_rate,
        expected_batch_size=recipe.sampling_rate * num_records,
        steps=recipe.steps,
        optimizer=Optimizer(learning_rate=recipe.learning_rate, weight_decay=recipe.weight_decay),
        ema_decay=ema_decay,
        hardened=hardened,
        private=budget.private,
    )
    if plan.private:
        budget.check(prices.ledger, plan.event, purpose="training")
    return plan


def learn_facts(
    rows: Sensitive[Any],
    domain: Domain,
    budget: Budget,
    *,
    num_records: int | None,
    counts: Counts,
) -> dict[str, Any]:
    """Facts about the rows that are needed or asked for: declared, or paid for as `settle` says."""

    def count(rows: Sensitive[Any]) -> int:
        if not budget.private:
            return len(rows.open())
        return int(count_records(rows, epsilon=_COUNT_SHARE * budget.epsilon).value)

    facts: dict[str, Any] = {"num_records": num_records, "declared": ["num_records"]}
    if counts.records:
        facts = {"num_records": max(1, count(rows)), "declared": []}
        budget.warn_if_weak(facts["num_records"])
    if counts.clamped:
        outside = rows.map(lambda x: x[domain.outside(x)], description="rows outside the bounds")
        facts["clamped_rows"] = max(0, count(outside))
    return facts
