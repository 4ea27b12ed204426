"""The compiled step: noise of the right size, always, everywhere, and independent."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from veilflow import engine, nn
from veilflow._core.keys import Secret
from veilflow._core.threefry import KEY_WORDS
from veilflow.engine.blocks import step_words
from veilflow.engine.loop import noise_of
from veilflow.engine.step import PURPOSES, Step
from veilflow.nn.tap import is_layer

DIM, SIZE = 4, 40


class Model(eqx.Module):
    one: nn.Dense
    two: nn.Dense
    loose: jax.Array


def make_model():
    keys = jax.random.split(jax.random.key(1), 2)
    layers = [nn.Dense.create(DIM, SIZE, key=k) for k in keys]
    return Model(*layers, jnp.zeros((SIZE, DIM)))


def flat_loss(model, row, key):
    """A loss with no gradient at all: what moves the model is noise."""
    return jnp.sum(row) * 0.0


def steep_loss(model, row, key):
    return 1e3 * jnp.sum(model.one(row) + model.two(row) + model.loose @ row)


def gradient(loss_fn, records, *, step=0, seed=0, **changes):
    """What one step of plain gradient descent at rate 1 subtracts."""
    settings = {
        "clipping": engine.Flat(2.0),
        "noise_multiplier": 3.0,
        "sampling_rate": 0.5,
        "expected_batch_size": 10.0,
        "steps": 100,
        "optimizer": engine.Optimizer(name="sgd", learning_rate=1.0, schedule="constant"),
    }
    plan = engine.TrainingPlan(**{**settings, **changes})
    trainable, fixed = eqx.partition(make_model(), eqx.is_inexact_array)
    run = Step(plan, loss_fn, None, fixed, 8, noise_of(plan, make_model()))
    words = step_words(Secret.from_seed(seed), step, 1)[0]
    state = eqx.filter_jit(run)(run.init(trainable), records, words)
    return jax.tree.map(lambda before, after: before - after, trainable, state.trainable)


def entries(tree):
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)])


def stddev(tree):
    return float(np.std(entries(tree)))


ROWS = np.ones((20, DIM), np.float32)
# entries of the noise: 2 x (160 + 40) + 160 = 560, so a standard deviation is off by 3 %
TOLERANCE = 0.15


def test_noise_is_multiplier_times_sensitivity_over_the_public_batch_size():
    assert stddev(gradient(flat_loss, ROWS)) == pytest.approx(3.0 * 2.0 / 10.0, rel=TOLERANCE)


def test_twice_as_many_records_do_not_change_the_noise():
    one = gradient(flat_loss, ROWS)
    two = gradient(flat_loss, np.concatenate([ROWS, ROWS]))
    np.testing.assert_array_equal(entries(one), entries(two))


def test_an_empty_batch_still_gets_noise():
    # at this rate twenty records are never drawn
    noise = gradient(steep_loss, ROWS, sampling_rate=1e-9)
    assert stddev(noise) == pytest.approx(0.6, rel=TOLERANCE)


def test_hostile_records_leave_noise_and_nothing_else():
    rows = np.full((20, DIM), np.nan, np.float32)
    np.testing.assert_array_equal(
        entries(gradient(steep_loss, rows)), entries(gradient(flat_loss, ROWS))
    )


def test_noise_is_independent_across_tensors_and_steps():
    # correlations of ~160 entries: beyond 0.35 with probability below 1e-5
    first = gradient(flat_loss, ROWS, step=0)
    second = gradient(flat_loss, ROWS, step=1)
    tensors = [first.one.weight, first.two.weight, first.loose, second.one.weight]
    flat = np.stack([np.ravel(t)[:160] for t in tensors])
    correlation = np.corrcoef(flat) - np.eye(len(tensors))
    assert np.abs(correlation).max() < 0.35


def test_noise_is_independent_of_who_was_drawn():
    # the same words as seeds of two purposes would tie the draw to the noise
    secret = Secret.from_seed(0)
    words = step_words(secret, 0, 8)
    assert len({w.tobytes() for w in words.reshape(-1, KEY_WORDS)}) == 8 * len(PURPOSES)


def test_a_steep_record_moves_the_model_by_at_most_the_clip_norm_over_the_batch_size():
    quiet = gradient(flat_loss, ROWS, sampling_rate=1.0)
    loud = np.zeros((20, DIM), np.float32)
    loud[7] = 1e4
    moved = entries(gradient(steep_loss, loud, sampling_rate=1.0)) - entries(quiet)
    alone = entries(gradient(steep_loss, 0 * loud, sampling_rate=1.0)) - entries(quiet)
    assert np.linalg.norm(np.float64(moved - alone)) <= 2 * 2.0 / 10.0 * (1 + 1e-5)


def test_adaptive_clipping_adds_noise_for_its_count():
    clipping = engine.AdaptiveQuantile(initial=2.0, count_weight=1.0)
    noise = gradient(flat_loss, ROWS, clipping=clipping)
    assert stddev(noise) == pytest.approx(3.0 * 2.0 * 2**0.5 / 10.0, rel=TOLERANCE)


def test_no_array_of_records_times_parameters_is_built():
    trainable, fixed = eqx.partition(
        Model(*[nn.Dense.create(64, 64, key=jax.random.key(i)) for i in range(2)], jnp.zeros(1)),
        eqx.is_inexact_array,
    )
    plan = engine.TrainingPlan(
        clipping=engine.Flat(1.0),
        noise_multiplier=1.0,
        sampling_rate=0.5,
        expected_batch_size=16,
        steps=1,
    )

    def loss(model, row, key):
        return jnp.sum(model.two(jnp.tanh(model.one(row)))) + model.loose[0]

    step = Step(plan, loss, None, fixed, 16, noise_of(plan, trainable))
    words = jnp.zeros((3, KEY_WORDS), jnp.uint32)
    program = jax.make_jaxpr(step)(step.init(trainable), jnp.zeros((32, 64)), words)
    largest = max(size for size in sizes(program.jaxpr))
    # all parameters once, for the noise, and not 16 times as many
    assert largest <= sum(x.size for x in jax.tree.leaves(trainable))


def sizes(jaxpr):
    for eqn in jaxpr.eqns:
        for variable in eqn.outvars:
            yield getattr(variable.aval, "size", 0)
        for value in eqn.params.values():
            for inner in value if isinstance(value, tuple | list) else [value]:
                inner = getattr(inner, "jaxpr", inner)
                if hasattr(inner, "eqns"):
                    yield from sizes(inner)


def test_layers_are_leaves_the_engine_finds():
    found = jax.tree.leaves(make_model(), is_leaf=is_layer)
    assert sum(map(is_layer, found)) == 2
