"""Hardened fits: all noise from the operating system, on grids, at a price known before the rows."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import veilflow as vf
from tests.models.table import small
from veilflow._core.errors import BudgetError
from veilflow.engine import blocks
from veilflow.engine.observed import num_parameters
from veilflow.models.start import release
from veilflow.models.table.bins import bins_of
from veilflow.models.table.cells import cells_of, most_cells
from veilflow.models.table.discovery import _on_grid, widest
from veilflow.models.table.hardening import largest_flow
from veilflow.models.table.recipe import TableFacts
from veilflow.privacy.events import TotalVariation
from veilflow.privacy.noise_source import closeness

SLACK = "distance of grid noise from Gaussian"
SMALL = vf.hflow(blocks=1, bins=4, hidden=(8,))
CLOSED = vf.Schema(
    age=vf.Numeric(17, 90, integer=True, nullable=True),
    sex=vf.Categorical("F", "M"),
    smoker=vf.Boolean(),
    label="smoker",
)


def hardened(**changes):
    return small.estimator(**{"hardened": True, "steps": 2, **changes})


@pytest.fixture
def drawn(monkeypatch):
    """Numbers that got noise; drawing any in floating point fails."""
    sizes = []
    monkeypatch.setattr(release, "gaussian", lambda *_, **__: pytest.fail("noise in float32"))
    monkeypatch.setattr("veilflow.engine.step.gaussian", lambda *_, **__: pytest.fail("float32"))
    for module in (release, blocks):
        draw = module.draw

        def counted(shape, *, grid, draw=draw):
            sizes.append(math.prod(shape))
            return draw(shape, grid=grid)

        monkeypatch.setattr(module, "draw", counted)
    return sizes


@pytest.mark.parametrize("flow", [None, SMALL], ids=["codes", "hflow"])
def test_all_noise_is_drawn_on_grids_and_the_slack_covers_it(flow, drawn):
    schema = vf.Schema(CLOSED.columns, label="smoker")
    others = {"hidden": None, "flow": flow, "warm_start": "none"}
    if flow is None:  # with everything that may be asked
        schema = small.SCHEMA.with_columns({"gain": vf.Numeric()})
        others = {"num_records": None}
    estimator = hardened(schema=schema, **others)
    model = estimator.fit(small.frame(), progress=False, extra="ignore")
    assert len(drawn) > (1 if flow else 6)  # columns, marginals in rounds, steps
    slack = {entry.purpose: entry.event for entry in model.ledger.entries}[SLACK]
    assert isinstance(slack, TotalVariation)
    assert slack.distance >= closeness(sum(drawn))
    assert model.ledger == estimator.preview()
    assert model.settings["plan"]["hardened"]
    assert model.guarantee.epsilon <= small.BUDGET.epsilon
    facts = TableFacts(schema=schema, count=False, flow=flow, hardened=True)
    skeleton = largest_flow(estimator.recipe(), facts)
    assert num_parameters(skeleton) >= num_parameters(model.flow)


def test_a_seed_does_not_repeat_hardened_noise():
    settings = {"schema": CLOSED, "warm_start": "none", "steps": 0}
    table = small.frame()[list(CLOSED.names)]
    noisy = [hardened(**settings).fit(table, progress=False).coder for _ in range(2)]
    plain = [small.estimator(**settings).fit(table, progress=False).coder for _ in range(2)]
    masses = [[column.mass for column in coder.columns] for coder in noisy + plain]
    assert not any(np.array_equal(a, b) for a, b in zip(masses[0], masses[1], strict=True))
    assert all(np.array_equal(a, b) for a, b in zip(masses[2], masses[3], strict=True))


FLOAT, SUM = "noise and sums in float32 count as exact", "sums in float32 count as exact"
GENERATOR = "numbers from the Threefry generator count as random"
SEED = "the seed was chosen by the user, is secret and is used for no other fit"
ASSUMED = {
    "plain": ({}, {FLOAT, GENERATOR}),
    "plain, a seed": ({"seed": 1}, {FLOAT, GENERATOR, SEED}),
    "plain, no steps": ({"steps": 0, "seed": 1}, {FLOAT, GENERATOR, SEED}),
    "hardened": ({"hardened": True}, {SUM, GENERATOR}),
    # a seed decides who is in a batch
    "hardened, a seed": ({"hardened": True, "seed": 1}, {SUM, GENERATOR, SEED}),
    # and nothing that hides a record, where there is no batch
    "hardened, no steps": ({"hardened": True, "steps": 0, "seed": 1}, {SUM}),
}


@pytest.mark.parametrize(("change", "expected"), ASSUMED.values(), ids=ASSUMED.keys())
def test_a_guarantee_rests_on_what_its_noise_is_made_of(change, expected):
    ledger = small.estimator(**{"schema": CLOSED, "seed": None, **change}).preview()
    declared = "the schema and the number of records were declared, not read from the records"
    assert set(ledger.assumptions) == expected | {declared}
    paid = [entry.purpose for entry in ledger.entries]
    assert paid.count(SLACK) == ("hardened" in change)


def test_what_cannot_be_hardened_is_refused_before_the_rows_are_read():
    tiny = hardened(budget=vf.Budget(1e-3, 1e-6))
    with pytest.raises(BudgetError, match="marginals of a hardened fit may be up to 262,144"):
        tiny.fit("no-such-file.csv", progress=False)
    wide = hardened(budget=vf.Budget(20.0, 1e-9), steps=2000, hidden=(256,))
    with pytest.raises(BudgetError, match="hardened fit alone needs a delta"):
        wide.fit("no-such-file.csv", progress=False)
    with pytest.raises(ValueError, match="hardened=True needs a finite epsilon"):
        hardened(budget=vf.Budget(math.inf, 1e-6))


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
