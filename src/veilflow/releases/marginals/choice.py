"""The choice of tables to measure next: those on which the current model is most wrong."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Int

from veilflow.privacy.guarantees import Sensitive
from veilflow.privacy.mechanisms.choice import choose
from veilflow.releases.marginals.codes import Merging, Query
from veilflow.releases.marginals.graph import (
    Columns,
    Layout,
    Together,
    joined,
    num_cells,
    together_in,
)
from veilflow.releases.marginals.plan import MarginalPlan, Round
from veilflow.releases.marginals.questions import Tally, misfit_sensitivity, misfits

_RECORDS_PER_NOISE = 8.0
"""Average number of records of a cell that is worth measuring, in deviations of its noise."""
_CROWDED = 1 / 32
"""Above this share of its maximal cells, the size of the model is checked after each choice."""
_SMOOTHING = 0.5
"""Added to each cell of an expected table, so that no cell is impossible."""


class Known(NamedTuple):
    """The plan and everything released before a round: none of it touches records.

    Attributes:
        plan: The plan.
        merging: How codes are merged.
        num_records: Declared or estimated.
        chosen: The sets of columns measured so far.
        pool: The sets that may still be chosen.
        rows: Rows drawn from the current model.
    """

    plan: MarginalPlan
    merging: Merging
    num_records: float
    chosen: tuple[Columns, ...]
    pool: tuple[Columns, ...]
    rows: Int[np.ndarray, "rows columns"]


class Candidate(NamedTuple):
    """A table that could be measured, its expected counts under the model, and its weight."""

    query: Query
    expected: np.ndarray
    weight: float


def candidates(known: Known, step: Round) -> list[Candidate]:
    """Tables that were not measured yet and that fit into the model."""
    plan, merging = known.plan, known.merging
    tally, most = Tally(known.rows, merging), most_cells(plan, step, known.num_records)
    together = together_in(len(plan.sizes), known.chosen)
    layout = Layout(merging.sizes, together)
    tables: list[Candidate] = []
    for columns in known.pool:
        if columns in known.chosen:
            continue
        # another order of elimination may have smaller bags
        if layout.num_cells_with(columns) > plan.max_cells and not _fits(known, together, columns):
            continue
        query = merging.query(columns, most_cells=most)
        counts = tally.counts(query) + _SMOOTHING
        expected = counts * (known.num_records / counts.sum())
        weight = plan.label_weight if plan.label in columns else 1.0
        tables.append(Candidate(query, expected, weight))
    return tables


def private_choice(
    tally: Sensitive[Tally], options: Sequence[Candidate], *, known: Known, step: Round
) -> list[Candidate]:
    """Choose up to `step.num_choices` of the candidates, with their misfit as score.

    Guarantee:
        At most that many exponential mechanisms of `step.epsilon`, for add/remove of one row: a misfit
        moves by at most `misfit_sensitivity`. Everything else in a score, and everything that excludes
        a candidate, comes from releases.
    """
    if not options:
        return []
    scores = tally.map(lambda records: _scores(records, options, known), description="scores")
    heaviest = max((candidate.weight for candidate in options), default=1.0)
    sensitivity = heaviest * misfit_sensitivity(known.num_records)
    chosen: list[Candidate] = []
    left = list(range(len(options)))
    together = together_in(len(known.plan.sizes), known.chosen)
    for _ in range(step.num_choices):
        if not left:
            break
        at = _one_of(scores, left, sensitivity=sensitivity, epsilon=step.epsilon)
        columns = options[at].query.columns
        left.remove(at)
        if not _fits(known, together, columns):
            continue  # a lost choice: it no longer fits together with those of this round
        chosen.append(options[at])
        together = joined(together, columns)
        # tables contained in the chosen one will be known from it
        left = [i for i in left if not set(options[i].query.columns) <= set(columns)]
        layout, most = Layout(known.merging.sizes, together), known.plan.max_cells
        if layout.num_cells > _CROWDED * most:
            left = [i for i in left if layout.num_cells_with(options[i].query.columns) <= most]
    return chosen


def _scores(tally: Tally, options: Sequence[Candidate], known: Known) -> np.ndarray:
    """Weighted misfits in excess of what a correct model would have by chance."""
    expected = [candidate.expected for candidate in options]
    spread = 1 + known.num_records / len(known.rows)
    by_chance = [np.sqrt(2 / math.pi * spread * table).sum() for table in expected]
    beyond = misfits(tally, [c.query for c in options], expected) - np.array(by_chance)
    return np.array([candidate.weight for candidate in options]) * beyond


def _one_of(
    scores: Sensitive[np.ndarray], left: list[int], *, sensitivity: float, epsilon: float
) -> int:
    of_left = scores.map(lambda all_: all_[left])
    if epsilon == math.inf:  # without privacy, and the event of the plan says so
        return left[int(of_left.open().argmax())]
    return left[choose(of_left, sensitivity=sensitivity, epsilon=epsilon).value]


def most_cells(plan: MarginalPlan, step: Round, num_records: float) -> float:
    """About how many cells of a table of several columns stand out of the noise."""
    noise = step.noise_multiplier * math.sqrt(step.num_choices)
    if noise == 0:
        return plan.max_table_cells
    return min(plan.max_table_cells, num_records / (_RECORDS_PER_NOISE * noise))


def _fits(known: Known, together: Together, columns: Columns) -> bool:
    return num_cells(known.merging.sizes, joined(together, columns)) <= known.plan.max_cells
