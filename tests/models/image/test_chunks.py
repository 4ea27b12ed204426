"""How many images are in flight: large ones few, so that they fit on a device."""

import jax
import pytest

import veilflow as vf
from veilflow.models.image import chunks, pricing
from veilflow.models.image.architecture import PRESETS

BUDGET = vf.Budget(epsilon=10.0, delta=1e-5)


def at_once(spec, monkeypatch, backend, num_records=60_000):
    made = vf.ImageFlow(spec=spec, budget=BUDGET, num_records=num_records)
    recipe, classes = made.recipe(), len(spec.classes)
    prices = pricing.ImagePrices(vf.Ledger(), 1.0, made.ledger().entries[-1].event)
    plan = pricing.training_plan(recipe, prices, num_records=num_records, num_classes=classes)
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    shapes = pricing.shapes_of(recipe, classes)
    parts = max(1, classes)
    return chunks.images_at_once(shapes, recipe.architecture, plan, parts=parts), plan


def test_small_images_go_in_one_chunk_and_large_ones_in_several(monkeypatch):
    digits = vf.ImageSpec(height=28, width=28, classes=range(10))
    size, plan = at_once(digits, monkeypatch, "gpu")
    assert size > plan.expected_batch_size
    faces = vf.ImageSpec(height=256, width=256, channels=3, classes=range(2))
    size, plan = at_once(faces, monkeypatch, "gpu", num_records=28_000)
    assert plan.expected_batch_size == pytest.approx(1400)
    assert 32 <= size < 300
    taken = 2 * size * chunks.bytes_per_image(PRESETS["256x256x3"])
    assert taken <= 2**33
    assert at_once(faces, monkeypatch, "cpu", num_records=28_000)[0] <= size


def test_a_single_image_is_always_taken(monkeypatch):
    monkeypatch.setattr(chunks, "_DEVICE_LIMIT", 1)
    spec = vf.ImageSpec(height=28, width=28, classes=range(10))
    assert at_once(spec, monkeypatch, "gpu")[0] == 1
