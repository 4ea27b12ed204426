"""Settings of a training: what a user leaves open is filled, what was given is kept."""

import dataclasses
import json

import pytest

import veilflow as vf
from veilflow._core.codec import plain, restored
from veilflow.engine import Flat, PerLayer, PerUnit, Sparsified
from veilflow.engine.training import CLIPPINGS

NAMES = [field.name for field in dataclasses.fields(vf.Training)]
USUAL = {
    "steps": 100,
    "clip_norm": 1.0,
    "learning_rate": 0.01,
    "weight_decay": 0.1,
    "optimizer": "adam",
    "ema_decay": 0.99,
}


def test_what_is_open_is_filled_and_what_was_given_is_kept():
    filled = vf.Training().resolved(sampling_rate=0.25, **USUAL)
    assert filled == vf.Training(sampling_rate=0.25, **USUAL)
    chosen = {
        "steps": 0,
        "clip_norm": 3.0,
        "learning_rate": 0.5,
        "weight_decay": 0.0,
        "optimizer": "sgd",
        "ema_decay": 0.5,
    }
    kept = vf.Training(**chosen).resolved(sampling_rate=0.25, **USUAL)
    assert {name: getattr(kept, name) for name in chosen} == chosen


def test_no_average_is_a_choice_and_auto_is_none():
    assert vf.Training(ema_decay=None).resolved(sampling_rate=0.1, **USUAL).ema_decay is None
    assert vf.Training(ema_decay="auto").resolved(sampling_rate=0.1, **USUAL).ema_decay == 0.99
    without = {**USUAL, "ema_decay": None}
    assert vf.Training().resolved(sampling_rate=0.1, **without).ema_decay is None


def test_a_batch_size_becomes_a_rate_by_declared_facts_alone():
    chosen = vf.Training(batch_size=50)
    assert chosen.rate(200) == 0.25
    assert chosen.rate(20) == 1.0
    with pytest.raises(ValueError, match="batch_size=50 needs num_records"):
        chosen.rate(None)
    filled = chosen.resolved(sampling_rate=0.25, **USUAL)
    assert (filled.batch_size, filled.sampling_rate) == (None, 0.25)
    assert vf.Training(sampling_rate=0.5).rate(None) == 0.5
    assert vf.Training().rate(1000) is None
    with pytest.raises(ValueError, match="not both"):
        vf.Training(batch_size=5, sampling_rate=0.5)


@pytest.mark.parametrize("name", NAMES)
def test_what_was_given_is_known_by_name(name):
    values = {
        **USUAL,
        "weight_decay": 0.0,
        "batch_size": 8,
        "sampling_rate": 0.5,
        "clipping": "per-layer",
        "sparsity": 0.25,
        "schedule": "linear",
        "rate_decay": 0.5,
        "noise_bands": 4,
    }
    assert vf.Training(**{name: values[name]}).given == (name,)
    assert vf.Training().given == ()
    assert vf.Training(ema_decay=None).given == ("ema_decay",)


@pytest.mark.parametrize(
    "settings",
    [
        vf.Training(),
        vf.Training(batch_size=8, ema_decay=None),
        vf.Training(clip_norm=(0.1, 2), learning_rate=(0.5, 0.25), ema_decay=0.5),
        vf.Training(clipping="sparsified", sparsity=0.75, sampling_rate=1),
        vf.Training(optimizer="rmsprop", schedule="exponential", rate_decay=0.9995),
        vf.Training(noise_bands=16, batch_size=8),
    ],
    ids=repr,
)
def test_settings_come_back_from_json(settings):
    assert restored(vf.Training, json.loads(json.dumps(plain(settings)))) == settings


def made(**changes):
    filled = vf.Training(**changes).resolved(sampling_rate=0.25, **USUAL)
    return filled.plan(noise_multiplier=2.0, expected_batch_size=30.0)


def test_the_engine_runs_what_the_settings_say():
    plan = made(steps=7, learning_rate=0.5, weight_decay=0.25, ema_decay=0.75, optimizer="sgd")
    assert (plan.steps, plan.sampling_rate, plan.expected_batch_size) == (7, 0.25, 30.0)
    assert (plan.noise_multiplier, plan.private, plan.ema_decay) == (2.0, True, 0.75)
    optimizer = plan.optimizer
    assert (optimizer.name, optimizer.learning_rate, optimizer.weight_decay) == ("sgd", 0.5, 0.25)
    assert (optimizer.schedule, optimizer.rate_decay) == ("cosine", 0.9999)
    falling = made(optimizer="rmsprop", schedule="exponential", rate_decay=0.5).optimizer
    assert (falling.name, falling.schedule, falling.rate_decay) == ("rmsprop", "exponential", 0.5)
    assert made(ema_decay=None).ema_decay is None
    assert (made().noise_bands, made(noise_bands=4).noise_bands) == (1, 4)
    free = vf.Training().resolved(sampling_rate=0.25, **USUAL)
    assert free.plan(noise_multiplier=0.0, expected_batch_size=30.0).private is False


@pytest.mark.parametrize(
    ("word", "clipping"),
    [
        ("flat", Flat(0.5)),
        ("per-layer", PerLayer(0.5)),
        ("per-unit", PerUnit(0.5)),
        ("sparsified", Sparsified(0.5, sparsity=0.25)),
    ],
)
def test_every_clipping_has_a_word_and_bounds_one_record_by_the_norm(word, clipping):
    found = made(clipping=word, clip_norm=0.5, sparsity=0.25).clipping
    assert found == clipping
    assert found.sensitivity == 0.5
    assert word in CLIPPINGS


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"schedule": "step"}, "schedule must be one of 'constant', 'cosine'"),
        ({"rate_decay": 1.0}, "rate_decay must be strictly between 0 and 1"),
    ],
)
def test_a_schedule_there_is_not_is_refused_at_once(settings, message):
    with pytest.raises(ValueError, match=message):
        vf.Training(**settings)


def test_one_number_for_each_of_several_networks_needs_a_model_of_several():
    for name in ("clip_norm", "learning_rate"):
        with pytest.raises(ValueError, match=f"{name} must be one number here"):
            made(**{name: (0.5, 0.5)})
    pairs = vf.Training(clip_norm=(0.5, 0.5)).resolved(sampling_rate=0.25, **USUAL)
    given = pairs.plan(noise_multiplier=1.0, expected_batch_size=1.0, clipping=Flat(0.5))
    assert given.clipping == Flat(0.5)
