"""Plans: one frozen object, from which sampling, noise and accounting all follow."""

import dataclasses
import json

import jax.numpy as jnp
import numpy as np
import pytest

from veilflow import nn
from veilflow.engine import AdaptiveQuantile, Flat, Optimizer, PerLayer, Sparsified, TrainingPlan
from veilflow.engine.blocks import choose_chunk
from veilflow.privacy.events import Gaussian, NonPrivate, PoissonSampled, Repeated

SOUND = {
    "clipping": Flat(1.0),
    "noise_multiplier": 1.5,
    "sampling_rate": 0.1,
    "expected_batch_size": 50.0,
    "steps": 200,
}


def plan(**changes) -> TrainingPlan:
    return TrainingPlan(**{**SOUND, **changes})


def test_the_event_is_what_the_numbers_say():
    one = PoissonSampled(0.1, Gaussian(1.5))
    assert plan().event == Repeated(200, one)
    assert plan().event_after(7) == Repeated(7, one)
    assert plan(sampling_rate=1).event == Repeated(200, PoissonSampled(1, Gaussian(1.5)))


def test_neither_the_clip_norm_nor_the_divisor_nor_the_optimizer_changes_the_cost():
    other = plan(
        clipping=Flat(9.0), expected_batch_size=1.0, optimizer=Optimizer(name="sgd"), ema_decay=0.9
    )
    assert other.event == plan().event


def test_a_run_without_privacy_says_so():
    assert plan(private=False, noise_multiplier=0.0).event == NonPrivate()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"noise_multiplier": 0.0}, "noise_multiplier must be positive .* private=False"),
        ({"noise_multiplier": -1.0}, "noise_multiplier must be positive"),
        ({"noise_multiplier": float("inf")}, "noise_multiplier must be positive and finite"),
        ({"noise_multiplier": float("nan")}, "noise_multiplier must be a number, got NaN"),
        ({"private": False}, "a run without privacy adds no noise, got noise_multiplier=1.5"),
        ({"sampling_rate": 0.0}, "sampling_rate must be above 0 and at most 1, got 0.0"),
        ({"sampling_rate": 1.0 + 1e-12}, "sampling_rate must be above 0 and at most 1"),
        ({"sampling_rate": float("nan")}, "sampling_rate must be a number, got NaN"),
        ({"sampling_rate": 1e-10}, "no record would ever be drawn"),
        ({"expected_batch_size": 0.0}, "expected_batch_size must be positive"),
        ({"steps": 0}, "steps must be at least 1, got 0"),
        ({"ema_decay": 1.0}, "ema_decay must be strictly between 0 and 1"),
        ({"ema_decay": 0.0}, "ema_decay must be strictly between 0 and 1"),
    ],
)
def test_numbers_that_make_no_plan_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        plan(**changes)


@pytest.mark.parametrize("steps", [1.5, "10", None, True])
def test_steps_must_be_whole(steps):
    with pytest.raises(TypeError, match="steps must be a whole number"):
        plan(steps=steps)


@pytest.mark.parametrize("clip_norm", [0.0, -1.0, float("inf"), float("nan")])
def test_a_clip_norm_must_be_positive(clip_norm):
    with pytest.raises(ValueError, match="clip_norm must be"):
        Flat(clip_norm)


def test_a_plan_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        plan().steps = 1  # type: ignore[misc]


@pytest.mark.parametrize("clipping", [Flat(1.0), PerLayer(1.0), AdaptiveQuantile()])
def test_every_number_of_a_plan_is_in_its_json(clipping):
    whole = plan(clipping=clipping, ema_decay=0.9)
    plain = json.loads(json.dumps(whole.to_json()))
    assert set(plain) == {field.name for field in dataclasses.fields(TrainingPlan)}
    assert plain["clipping"]["kind"] == type(clipping).__name__
    assert Optimizer(**plain["optimizer"]) == whole.optimizer
    assert plain["noise_multiplier"] == 1.5


def test_plans_that_differ_anywhere_differ_in_their_json():
    changes = [
        {"clipping": Flat(2.0)},
        {"clipping": PerLayer(1.0)},
        {"noise_multiplier": 1.6},
        {"sampling_rate": 0.2},
        {"expected_batch_size": 51.0},
        {"steps": 201},
        {"optimizer": Optimizer(momentum=0.5)},
        {"ema_decay": 0.5},
        {"noise_multiplier": 0.0, "private": False},
    ]
    plains = [json.dumps(plan(**change).to_json(), sort_keys=True) for change in [{}, *changes]]
    assert len(set(plains)) == len(changes) + 1


def test_chunks_shrink_so_that_the_gradients_of_loose_parameters_fit_into_memory():
    loose = {"weight": jnp.zeros(10_000)}
    chunk = choose_chunk(loose, plan(), limit=2**20)
    assert 1 <= chunk <= 2**20 // (4 * 10_000)
    assert choose_chunk(loose, plan(), limit=1) == 1


def test_layers_need_no_small_chunks_unless_the_clipping_materializes():
    layer = nn.Dense(jnp.zeros((300, 300)), jnp.zeros(300))
    assert choose_chunk(layer, plan(), limit=2**20) >= 50
    sparse = Sparsified(1.0, 0.5)
    assert choose_chunk(layer, plan(clipping=sparse), limit=2**20) < 20


def test_a_chunk_holds_at_least_one_record_and_is_a_plain_number():
    chunk = choose_chunk({"weight": np.zeros(3, np.float32)}, plan(expected_batch_size=1e6))
    assert type(chunk) is int
    assert chunk >= 1
