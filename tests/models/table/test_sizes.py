"""Noise of a fit of a table: on grids, at a price known before the rows."""

from importlib import import_module

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import veilflow as vf
from tests.models.table import small
from veilflow._core.errors import BudgetError
from veilflow.engine.observed import num_parameters
from veilflow.models.table.coder import bins_of
from veilflow.models.table.sizes import largest_flow
from veilflow.privacy.assumptions import FloatSums, Generator, Seeded
from veilflow.privacy.events import ApproximateDP
from veilflow.privacy.grid_noise import closeness
from veilflow.releases.table.cells import cells_of, most_cells
from veilflow.releases.table.discovery import _on_grid, widest
from veilflow.releases.training import PrivateTraining

mechanism = import_module("veilflow.privacy.mechanisms.gaussian")
SLACK = "distance of grid noise from Gaussian"
SMALL = vf.hflow(blocks=1, bins=4, hidden=(8,))
CLOSED = vf.Schema(
    age=vf.Numeric(17, 90, integer=True, nullable=True),
    sex=vf.Categorical("F", "M"),
    smoker=vf.Boolean(),
    label="smoker",
)


@pytest.fixture
def drawn(monkeypatch):
    """How many numbers got noise in each release before the training."""
    sizes = []
    noisy = mechanism.noisy_on_host

    def counted(total, **rest):
        sizes.append(total.size)
        return noisy(total, **rest)

    monkeypatch.setattr(mechanism, "noisy_on_host", counted)
    return sizes


@pytest.mark.few(1)
@pytest.mark.parametrize("flow", [None, SMALL], ids=["codes", "hflow"])
def test_the_slack_covers_all_noise_that_is_drawn(flow, drawn):
    schema = vf.Schema(CLOSED.columns, label="smoker")
    others = {"flow": flow, "warm_start": False}
    if flow is None:  # with everything that may be asked
        schema = small.SCHEMA.with_columns({"gain": vf.Numeric()})
        others = {"num_records": None}
    estimator = small.estimator(schema=schema, steps=2, **others)
    model = estimator.fit(small.frame(), progress=False, extra="ignore")
    assert len(drawn) > (0 if flow else 4)  # columns, marginals in rounds
    slack = {entry.purpose: entry.event for entry in model.ledger.entries}[SLACK]
    assert isinstance(slack, ApproximateDP)
    size = num_parameters(model.flow)
    assert slack.delta >= closeness(sum(drawn) + 2 * size)
    assert model.plan == estimator.plan()
    assert model.guarantee.epsilon <= small.BUDGET.epsilon
    assert num_parameters(largest_flow(model.plan.schema, model.plan.flow)) >= size
    assert model.plan.release(PrivateTraining).num_parameters >= size


def test_a_seed_repeats_the_noise_and_no_seed_does_not():
    settings = {"schema": CLOSED, "warm_start": False, "steps": 0}
    table = small.frame()[list(CLOSED.names)]
    coders = [
        small.estimator(**settings, seed=seed).fit(table, progress=False).coder
        for seed in (1, 1, None, None)
    ]
    masses = [[column.mass for column in coder.columns] for coder in coders]
    assert all(np.array_equal(a, b) for a, b in zip(masses[0], masses[1], strict=True))
    assert not any(np.array_equal(a, b) for a, b in zip(masses[2], masses[3], strict=True))


SUM, GENERATOR, SEED = map(str, (FloatSums(), Generator(), Seeded()))
ASSUMED = {
    "trained": ({}, {SUM, GENERATOR}),
    "trained, a seed": ({"seed": 1}, {SUM, GENERATOR, SEED}),
    # counts are exact, and their noise comes from a cryptographic hash
    "no steps": ({"steps": 0}, set()),
    "no steps, a seed": ({"steps": 0, "seed": 1}, {SEED}),
}


@pytest.mark.parametrize(("change", "expected"), ASSUMED.values(), ids=ASSUMED.keys())
def test_a_guarantee_rests_on_what_its_noise_is_made_of(change, expected):
    ledger = small.estimator(**{"schema": CLOSED, "seed": None, **change}).plan().ledger
    declared = "the schema and the number of records were declared, not read from the records"
    assert set(map(str, ledger.assumptions)) == expected | {declared}
    assert [entry.purpose for entry in ledger.entries].count(SLACK) == 1


def test_noise_without_a_grid_is_refused_by_the_plan():
    tiny = small.estimator(budget=vf.Budget(1e-6, 1e-9), steps=0)
    with pytest.raises(BudgetError, match="for which there is no grid of whole numbers"):
        tiny.plan()
    wide = small.estimator(budget=vf.Budget(1.0, 1e-15), steps=2000, hidden=(256,))
    with pytest.raises(BudgetError, match=r"the noise alone.* needs a delta"):
        wide.plan()


KINDS = ({"integer": True}, {"resolution": 0.01}, {"resolution": 2.0**50}, {})


@given(st.sampled_from(KINDS), st.integers(-20, 60), st.integers(-20, 60), st.booleans())
@settings(deadline=None, max_examples=40)
def test_no_bounds_that_may_be_discovered_give_more_cells(kind, one, two, around):
    column = vf.Numeric(**kind)
    most = widest(column)
    assert most.low is not None
    assert most.high is not None
    low = -(2.0**one) if around else 2.0 ** min(one, two)
    high = 2.0**two if around else 2.0 ** (max(one, two) + 1)
    low, high = _on_grid(max(low, most.low), min(high, most.high), column.step)
    if low < high:
        found = cells_of(vf.Numeric(low, high, **kind))
        assert found.num <= most_cells(most)
    assert most_cells(most) < 2**15  # and the bound says something


@given(
    arrays.arrays(np.float64, st.integers(1, 300), elements=st.floats(0, 1e6)),
    st.integers(1, 40),
)
def test_no_histogram_gives_more_bins_than_three_times_as_many(counts, most):
    assert bins_of(counts, most=most).num <= 3 * most
