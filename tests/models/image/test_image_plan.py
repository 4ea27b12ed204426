"""Settings of a fit from public facts: networks for any size, the paper's numbers, what is chosen."""

import json
import math
from dataclasses import replace

import equinox as eqx
import jax
import pytest

import veilflow as vf
from tests.models.image import small
from veilflow._core.codec import plain, restored
from veilflow.engine.observed import num_parameters
from veilflow.models.image import image_parts as parts
from veilflow.models.image.architecture import (
    PRESETS,
    ImageArchitecture,
    architecture_for,
    nearest_preset,
)
from veilflow.releases.plan import FitPlan
from veilflow.releases.training import PrivateTraining

BUDGET = vf.Budget(epsilon=10.0, delta=1e-5)
DIGITS = vf.ImageSpec(height=28, width=28, classes=range(10))


def planned(**settings):
    return vf.ImageFlow(**{"spec": DIGITS, "budget": BUDGET, **settings}).plan()


def training(**settings):
    return planned(**settings).release(PrivateTraining).settings


@pytest.mark.parametrize("name", PRESETS)
def test_an_image_of_a_presets_size_gets_the_preset(name):
    height, width, colors = (int(part) for part in name.split("x"))
    assert nearest_preset((height, width), colors) == name
    assert architecture_for((height, width), colors) == PRESETS[name]


@pytest.mark.parametrize(
    ("size", "colors", "channels", "latent"),
    [
        ((8, 8), 1, (64,), 20),
        ((1, 4), 1, (64,), 4),
        ((14, 14), 1, (64,), 20),
        ((28, 56), 1, (32, 64), 20),
        ((64, 64), 1, (32, 64, 128, 256), 32),
        ((16, 16), 3, (128, 256), 32),
        ((512, 512), 3, (8, 16, 32, 64, 128, 256, 512), 64),
        ((4096, 4096), 3, (8, 8, 8, 8, 16, 32, 64, 128, 256, 512), 64),
    ],
)
def test_other_sizes_get_the_nearest_preset_with_as_many_convolutions_as_they_need(
    size, colors, channels, latent
):
    found = architecture_for(size, colors)
    assert (found.size, found.colors) == (size, colors)
    assert (found.channels, found.latent) == (channels, latent)


@pytest.mark.parametrize("told", [{}, {"condition_dim": 4, "num_classes": 4}], ids=str)
@pytest.mark.parametrize(
    "architecture",
    [
        PRESETS["28x28x1"],
        ImageArchitecture(size=(5, 9), colors=3, channels=(3, 4, 5), latent=7, hidden=()),
        ImageArchitecture(size=(1, 1), channels=(2,), latent=1, blocks=1, scalar_map="spline"),
        ImageArchitecture(size=(4, 4), channels=(2,), latent=2, decoder_sees_class=True),
        *(
            ImageArchitecture(
                size=(2, 2), channels=(2,), latent=3, blocks=2, hidden=h, told_blocks=b
            )
            for b, h in (("first", ()), ("last", (5,)), ("ends", (5,)), ("none", ()))
        ),
    ],
    ids=lambda x: str(x.size),
)
def test_parameters_are_counted_before_anything_is_built(architecture, told):
    built = eqx.filter_eval_shape(architecture.build, key=jax.random.key(0), **told)
    assert architecture.num_parameters(**told) == num_parameters(built)


@pytest.mark.parametrize("settings", [{"spec": small.BARE}, {"partition": "models"}], ids=str)
def test_only_a_decoder_of_several_classes_can_be_told_the_class(settings):
    with pytest.raises(ValueError, match="for a decoder that several classes share"):
        small.estimator(flow=small.TOLD, **settings)


def test_one_model_for_all_classes_is_told_the_class_somewhere():
    sizes = replace(small.SIZES, told_blocks="none")
    with pytest.raises(ValueError, match="is not told the class"):
        small.estimator(flow=sizes, partition="none")
    told = replace(sizes, decoder_sees_class=True)
    assert small.estimator(flow=told, partition="none").plan().tells_class
    assert small.estimator(flow=sizes).plan().partition == "flows"  # which has no condition


def test_sizes_survive_json():
    for architecture in PRESETS.values():
        assert restored(ImageArchitecture, json.loads(json.dumps(plain(architecture)))) == (
            architecture
        )


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        ({"size": (8, 8, 3)}, ValueError, "size must have 2 numbers"),
        ({"size": 8}, TypeError, "size must be a list of numbers"),
        ({"size": (9000, 8)}, ValueError, "8192 pixels a side"),
        ({"channels": ()}, ValueError, "at least one convolution"),
        ({"channels": (0,)}, ValueError, "channels must be at least 1"),
        ({"channels": (1,) * 21}, ValueError, "channels and hidden may have 20 sizes"),
        ({"scalar_map": "linear"}, ValueError, "scalar_map must be one of"),
        ({"hidden": (0,)}, ValueError, "hidden must be at least 1"),
        ({"blocks": 1001}, ValueError, "1000 blocks"),
        ({"told_blocks": "some"}, ValueError, "told_blocks must be one of"),
        ({"told_blocks": "ends", "blocks": 1}, ValueError, "needs 2 blocks, got 1"),
    ],
)
def test_sizes_that_cannot_be_built_are_refused(wrong, error, message):
    with pytest.raises(error, match=message):
        ImageArchitecture(**{"size": (8, 8), **wrong})


def test_digits_get_the_settings_of_the_paper_with_one_bound_for_both_networks():
    plan, settings = planned(), training()
    assert plan.flow == PRESETS["28x28x1"]
    assert plan.partition == "flows"
    assert plan.temperature**2 == pytest.approx(1e5)
    assert math.hypot(*settings.clip_norm) == pytest.approx(0.1)
    assert (settings.steps, settings.sampling_rate) == (800, 0.1)
    assert settings.learning_rate == (0.01, 0.005)


def test_every_setting_of_the_plan_can_be_chosen():
    chosen = {
        "partition": "models",
        "flow": ImageArchitecture(size=(28, 28), latent=6),
        "reconstruction": "mse",
        "temperature": 10.0,
    }
    steps = {
        "steps": 7,
        "sampling_rate": 0.25,
        "clip_norm": (1.0, 2.0),
        "optimizer": "sgd",
        "learning_rate": (0.1, 0.2),
        "weight_decay": 0.0,
        "ema_decay": 0.9,
    }
    usual, plan = planned(), planned(**chosen, training=vf.Training(**steps))
    own = plan.__dataclass_fields__.keys() - FitPlan.__dataclass_fields__.keys()
    assert own == {"spec", *chosen}
    for name, value in chosen.items():
        assert getattr(plan, name) == value != getattr(usual, name)
    settings = plan.release(PrivateTraining).settings
    assert settings == vf.Training(**steps)
    for name, value in steps.items():
        assert value != getattr(training(), name)


@pytest.mark.parametrize("spec", [DIGITS, vf.ImageSpec(height=28, width=28)])
def test_the_plan_is_plain_json_and_knows_whether_there_are_classes(spec):
    plan = planned(spec=spec)
    assert plan.partition == ("flows" if spec.classes else "none")
    assert restored(FitPlan, json.loads(json.dumps(plain(plan)))) == plan


def test_a_batch_of_a_declared_number_of_images_is_a_rate():
    settings = training(num_records=1000, training=vf.Training(batch_size=50))
    assert (settings.sampling_rate, settings.batch_size) == (0.05, None)


def test_the_prices_of_a_plan_are_for_all_numbers_that_get_noise():
    for partition in ("flows", "models", "none"):
        plan = planned(partition=partition)
        priced = plan.release(PrivateTraining).num_parameters
        assert priced >= plan.num_numbers
        assert (priced == plan.num_numbers) == (partition != "flows")


@pytest.mark.slow
def test_smaller_images_take_fewer_steps_and_a_smaller_budget_slower_ones():
    def settings(side=28, epsilon=10.0):
        spec = vf.ImageSpec(height=side, width=side, classes=range(10))
        return training(spec=spec, budget=vf.Budget(epsilon=epsilon, delta=1e-5))

    assert (settings(16).steps, settings(17).steps) == (300, 800)
    rates = [settings(epsilon=epsilon).learning_rate for epsilon in (0.1, 1.0, 5.0, 10.0, 20.0)]
    assert rates[0] == (0.005, 0.0025)
    assert [r[0] for r in rates] == sorted(r[0] for r in rates)
    assert rates[3] == rates[4] == (0.01, 0.005)


# -- how many images are in progress at once ---------------------------------------------------------


def at_once(spec, monkeypatch, backend, num_records=60_000):
    plan = vf.ImageFlow(spec=spec, budget=BUDGET, num_records=num_records).plan()
    shapes, one = parts.model_shapes(plan), num_records / plan.num_parts
    steps = parts.training_plan(plan.release(PrivateTraining), shapes, num_records=one)
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    return parts.images_at_once(shapes, plan.flow, steps, parts=plan.num_parts), steps


def test_small_images_go_in_one_chunk_and_large_ones_in_several(monkeypatch):
    size, plan = at_once(DIGITS, monkeypatch, "gpu")
    assert size > plan.expected_batch_size
    faces = vf.ImageSpec(height=256, width=256, channels=3, classes=range(2))
    size, plan = at_once(faces, monkeypatch, "gpu", num_records=28_000)
    assert plan.expected_batch_size == pytest.approx(1400)
    assert 32 <= size < 300
    taken = 2 * size * parts.bytes_per_image(PRESETS["256x256x3"])
    assert taken <= 2**33
    assert at_once(faces, monkeypatch, "cpu", num_records=28_000)[0] <= size


def test_a_single_image_is_always_taken(monkeypatch):
    monkeypatch.setattr(parts, "_DEVICE_LIMIT", 1)
    assert at_once(DIGITS, monkeypatch, "gpu")[0] == 1
