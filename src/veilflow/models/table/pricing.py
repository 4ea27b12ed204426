"""The whole price of a fit of a table, settled before a record is looked at.

Composition is proved for parameters that do not depend on the data, so every noise multiplier and
every epsilon follows from the recipe, which is public; what is released later enters none of them.
"""

from dataclasses import dataclass, replace
from functools import lru_cache

from veilflow._core.errors import BudgetError
from veilflow.models.marginals.plan import MarginalPlan
from veilflow.models.table.discovery import open_columns
from veilflow.models.table.hardening import check_grids, spend_hardening
from veilflow.models.table.recipe import TableFacts, TableRecipe, count_epsilon
from veilflow.privacy import calibration
from veilflow.privacy.budget import Budget
from veilflow.privacy.events import ApproximateDP, Event, Gaussian, NonPrivate, PureDP
from veilflow.privacy.ledger import Ledger

_MU = (0.01, 2.0)
"""Where a share of the privacy parameter is looked for, over that of the whole budget."""


@dataclass(frozen=True)
class TablePrices:
    """What a fit will pay."""

    ledger: Ledger
    """All but the training."""
    noise_multiplier: float
    """Of the training."""

    def training(self, recipe: TableRecipe, budget: Budget) -> Event:
        """What the training costs."""
        if not budget.private:
            return NonPrivate()
        return calibration.training_event(recipe.sampling_rate, self.noise_multiplier, recipe.steps)


def spend_on_start(recipe: TableRecipe, budget: Budget, facts: TableFacts) -> TableRecipe:
    """The recipe of a fit without steps, with all that is left of the budget in its last release.

    That are the marginals of a warm start, or without one the histograms of columns.
    """
    if recipe.steps or not budget.private:
        return recipe
    ledger = _before_columns(recipe, budget, facts)
    if not recipe.warm_mu:
        return replace(recipe, columns_noise=_columns_noise(budget, ledger))
    ledger = ledger.spend(Gaussian(recipe.columns_noise), purpose="histograms of columns")
    return replace(recipe, warm_mu=_warm_mu(budget, ledger, len(facts.schema.columns), facts.label))


def settle_table(recipe: TableRecipe, budget: Budget, facts: TableFacts) -> TablePrices:
    """The prices of a fit by `recipe`; with training they spend the budget.

    Raises:
        BudgetError: Nothing is left for the training, the start costs more than there is, or
            hardened noise is not possible within the budget.
    """
    ledger = _before_columns(recipe, budget, facts)
    columns: Event = Gaussian(recipe.columns_noise) if budget.private else NonPrivate()
    ledger = ledger.spend(columns, purpose="histograms of columns")
    if recipe.warm_mu:
        event = _marginals(recipe.warm_mu, len(facts.schema.columns), facts.label)
        ledger = ledger.spend(event, purpose="marginals")
    noise = 0.0
    if budget.private and recipe.steps:
        noise = calibration.noise_multiplier(
            budget, sampling_rate=recipe.sampling_rate, steps=recipe.steps, ledger=ledger
        )
    elif budget.private and not budget.admits(ledger):
        raise BudgetError(
            f"the start alone would cost epsilon={ledger.epsilon(delta=budget.delta):.4g} at "
            f"delta={budget.delta:.3g}, and the budget has {budget.epsilon:.4g}. Lower warm_share."
        )
    if facts.hardened:
        check_grids(recipe, facts, noise_multiplier=noise)
    return TablePrices(ledger, noise)


def _before_columns(recipe: TableRecipe, budget: Budget, facts: TableFacts) -> Ledger:
    """Counts, discoveries, and what hardened noise owes: none of it hangs on shares of the start."""
    ledger = Ledger()
    if facts.count:
        paid: Event = PureDP(count_epsilon(budget)) if budget.private else NonPrivate()
        ledger = ledger.spend(paid, purpose="number of records")
    open_lists, open_bounds = open_columns(facts.schema)
    for name in open_lists:
        event: Event = NonPrivate()
        if budget.private:
            event = ApproximateDP(recipe.discovery_epsilon, recipe.discovery_delta)
        ledger = ledger.spend(event, purpose=f"values of {name}"[:80])
    for name in open_bounds:
        event = PureDP(recipe.discovery_epsilon) if budget.private else NonPrivate()
        ledger = ledger.spend(event, purpose=f"bounds of {name}"[:80])
    return spend_hardening(ledger, recipe, budget, facts) if facts.hardened else ledger


def _marginals(mu: float, num_columns: int, label: int | None) -> Event:
    # how many choices there are depends on the number of columns alone, not on their codes
    return MarginalPlan.of((2,) * num_columns, mu=mu, label=label).event


@lru_cache(maxsize=64)
def _warm_mu(budget: Budget, ledger: Ledger, num_columns: int, label: int | None) -> float:
    whole = calibration.gaussian_mu(budget)
    return calibration.calibrate(
        lambda mu: _marginals(mu, num_columns, label),
        budget,
        bracket=(_MU[0] * whole, _MU[1] * whole),
        increasing=True,
        ledger=ledger,
        guess=0.9 * whole,
        what="warm_mu",
    )


@lru_cache(maxsize=64)
def _columns_noise(budget: Budget, ledger: Ledger) -> float:
    whole = calibration.gaussian_mu(budget)
    return calibration.calibrate(
        Gaussian,
        budget,
        bracket=(1 / (_MU[1] * whole), 1 / (_MU[0] * whole)),
        increasing=False,
        ledger=ledger,
        guess=1 / whole,
        what="columns_noise",
    )
