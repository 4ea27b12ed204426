"""Hardened noise for a fit of a table: how much of it there is at most, known before the rows.

How many numbers get noise depends on what is discovered and on how numbers are cut into bins. Its
price, the distance of grid noise from a Gaussian, grows with their number; so it is settled for the
most that there can be. Counts, discoveries and choices of marginals draw exact noise in any case.
"""

from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax
import numpy as np

from veilflow._core.errors import BudgetError
from veilflow.engine.observed import num_parameters
from veilflow.flows.code_flow import CodeFlow
from veilflow.flows.codebook import Codebook
from veilflow.flows.variables import Continuous, Kind, Listed, Variables
from veilflow.models.marginals.plan import MarginalPlan
from veilflow.models.pricing import spend_slack
from veilflow.models.table.cells import cells_of, most_cells
from veilflow.models.table.discovery import widest
from veilflow.models.table.recipe import TableFacts, TableRecipe
from veilflow.models.table.tree import level_sizes
from veilflow.privacy.budget import Budget
from veilflow.privacy.ledger import Ledger
from veilflow.privacy.noise_source import hardened_grid
from veilflow.tabular.columns import Column, Numeric, OpenCategorical, Ordinal

_MOST_SPIKES = 20
"""Bins of a column that hold a twentieth of it or more, which a flow of codes sees one by one."""
_BINS = 3
"""Bins over `most_bins`: those of the rest, heavy cells, and what is cut off between them."""


def spend_hardening(
    ledger: Ledger, recipe: TableRecipe, budget: Budget, facts: TableFacts
) -> Ledger:
    """`ledger` with what hardened noise owes for not being Gaussian, at most.

    Raises:
        BudgetError: That alone is more than the budget's delta.
    """
    numbers = _histogram_numbers(facts)
    if recipe.warm_mu:
        numbers += _marginal_plan(recipe, facts).num_draws
    return spend_slack(
        ledger, budget, largest_flow(recipe, facts), steps=recipe.steps, others=numbers
    )


def check_grids(recipe: TableRecipe, facts: TableFacts, *, noise_multiplier: float) -> None:
    """Raise unless every release of a hardened fit has a grid, whatever the rows are.

    Args:
        recipe: Of the fit.
        facts: Of the fit.
        noise_multiplier: Of the training.

    Raises:
        BudgetError: The noise is so large that the grid of a release would not fit its integers.
    """
    for what, noise, numbers in _releases(recipe, facts, noise_multiplier):
        try:
            # with a sensitivity of 1: whether there is a grid hangs on the noise over it
            hardened_grid(1.0, noise_multiplier=noise, num_coordinates=numbers)
        except ValueError:
            raise BudgetError(
                f"{what} of a hardened fit may be up to {numbers:,} numbers with a noise multiplier "
                f"of {noise:.4g}, for which there is no grid of whole numbers. Raise epsilon, or "
                "leave hardened out."
            ) from None


def largest_flow(recipe: TableRecipe, facts: TableFacts) -> Any:
    """The shapes of a flow with at least as many numbers as the one that will be trained."""
    key = jax.random.key(0)  # shapes are all that is made
    columns = facts.schema.columns.values()
    if facts.flow is not None:
        variables, build = Variables(_kinds(facts)), facts.flow.build
        return eqx.filter_eval_shape(lambda: build(variables, key=key))
    # a network sees as many numbers of a listed column as it has codes
    seen = [np.ones(_most_features(column, recipe)) for column in columns]
    book = Codebook.create(seen, ordered=[False] * len(seen))
    return eqx.filter_eval_shape(lambda: CodeFlow.create(book, key=key, hidden=recipe.hidden))


def _releases(
    recipe: TableRecipe, facts: TableFacts, noise_multiplier: float
) -> Iterator[tuple[str, float, int]]:
    """Each release with Gaussian noise: what it is, its noise multiplier, its numbers at most."""
    yield "histograms", recipe.columns_noise, _histogram_numbers(facts)
    if recipe.warm_mu:
        plan = _marginal_plan(recipe, facts)
        yield "marginals", plan.noise_multiplier, _padded(sum(plan.sizes))
        for step in plan.rounds:
            cells = step.num_choices * plan.max_table_cells
            yield "marginals", step.noise_multiplier, _padded(cells)
    if recipe.steps:
        yield "a step", noise_multiplier, num_parameters(largest_flow(recipe, facts))


def _padded(numbers: int) -> int:
    """Marginals are released in powers of two."""
    return 2 ** (numbers - 1).bit_length()


def _marginal_plan(recipe: TableRecipe, facts: TableFacts) -> MarginalPlan:
    sizes = [_most_codes(column, recipe) for column in facts.schema.columns.values()]
    return MarginalPlan.of(sizes, mu=recipe.warm_mu, label=facts.label)


def _histogram_numbers(facts: TableFacts) -> int:
    """Numbers in the histograms of all columns, at most."""
    total = 0
    for column in facts.schema.columns.values():
        if column.has_position:
            total += sum(level_sizes(_most_cells(column))) + column.nullable
        else:
            total += _listed_codes(column)
    return total


def _most_codes(column: Column, recipe: TableRecipe) -> int:
    """Codes of a column in the model, at most."""
    if column.has_position:
        return _BINS * recipe.most_bins + column.nullable
    return _listed_codes(column)


def _most_features(column: Column, recipe: TableRecipe) -> int:
    """Numbers that a flow of codes sees of a column, at most."""
    if column.has_position or isinstance(column, Ordinal):
        return recipe.num_waves + _MOST_SPIKES + column.nullable
    return _listed_codes(column)


def _listed_codes(column: Column) -> int:
    if isinstance(column, OpenCategorical):  # and one for all others
        return column.max_values + 1 + column.nullable
    return column.num_codes()


def _most_cells(column: Column) -> int:
    if isinstance(column, Numeric) and column.low is None:  # to be discovered
        return most_cells(widest(column))
    return cells_of(column).num


def _kinds(facts: TableFacts) -> Iterator[Kind]:
    """Variables of the paper's flow, with as many codes as there can be."""
    for column in facts.schema.columns.values():
        if not column.has_position:
            yield Listed(_listed_codes(column))
            continue
        if column.nullable:
            yield Listed(2)
        yield Continuous()
