"""Optimizers by name: what optax does, under settings that can be written down."""

import dataclasses
import json

import jax.numpy as jnp
import numpy as np
import optax
import pytest

from veilflow.engine import Optimizer, ScaledOptimizer

STEPS = 40
SCHEDULES = ("constant", "cosine", "linear", "exponential")
REFERENCES = {
    "sgd": lambda rate: optax.sgd(rate),
    "adam": lambda rate: optax.adam(rate),
    "rmsprop": lambda rate: optax.rmsprop(rate),
    "adabelief": lambda rate: optax.adabelief(rate),
}


def path(transformation, steps=5):
    """Where five gradients take a parameter."""
    value = jnp.array([1.0, -2.0])
    state, found = transformation.init(value), []
    for i in range(steps):
        updates, state = transformation.update(jnp.sin(value + i), state, value)
        value = optax.apply_updates(value, updates)
        found.append(value)
    return np.stack(found)


@pytest.mark.parametrize("name", REFERENCES)
def test_an_optimizer_by_name_is_that_of_optax(name: str):
    ours = Optimizer(name=name, learning_rate=0.1, schedule="constant").build(STEPS)
    np.testing.assert_array_equal(path(ours), path(REFERENCES[name](0.1)))


@pytest.mark.parametrize("name", REFERENCES)
def test_momentum_changes_every_optimizer(name: str):
    plain = Optimizer(name=name, schedule="constant").build(STEPS)
    moved = Optimizer(name=name, schedule="constant", momentum=0.5).build(STEPS)
    assert not np.allclose(path(plain), path(moved), rtol=1e-6)


def test_a_momentum_of_zero_is_not_the_usual_value():
    none = Optimizer(name="adam", schedule="constant", momentum=0.0).build(STEPS)
    np.testing.assert_array_equal(path(none), path(optax.adam(1e-3, b1=0.0)))


DECAYED = {
    "sgd": lambda rate, decay: optax.chain(optax.add_decayed_weights(decay), optax.sgd(rate)),
    "adam": lambda rate, decay: optax.adamw(rate, weight_decay=decay),
    "rmsprop": lambda rate, decay: optax.chain(
        optax.scale_by_rms(), optax.add_decayed_weights(decay), optax.scale_by_learning_rate(rate)
    ),
    "adabelief": lambda rate, decay: optax.chain(
        optax.scale_by_belief(),
        optax.add_decayed_weights(decay),
        optax.scale_by_learning_rate(rate),
    ),
}


@pytest.mark.parametrize("name", DECAYED)
def test_weight_decay_is_that_of_adamw_for_every_optimizer(name: str):
    settings = {"name": name, "learning_rate": 0.1, "schedule": "constant"}
    ours = path(Optimizer(**settings, weight_decay=0.3).build(STEPS))
    np.testing.assert_array_equal(ours, path(DECAYED[name](0.1, 0.3)))
    none = Optimizer(**settings, weight_decay=0.0).build(STEPS)
    np.testing.assert_array_equal(path(none), path(REFERENCES[name](0.1)))
    assert np.abs(ours - path(none)).min() > 1e-4


@pytest.mark.parametrize("name", REFERENCES)
def test_where_gradients_say_nothing_decay_pulls_to_zero_by_its_share_of_the_rate(name: str):
    ours = Optimizer(name=name, learning_rate=0.5, weight_decay=0.2, schedule="linear").build(4)
    value = jnp.array([1.0, -2.0])
    state, factors = ours.init(value), []
    for _ in range(4):
        updates, state = ours.update(jnp.zeros(2), state, value)
        moved = optax.apply_updates(value, updates)
        factors.append(moved / value)
        value = moved
    rates = 0.5 * np.array([1, 0.75, 0.5, 0.25])
    np.testing.assert_allclose(factors, np.repeat((1 - 0.2 * rates)[:, None], 2, 1), rtol=1e-6)


@pytest.mark.parametrize(
    ("schedule", "start", "middle", "end"),
    [("constant", 2.0, 2.0, 2.0), ("cosine", 2.0, 1.0, 0.0), ("linear", 2.0, 1.0, 0.0)],
)
def test_a_schedule_goes_over_the_steps(schedule, start, middle, end):
    rate = Optimizer(learning_rate=2.0, schedule=schedule).rate(STEPS)
    found = [float(rate(step)) for step in (0, STEPS // 2, STEPS)]
    np.testing.assert_allclose(found, [start, middle, end], atol=1e-6)


@pytest.mark.parametrize("decay", [0.9995, 0.9])
@pytest.mark.parametrize("steps", [3, STEPS])
def test_an_exponential_schedule_multiplies_the_rate_at_each_step_whatever_their_number(
    decay, steps
):
    rate = Optimizer(learning_rate=2.0, schedule="exponential", rate_decay=decay).rate(steps)
    found = [float(rate(step)) for step in (0, 1, 20)]
    np.testing.assert_allclose(found, [2.0, 2.0 * decay, 2.0 * decay**20], rtol=1e-5)


@pytest.mark.parametrize("name", ["sgd", "rmsprop"])
def test_the_optimizers_of_the_papers_are_those_of_optax(name: str):
    """RMSProp with a rate that falls exponentially, and plain SGD with one that stays."""
    falling = optax.exponential_decay(0.01, 1, 0.999)
    ours = Optimizer(name=name, learning_rate=0.01, schedule="exponential", rate_decay=0.999)
    np.testing.assert_array_equal(path(ours.build(STEPS)), path(REFERENCES[name](falling)))


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_warmup_rises_from_zero_and_then_follows_the_schedule(schedule):
    rate = Optimizer(learning_rate=2.0, schedule=schedule, warmup=0.25).rate(STEPS)
    rising = [float(rate(step)) for step in range(11)]
    np.testing.assert_allclose(rising, np.linspace(0, 2, 11), atol=1e-6)
    rest = Optimizer(learning_rate=2.0, schedule=schedule).rate(30)
    for step in (10, 20, 40):
        assert float(rate(step)) == pytest.approx(float(rest(step - 10)), abs=1e-6)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("warmup", [0.0, 0.5, 0.99])
@pytest.mark.parametrize("steps", [1, 2, 3])
def test_the_rate_of_a_very_short_run_is_finite(schedule, warmup, steps):
    rate = Optimizer(schedule=schedule, warmup=warmup).rate(steps)
    assert all(0 <= float(rate(step)) <= 1e-3 * (1 + 1e-6) for step in range(steps + 1))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"name": "lion"}, "optimizer must be one of 'sgd', 'adam'"),
        (
            {"schedule": "step"},
            "schedule must be one of 'constant', 'cosine', 'linear', 'exponential', got 'step'",
        ),
        ({"learning_rate": 0.0}, "learning_rate must be positive and finite, got 0.0"),
        ({"learning_rate": float("nan")}, "learning_rate must be a number, got NaN"),
        ({"warmup": 1.0}, "warmup must be at least 0 and below 1, got 1.0"),
        ({"warmup": -0.1}, "warmup must be at least 0"),
        ({"warmup": float("nan")}, "warmup must be"),
        ({"rate_decay": 1.0}, "rate_decay must be strictly between 0 and 1"),
        ({"rate_decay": 0.0}, "rate_decay must be strictly between 0 and 1"),
        ({"rate_decay": float("nan")}, "rate_decay must be"),
        ({"momentum": 1.0}, "momentum must be at least 0 and below 1, got 1.0"),
        ({"momentum": float("nan")}, "momentum must be"),
        ({"weight_decay": -0.1}, "weight_decay must be at least 0 and finite, got -0.1"),
        ({"weight_decay": float("inf")}, "weight_decay must be at least 0 and finite"),
        ({"weight_decay": float("nan")}, "weight_decay must be a number, got NaN"),
    ],
)
def test_settings_that_make_no_optimizer_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        Optimizer(**settings)
    with pytest.raises(ValueError, match=message):
        ScaledOptimizer(**settings, factors=(1.0,))


def test_an_optimizer_is_frozen_and_plain_json():
    optimizer = Optimizer(name="sgd", momentum=0.9, weight_decay=0.1)
    assert Optimizer(**json.loads(json.dumps(dataclasses.asdict(optimizer)))) == optimizer
    with pytest.raises(dataclasses.FrozenInstanceError):
        optimizer.learning_rate = 1.0  # type: ignore[misc]
