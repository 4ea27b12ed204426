"""A model for each part: each learns from its own records alone, and all of them cost one run."""

import equinox as eqx
import hypothesis
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import strategies as st

from tests.engine import hostile
from veilflow import engine
from veilflow._core.errors import PrivacyError
from veilflow._core.keys import Secret
from veilflow.engine.parts import PartsStep
from veilflow.engine.step import Step
from veilflow.nn.frozen import trainable_part
from veilflow.privacy.guarantees import Sensitive

PARTS, CLIP = 3, 0.7
CLIPPING = engine.Flat(CLIP)


def stacked(num_parts=PARTS):
    one = hostile.make_model()
    return jax.tree.map(
        lambda x: (
            jnp.stack([x * (1 + i) if eqx.is_inexact_array(x) else x for i in range(num_parts)])
            if eqx.is_array(x)
            else x
        ),
        one,
    )


def make_plan(**changes):
    settings = {
        "clipping": CLIPPING,
        "noise_multiplier": 1.5,
        "sampling_rate": 1.0,
        "expected_batch_size": 4.0,
        "steps": 5,
        "optimizer": engine.Optimizer(name="sgd", learning_rate=0.1, schedule="constant"),
    }
    return engine.TrainingPlan(**{**settings, **changes})


def step_of(plan, chunk_size=4, at_once=PARTS):
    _, fixed = trainable_part(stacked())
    loss = hostile.loss_fn
    return PartsStep(plan, loss, None, fixed, chunk_size, num_parts=PARTS, at_once=at_once)


STEP = step_of(make_plan())
TRAINABLE = trainable_part(stacked())[0]


@jax.jit
def total(rows, part, drawn):
    return STEP.clipped_sum(TRAINABLE, (), (rows, part), drawn, jax.random.key(5)).total


@jax.jit
def total_of_one(rows, drawn, index):
    model = jax.tree.map(lambda x: x[index] if eqx.is_array(x) else x, stacked())
    trainable, fixed = trainable_part(model)
    step = Step(make_plan(), hostile.loss_fn, None, fixed, 4)
    return step.clipped_sum(trainable, (), rows, drawn, jax.random.key(5)).total


labels = st.lists(st.integers(0, PARTS - 1), min_size=6, max_size=6).map(
    lambda x: np.asarray(x, np.int32)
)


@hypothesis.given(rows=hostile.rows, part=labels, place=st.integers(0, 5))
@hypothesis.settings(max_examples=60, deadline=None)
def test_one_hostile_record_moves_all_parts_together_by_no_more_than_the_clip(rows, part, place):
    with_it = np.ones(6, bool)
    without = with_it.copy()
    without[place] = False
    moved = hostile.subtract(total(rows, part, with_it), total(rows, part, without))
    # sums of up to six clipped shares, rounded
    assert hostile.norm(moved) <= CLIP * (1 + 1e-5)


@hypothesis.given(rows=hostile.rows, part=labels, place=st.integers(0, 5))
@hypothesis.settings(max_examples=40, deadline=None)
def test_a_record_moves_its_own_part_alone(rows, part, place):
    without = np.ones(6, bool)
    without[place] = False
    one, other = total(rows, part, np.ones(6, bool)), total(rows, part, without)
    for x, y in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        others = np.arange(PARTS) != part[place]
        np.testing.assert_array_equal(np.asarray(x)[others], np.asarray(y)[others])


def test_the_sum_of_a_part_is_that_of_its_model_on_its_records():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(11, hostile.DIM)).astype(
        np.float32
    )  # several chunks, the last not full
    part = rng.integers(0, PARTS, 11).astype(np.int32)
    drawn = rng.uniform(size=11) < 0.7
    together = total(rows, part, drawn)
    for index in range(PARTS):
        alone = total_of_one(rows, drawn & (part == index), index)
        for x, y in zip(jax.tree.leaves(together), jax.tree.leaves(alone), strict=True):
            np.testing.assert_allclose(np.asarray(x)[index], y, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("at_once", [1, 2])
def test_how_many_parts_run_side_by_side_changes_nothing(at_once):
    rng = np.random.default_rng(1)
    rows = jnp.asarray(rng.normal(size=(9, hostile.DIM)), jnp.float32)
    part = jnp.asarray(rng.integers(0, PARTS, 9), jnp.int32)
    step = step_of(make_plan(), at_once=at_once)
    other = jax.jit(
        lambda: (
            step.clipped_sum(TRAINABLE, (), (rows, part), np.ones(9, bool), jax.random.key(5)).total
        )
    )()
    for x, y in zip(
        jax.tree.leaves(total(rows, part, np.ones(9, bool))), jax.tree.leaves(other), strict=True
    ):
        np.testing.assert_allclose(x, y, rtol=2e-5, atol=2e-6)


def train(part, *, plan=None, seed=3, rows=None, **settings):
    rows = np.ones((len(part), hostile.DIM), np.float32) if rows is None else rows
    return engine.train_parts(
        make_plan() if plan is None else plan,
        hostile.loss_fn,
        stacked(),
        Sensitive((rows, np.asarray(part, np.int32))),
        num_parts=PARTS,
        secret=Secret.from_seed(seed),
        chunk_size=4,
        **settings,
    )


def test_the_price_is_that_of_one_run():
    plan = make_plan()
    assert train([0, 1, 2, 1], plan=plan).event == plan.event


def test_a_part_without_records_gets_noise_of_its_own():
    moved = [
        np.concatenate([np.ravel(b - a) for a, b in zip(x, y, strict=True)])
        for x, y in [
            (
                [leaf[i] for leaf in jax.tree.leaves(trainable_part(stacked())[0])],
                [leaf[i] for leaf in jax.tree.leaves(trainable_part(train([0, 0]).value)[0])],
            )
            for i in (1, 2)
        ]
    ]
    # five steps at rate 0.1, each with noise of 1.5 clips over a batch of four
    expected = 0.1 * 1.5 * CLIP / 4 * np.sqrt(5)
    for part in moved:
        assert np.std(part) == pytest.approx(expected, rel=0.4)
    assert not np.allclose(moved[0], moved[1])


def test_a_run_goes_on_from_its_checkpoint(tmp_path):
    class Stop(Exception):
        pass

    path = tmp_path / "run.ckpt"
    part = [0, 1, 2, 1]
    whole = train(part)
    checkpoint = engine.Checkpoint(path, seconds=0.0)

    def stop_after_save(done):
        if done > 1:
            raise Stop

    with pytest.raises(Stop):
        train(part, checkpoint=checkpoint, monitor=stop_after_save)
    again = train(part, checkpoint=engine.Checkpoint(path))
    for x, y in zip(jax.tree.leaves(whole.value), jax.tree.leaves(again.value), strict=True):
        np.testing.assert_array_equal(x, y)
    with pytest.raises(PrivacyError, match="set of records"):
        train([0, 1, 2, 2], checkpoint=engine.Checkpoint(path))


def test_a_clip_that_carries_a_state_is_refused():
    with pytest.raises(ValueError, match="fixed bound"):
        train([0, 1], plan=make_plan(clipping=engine.AdaptiveQuantile(1.0)))


def test_models_and_records_must_fit_the_parts():
    with pytest.raises(ValueError, match="3 parts"):
        engine.train_parts(
            make_plan(),
            hostile.loss_fn,
            stacked(2),
            Sensitive((np.ones((2, hostile.DIM), np.float32), np.zeros(2, np.int32))),
            num_parts=PARTS,
            secret=Secret.fresh(),
        )
    with pytest.raises(ValueError, match="common length"):
        train([0, 1], rows=np.ones((3, hostile.DIM), np.float32))


def test_no_records_give_the_very_numbers_of_records_that_are_in_no_part():
    for one, other in zip(*(jax.tree.leaves(train(part)) for part in ([], [-1])), strict=True):
        np.testing.assert_array_equal(one, other)


def test_rates_of_groups_scale_what_the_optimizer_does():
    model = hostile.make_model()
    groups = lambda m: ((m.dense, m.masked), (m.scale, m.loose))  # noqa: E731
    both = engine.ScaledOptimizer.of(model, groups, (0.01, 0.04), schedule="constant")
    plain = engine.Optimizer(learning_rate=0.01, schedule="constant")
    trainable = trainable_part(model)[0]
    gradient = jax.tree.map(lambda x: jnp.ones_like(x) * 0.3, trainable)
    updates = []
    for optimizer in (both, plain):
        rule = optimizer.build(10)
        updates.append(rule.update(gradient, rule.init(trainable), trainable)[0])
    (a, b), (c, d) = groups(updates[0]), groups(updates[1])
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(c), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-6)
    for x, y in zip(jax.tree.leaves(b), jax.tree.leaves(d), strict=True):
        np.testing.assert_allclose(x, 4 * y, rtol=1e-6)


def test_rates_need_a_group_for_every_trained_array():
    model = hostile.make_model()
    with pytest.raises(ValueError, match="exactly one group"):
        engine.ScaledOptimizer.of(model, lambda m: (m.dense, m.masked), (0.1, 0.1))
    with pytest.raises(ValueError, match="as many rates"):
        engine.ScaledOptimizer.of(model, lambda m: (m,), (0.1, 0.1))


def shared(model):
    """What all parts have in common: a dense layer and a loose parameter."""
    return model.dense, model.loose


def with_common():
    """The model of each part, but for what all have in common."""
    one, many = hostile.make_model(), stacked()
    return eqx.tree_at(shared, many, shared(one))


COMMON_MODELS = with_common()
COMMON_TRAINABLE, COMMON_FIXED = trainable_part(COMMON_MODELS)
IN_COMMON = eqx.tree_at(
    shared,
    jax.tree.map(lambda _: False, COMMON_MODELS),
    jax.tree.map(lambda _: True, shared(COMMON_MODELS)),
)
COMMON_STEP = PartsStep(
    make_plan(),
    hostile.loss_fn,
    None,
    COMMON_FIXED,
    4,
    num_parts=PARTS,
    at_once=PARTS,
    in_common=IN_COMMON,
)


@jax.jit
def common_total(rows, part, drawn):
    key = jax.random.key(5)
    return COMMON_STEP.clipped_sum(COMMON_TRAINABLE, (), (rows, part), drawn, key).total


@hypothesis.given(rows=hostile.rows, part=labels, place=st.integers(0, 5))
@hypothesis.settings(max_examples=60, deadline=None)
def test_a_hostile_record_moves_its_part_and_what_is_common_by_one_clip_together(rows, part, place):
    with_it = np.ones(6, bool)
    without = with_it.copy()
    without[place] = False
    one, other = common_total(rows, part, with_it), common_total(rows, part, without)
    assert hostile.norm(hostile.subtract(one, other)) <= CLIP * (1 + 1e-5)
    own = [eqx.filter(total, IN_COMMON, inverse=True) for total in (one, other)]
    for x, y in zip(*map(jax.tree.leaves, own), strict=True):
        others = np.arange(PARTS) != part[place]
        np.testing.assert_array_equal(np.asarray(x)[others], np.asarray(y)[others])


def test_what_is_common_is_the_sum_over_all_parts():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(6, hostile.DIM)).astype(np.float32)
    part = np.array([0, 1, 2, 1, 0, 2], np.int32)
    together = shared(common_total(rows, part, np.ones(6, bool)))
    alone = [shared(common_total(rows, part, part == index)) for index in range(PARTS)]
    summed = jax.tree.map(lambda *parts: sum(parts), *alone)
    for x, y in zip(jax.tree.leaves(together), jax.tree.leaves(summed), strict=True):
        assert x.shape == y.shape
        np.testing.assert_allclose(x, y, rtol=2e-5, atol=2e-6)


def test_training_moves_what_is_common_by_the_mean_over_all_records():
    """Without noise and with one step of descent, both kinds of arrays take the step of a mean."""
    plan = make_plan(noise_multiplier=0.0, private=False, steps=1)
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(12, hostile.DIM)).astype(np.float32)
    part = (np.arange(12) % PARTS).astype(np.int32)
    released = engine.train_parts(
        plan,
        hostile.loss_fn,
        COMMON_MODELS,
        Sensitive((rows, part)),
        num_parts=PARTS,
        secret=Secret.from_seed(0),
        common=shared,
    )
    total = common_total(jnp.asarray(rows), jnp.asarray(part), np.ones(12, bool))
    moved = jax.tree.map(
        lambda x, y: np.asarray(x - y), trainable_part(released.value)[0], COMMON_TRAINABLE
    )
    for place, number in ((shared, 12), (lambda m: eqx.filter(m, IN_COMMON, inverse=True), 4)):
        for x, y in zip(*map(jax.tree.leaves, (place(moved), place(total))), strict=True):
            np.testing.assert_allclose(x, -0.1 * np.asarray(y) / number, rtol=2e-4, atol=2e-6)
