"""How many images are in flight: large ones few, so that they fit on a device."""

import jax
import pytest

import veilflow as vf
from veilflow.models.image import image_parts as parts
from veilflow.models.image.architecture import PRESETS
from veilflow.releases.training import PrivateTraining

BUDGET = vf.Budget(epsilon=10.0, delta=1e-5)


def at_once(spec, monkeypatch, backend, num_records=60_000):
    plan = vf.ImageFlow(spec=spec, budget=BUDGET, num_records=num_records).plan()
    shapes, one = parts.model_shapes(plan), num_records / plan.num_parts
    steps = parts.training_plan(plan.release(PrivateTraining), shapes, num_records=one)
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    return parts.images_at_once(shapes, plan.flow, steps, parts=plan.num_parts), steps


def test_small_images_go_in_one_chunk_and_large_ones_in_several(monkeypatch):
    digits = vf.ImageSpec(height=28, width=28, classes=range(10))
    size, plan = at_once(digits, monkeypatch, "gpu")
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
    spec = vf.ImageSpec(height=28, width=28, classes=range(10))
    assert at_once(spec, monkeypatch, "gpu")[0] == 1
