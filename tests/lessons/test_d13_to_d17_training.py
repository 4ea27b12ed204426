"""Lessons about floats, clips that adapt, layers that mix records, losses that steer, and searches."""

import ast
import inspect
import math
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import veilflow as vf
from tests.lessons import small
from veilflow import engine
from veilflow.audit.watched import run, watched
from veilflow.engine.blocks import step_words
from veilflow.engine.clipping.clipping import shrink
from veilflow.privacy.assumptions import FloatSums
from veilflow.privacy.discrete_gaussian_table import REACH
from veilflow.privacy.events import ApproximateDP, PureDP
from veilflow.privacy.grid_noise import grid_for
from veilflow.privacy.guarantees import Released, Sensitive
from veilflow.privacy.mechanisms.selection import NumberOfRuns, repeat_and_select, selection_event


@given(st.floats(2.0**-20, 2.0**100, width=32), st.floats(2.0**-10, 2.0**10, width=32))
def test_d13_a_clipped_norm_is_at_most_the_bound_in_floats(norm, bound):
    factor = shrink(jnp.float32(norm), jnp.float32(bound))
    assert float(factor) * norm <= bound


def test_d13_noise_is_whole_numbers_and_pays_for_rounding():
    grid = grid_for(1.0, noise_multiplier=1.0, num_coordinates=100)
    # beyond the clip norm, every coordinate may be rounded by a grid unit
    assert grid.noise_stddev >= 1.0 + grid.spacing * math.sqrt(100)
    assert REACH * grid.widening * grid.spacing > 15  # tails are not those of a float


def test_d13_no_step_excludes_a_neighbor():
    """Every released number less any candidate sum is noise that could have been drawn.

    Of a float32 normal, which has 2^23 values, that is not so: nearly all candidates are ruled out.
    """
    step, state = watched(small.plan(), small.steep, small.model())
    words = step_words(engine.Secret.from_seed(0), 0, 3)
    _, released = run(step, state, small.ROWS, words)
    spacing = step.noise.grid.spacing
    for leaf in jax.tree.leaves(released):
        units = np.asarray(leaf, np.float64) / spacing
        # beyond 2^24 units a float32 tells every second one, whatever the records
        np.testing.assert_array_equal(units, np.rint(units))


def test_d13_nothing_that_touches_records_draws_noise_in_floats():
    """Normals of a library are floats. What is released gets its noise from the table alone."""
    root = Path(vf.__file__).parent
    folders = ("privacy", "engine", "releases", "models/table")
    assert all((root / folder).is_dir() for folder in folders)
    drawn = {
        path.name
        for folder in folders
        for path in (root / folder).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Attribute)
        and node.attr in ("normal", "standard_normal", "laplace", "gumbel")
    }
    # The first fills gaps of rows for their owner, from what was released. The others draw places to
    # ask at: proposals of the exponential mechanism, points of a quadrature, starts of a search.
    places = {"zoom.py", "prior.py", "hmc.py", "flow_sampler.py", "newton.py", "part_mixtures.py"}
    assert drawn == {"imputation.py", *places}


def test_d13_what_floats_leave_open_is_on_the_guarantee():
    assert FloatSums() in small.estimator().plan(2).assumptions
    assert FloatSums() in small.fitted().guarantee.assumptions


def test_d14_an_adaptive_clip_pays_for_its_counts():
    weights = (1e-3, 0.5, 1.0)
    bounds = [engine.AdaptiveQuantile(initial=1.0, count_weight=w).sensitivity for w in weights]
    # gradient and count are one release: the sensitivity is that of both, and more counts cost more
    assert bounds == pytest.approx([math.hypot(1.0, w) for w in weights], rel=1e-6)
    plain = small.moved(small.ROWS, rate=2.0**-31)
    both = small.moved(
        small.ROWS,
        rate=2.0**-31,
        clipping=engine.AdaptiveQuantile(initial=small.CLIP, count_weight=1.0),
    )
    ratio = np.std(small.flat(both)) / np.std(small.flat(plain))
    assert ratio == pytest.approx(2**0.5, rel=1e-3)  # the same normals, wider by the price


@pytest.mark.parametrize("value", [0.0, 1e30, np.nan])
def test_d15_no_record_is_in_the_gradient_of_another(value):
    only = np.arange(8) == 2
    others = small.ROWS.copy()
    others[~only] = value
    np.testing.assert_array_equal(
        small.clipped_sum(small.ROWS, only), small.clipped_sum(others, only)
    )
    assert np.linalg.norm(small.clipped_sum(small.ROWS, only)) > 0.9 * small.CLIP


def test_d15_a_start_from_the_data_is_bought():
    free = small.estimator(start="none").plan(2).ledger
    for start in ("actnorm", "whitening"):
        paid = small.estimator(start=start).plan(2).ledger
        assert len(paid.entries) > len(free.entries)
        assert paid.epsilon(delta=1e-6) <= small.BUDGET.epsilon


def test_d16_nothing_sees_a_loss_so_nothing_is_steered_by_one():
    heard = []
    rows = Sensitive(small.ROWS, description="rows")
    steps = 5
    released = engine.train(
        small.plan(steps=steps),
        small.steep,
        small.model(),
        rows,
        secret=engine.Secret.from_seed(0),
        chunk_size=4,
        monitor=heard.append,
    )
    assert all(type(done) is int for done in heard)
    assert heard[-1] == steps
    assert isinstance(released, Released)
    assert type(released.value) is type(small.model())  # and no loss beside it
    for taken in (engine.train, vf.DensityFlow.fit):
        words = " ".join(inspect.signature(taken).parameters)
        steered = ("callback", "patience", "early", "best", "validation")
        assert not any(bad in words for bad in steered)
    with pytest.raises(ValueError, match="schedule"):  # those that there are count steps
        engine.Optimizer(schedule="plateau")


def test_d17_the_best_of_several_runs_is_one_event_that_costs_more_than_one_run():
    runs, base = NumberOfRuns(stop=0.1, shape=1.0), ApproximateDP(0.5, 1e-8)
    together = selection_event(base, runs=runs)
    assert together.epsilon == pytest.approx(3 * base.epsilon)
    assert together.delta >= base.delta * runs.mean * (1 - 1e-12)
    scores = iter(range(10**6))
    best = repeat_and_select(
        lambda: Released(("model", float(next(scores))), base), runs=runs, base=base
    )
    assert best.event == together
    with pytest.raises(vf.PrivacyError, match="more than its base"):
        repeat_and_select(
            lambda: Released(("model", 0.0), PureDP(0.6)), runs=runs, base=PureDP(0.5)
        )
