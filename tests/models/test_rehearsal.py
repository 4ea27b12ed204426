"""Rehearsal: what a private fit would do, tried on rows that anybody may see."""

import math
from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import veilflow as vf
from veilflow.engine.clipping import Flat
from veilflow.engine.optimizer import Optimizer
from veilflow.engine.plan import TrainingPlan
from veilflow.models import rehearsal
from veilflow.models.rehearsed_training import LANES, Program, Rehearsed, rehearsed
from veilflow.releases.training import PrivateTraining, Task

NUM_ROWS, HELD_OUT = 1500, 300
PLAIN = "plain"


def ring(n: int = NUM_ROWS + HELD_OUT, seed: int = 0) -> np.ndarray:
    """Rows on a ring, which one normal describes badly."""
    rng = np.random.default_rng(seed)
    angle, radius = rng.uniform(0, 2 * np.pi, n), 1 + 0.1 * rng.normal(size=n)
    return np.column_stack([radius * np.cos(angle), radius * np.sin(angle), rng.normal(size=n)])


def estimator(**training) -> vf.DensityFlow:
    return vf.DensityFlow(
        budget=vf.Budget(epsilon=8.0, delta=1e-5),
        row_norm=5.0,
        num_records=NUM_ROWS,
        num_components=2,
        flow=vf.maf(blocks=1, hidden=(4,)),
        training=vf.Training(**{"steps": 30, **training}),
        seed=2,
    )


@pytest.fixture(scope="module")
def model() -> vf.FittedDensityFlow:
    return estimator().fit(ring(NUM_ROWS), progress=False)


# --- the training ---


class Point(eqx.Module):
    """One parameter vector, and a loss that pulls it to each row."""

    at: jax.Array


def pull(model: Point, row: jax.Array, key: jax.Array) -> jax.Array:
    return 0.5 * jnp.sum(jnp.square(model.at - row))


def trained(
    row: tuple[float, ...], *, steps: int = 50, schedule: str = "constant", jobs: int = 1, **changes
) -> list[np.ndarray]:
    """Points after plain steps towards one row, each job like the others unless it is changed."""
    settings = {"clip_norm": 100.0, "rate": 0.1, "decay": 0.0, "noise": 1e-9, **changes}
    program = Program(
        vf.maf(), Optimizer(name="sgd", learning_rate=1.0, schedule=schedule), steps, None
    )
    plan = TrainingPlan(
        clipping=Flat(settings["clip_norm"]),
        noise_multiplier=settings["noise"],
        sampling_rate=0.1,
        expected_batch_size=10.0,
        steps=steps,
        optimizer=Optimizer(
            name="sgd", learning_rate=settings["rate"], weight_decay=settings["decay"]
        ),
    )
    rows = np.tile(np.float32(row), (20, 1))
    job = Rehearsed(Task(plan=plan, model=Point(jnp.zeros(len(row))), loss=pull), rows)
    return [np.asarray(m.at) for m in rehearsed(program, [job] * jobs, jax.random.key(0))]


def test_steps_follow_the_gradient_at_the_rate_of_the_plan():
    (found,) = trained((3.0, -4.0))
    np.testing.assert_allclose(found, np.array([3, -4]) * (1 - 0.9**50), rtol=1e-4)


def test_a_record_moves_the_parameters_by_its_clip_norm_at_most():
    (found,) = trained((300.0, -400.0), clip_norm=2.0)
    np.testing.assert_allclose(found, 50 * 0.1 * 2.0 * np.array([0.6, -0.8]), rtol=1e-4)


def test_weights_decay_as_the_optimizer_says():
    (found,) = trained((3.0, -4.0), decay=1.0)
    np.testing.assert_allclose(found, np.array([1.5, -2.0]) * (1 - 0.8**50), rtol=1e-4)


def test_noise_has_the_deviation_of_the_plan():
    """A thousandth of the clip norm, over 10 records, in each of 40 steps: deviation 1 in a mean."""
    (found,) = trained((0.0,) * 4000, clip_norm=1e4, noise=1e-3, rate=0.01, steps=40)
    # steps towards 0 shrink what is there by 1 % each
    expected = 0.01 * 1.0 * math.sqrt(sum(0.99 ** (2 * i) for i in range(40)))
    assert abs(found.std() / expected - 1) < 0.05


@pytest.mark.parametrize("jobs", [1, LANES, LANES + 1])
def test_trainings_that_run_side_by_side_do_not_mix(jobs: int):
    alone = trained((3.0, -4.0), noise=1.0)[0]
    for found in trained((3.0, -4.0), noise=1.0, jobs=jobs):
        np.testing.assert_allclose(found, alone, rtol=1e-6)


@pytest.mark.parametrize(
    ("training", "message"),
    [({"clipping": "per-layer"}, "clipping='per-layer'"), ({"noise_bands": 2}, "noise_bands=2")],
)
def test_what_the_rehearsed_training_does_not_do_is_refused(training: dict, message: str):
    plan = estimator(**training).plan(3)
    with pytest.raises(ValueError, match=f"{message} cannot be rehearsed"):
        Program.of(plan.release(PrivateTraining), plan.flow)


def test_settings_that_differ_in_numbers_alone_share_a_program():
    found = {
        Program.of(p.release(PrivateTraining), p.flow)
        for p in (estimator(**c).plan(3) for c in ({}, {"learning_rate": 0.5}, {"clip_norm": 3.0}))
    }
    assert len(found) == 1
    longer = estimator(steps=31).plan(3)
    assert Program.of(longer.release(PrivateTraining), longer.flow) not in found


# --- the choice ---


def test_a_rehearsal_on_the_rows_themselves_comes_close_to_the_fit(model):
    """The rows are public here. Batches and noise differ, what is done does not."""
    rows = ring()
    expected = vf.rehearse({PLAIN: estimator()}, on=rows, held_out=HELD_OUT).expected(PLAIN)
    assert abs(expected - model.log_prob(rows[-HELD_OUT:]).mean()) < 0.15


def test_the_better_settings_are_chosen_and_the_worst_dropped(model):
    settings = {
        PLAIN: estimator(),
        "wild": estimator(learning_rate=50.0),
        "still": estimator(learning_rate=1e-6),
        "none": replace(estimator(), flow=None, training=vf.Training(steps=0)),
    }
    found = vf.rehearse(settings, on=model, held_out=HELD_OUT)
    assert found.kinds == ("flow", "bent", "sheet")
    assert len(found.scores["wild"]) == 1
    assert found.best != "wild"
    assert len(found.scores[PLAIN]) == len(found.kinds)  # the first is never dropped
    assert found.scores[found.best] == max(
        (s for s in found.scores.values() if len(s) == 3), key=sum
    )
    for name in (*settings, *found.kinds, "best: "):
        assert name in str(found)


def test_without_halving_all_settings_are_tried_on_all_twins(model):
    settings = {PLAIN: estimator(), "wild": estimator(learning_rate=50.0)}
    found = vf.rehearse(settings, on=model, kinds=("bent", "sheet"), held_out=100, halve=False)
    assert [len(s) for s in found.scores.values()] == [2, 2]


def test_a_rehearsal_repeats_and_needs_no_record(model, tmp_path):
    """It is a function of the published file, the settings and a public seed."""
    model.save(tmp_path / "m.veil")
    first = vf.rehearse({PLAIN: estimator()}, on=model, kinds=("bent",), held_out=100)
    again = vf.load(tmp_path / "m.veil")
    assert vf.rehearse({PLAIN: estimator()}, on=again, kinds=("bent",), held_out=100) == first
    other = vf.rehearse({PLAIN: estimator()}, on=model, kinds=("bent",), held_out=100, seed=1)
    assert other.scores != first.scores


def test_a_training_that_diverges_has_the_lowest_score_and_does_no_harm(model, monkeypatch):
    monkeypatch.setattr(rehearsal, "_mean_log_prob", lambda density, rows: jnp.nan)
    found = vf.rehearse({PLAIN: estimator()}, on=model, kinds=("bent",), held_out=100)
    assert found.scores[PLAIN] == (-math.inf,)


def test_bad_arguments_are_refused(model):
    with pytest.raises(ValueError, match="no settings to rehearse"):
        vf.rehearse({}, on=model)
    with pytest.raises(ValueError, match="held_out must be at least 1"):
        vf.rehearse({PLAIN: estimator()}, on=model, held_out=0)
    with pytest.raises(ValueError, match="1000 of 900 rows are to be held out"):
        vf.rehearse({PLAIN: estimator()}, on=ring(900))
    with pytest.raises(ValueError, match="kind must be one of"):
        vf.rehearse({PLAIN: estimator()}, on=model, kinds=("round",))
    with pytest.raises(ValueError, match="cannot be rehearsed"):
        vf.rehearse(
            {PLAIN: replace(estimator(), training=vf.Training(steps=3, clipping="per-unit"))},
            on=model,
        )
