"""The choice of tables to measure next: those on which the current model is most wrong."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Int

from veilflow.privacy.guarantees import Sensitive
from veilflow.privacy.mechanisms.exponential import choose
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
"""Records that a cell should have on average, in standard deviations of its noise."""
_CROWDED = 1 / 32
"""With this share of the cells it may have, a model's room is measured anew after each choice."""
_SMOOTHING = 0.5
"""Added to each cell of what a model expects, so that none is thought impossible."""


class Known(NamedTuple):
    """What was released before a round, and the plan: none of it touches records.

    Attributes:
        plan: The plan.
        merging: How codes are merged.
        num_records: As declared or estimated.
        chosen: The sets of columns measured so far.
        pool: Those that may still be asked for.
        rows: Rows drawn from the model of now.
    """

    plan: MarginalPlan
    merging: Merging
    num_records: float
    chosen: tuple[Columns, ...]
    pool: tuple[Columns, ...]
    rows: Int[np.ndarray, "rows columns"]


class Candidate(NamedTuple):
    """A table that might be asked for, what the model expects in its cells, and a weight."""

    query: Query
    expected: np.ndarray
    weight: float


def candidates(known: Known, step: Round) -> list[Candidate]:
    """Tables not measured yet that the model has room for."""
    plan, merging = known.plan, known.merging
    tally, most = Tally(known.rows, merging), _most_cells(known, step)
    together = together_in(len(plan.sizes), known.chosen)
    layout, found = Layout(merging.sizes, together), []
    for columns in known.pool:
        if columns in known.chosen:
            continue
        # bags of a good order may be smaller than those of the order there is
        if layout.num_cells_with(columns) > plan.max_cells and not _fits(known, together, columns):
            continue
        query = merging.query(columns, most_cells=most)
        counts = tally.counts(query) + _SMOOTHING
        expected = counts * (known.num_records / counts.sum())
        weight = plan.label_weight if plan.label in columns else 1.0
        found.append(Candidate(query, expected, weight))
    return found


def private_choice(
    tally: Sensitive[Tally], found: Sequence[Candidate], *, known: Known, step: Round
) -> list[Candidate]:
    """Choose up to `step.num_choices` of the candidates, with their misfit as score.

    Guarantee:
        As many exponential mechanisms of `step.epsilon`, for add/remove of one row: a misfit moves
        by at most `misfit_sensitivity`, and all else in a score, and what strikes candidates out,
        comes from releases.
    """
    scores = tally.map(lambda records: _scores(records, found, known), description="scores")
    heaviest = max((candidate.weight for candidate in found), default=1.0)
    sensitivity = heaviest * misfit_sensitivity(known.num_records)
    picked: list[Candidate] = []
    left = list(range(len(found)))
    together = together_in(len(known.plan.sizes), known.chosen)
    for _ in range(step.num_choices):
        if not left:
            break
        at = _one_of(scores, left, sensitivity=sensitivity, epsilon=step.epsilon)
        columns = found[at].query.columns
        left.remove(at)
        if not _fits(known, together, columns):
            continue  # a lost choice: it no longer fits beside those of this round
        picked.append(found[at])
        together = joined(together, columns)
        # what the chosen table contains will be known by it
        left = [i for i in left if not set(found[i].query.columns) <= set(columns)]
        layout, most = Layout(known.merging.sizes, together), known.plan.max_cells
        if layout.num_cells > _CROWDED * most:
            left = [i for i in left if layout.num_cells_with(found[i].query.columns) <= most]
    return picked


def _scores(tally: Tally, found: Sequence[Candidate], known: Known) -> np.ndarray:
    """Misfits beyond those that a right model would have by chance, weighted."""
    expected = [candidate.expected for candidate in found]
    spread = 1 + known.num_records / len(known.rows)
    by_chance = [np.sqrt(2 / math.pi * spread * table).sum() for table in expected]
    beyond = misfits(tally, [c.query for c in found], expected) - np.array(by_chance)
    return np.array([candidate.weight for candidate in found]) * beyond


def _one_of(
    scores: Sensitive[np.ndarray], left: list[int], *, sensitivity: float, epsilon: float
) -> int:
    of_left = scores.map(lambda all_: all_[left])
    if epsilon == math.inf:  # a run without privacy, and the plan's event says so
        return left[int(of_left.open().argmax())]
    return left[choose(of_left, sensitivity=sensitivity, epsilon=epsilon).value]


def _most_cells(known: Known, step: Round) -> float:
    noise = step.noise_multiplier * math.sqrt(step.num_choices)
    if noise == 0:
        return known.plan.max_table_cells
    return min(known.plan.max_table_cells, known.num_records / (_RECORDS_PER_NOISE * noise))


def _fits(known: Known, together: Together, columns: Columns) -> bool:
    return num_cells(known.merging.sizes, joined(together, columns)) <= known.plan.max_cells
