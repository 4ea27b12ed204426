"""One image reaches the model through ledgered mechanisms, and by no more than its bound."""

from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tests.engine.hostile import norm, subtract
from tests.models.image import small
from veilflow.engine import Flat
from veilflow.engine.observed import clipped_total, measured, observe_gradients
from veilflow.images import Images
from veilflow.models.image import image_parts
from veilflow.models.image.latent_model import ClassModels, ImageLoss
from veilflow.nn.tap import is_layer
from veilflow.privacy.events import PureDP
from veilflow.privacy.guarantees import Released
from veilflow.releases import count
from veilflow.releases.training import PrivateTraining

CLIP = 0.05, 0.12
BOUND = float(np.hypot(*CLIP))


def plan_and_model(**settings):
    plan = small.estimator(**{"clip_norm": CLIP, **settings}).plan()
    assert plan.partition == "none"
    model = ClassModels.create(
        plan.flow, num_classes=plan.num_classes, partition="none", key=jax.random.key(1)
    ).model
    release = plan.release(PrivateTraining)
    steps = image_parts.training_plan(release, image_parts.model_shapes(plan), num_records=40)
    return steps, model, ImageLoss(plan.reconstruction, plan.temperature, plan.num_classes)


SETTINGS = {
    "unconditional": {"spec": small.BARE},
    "conditional": {"partition": "none", "reconstruction": "mse"},
    "told": {"partition": "none", "flow": small.TOLD},
}


@lru_cache
def clipper(kind):
    """From images and who is there to the sum of their clipped gradients, compiled once."""
    plan, model, loss = plan_and_model(**SETTINGS[kind])

    @jax.jit
    def total(records, keep):
        loss_key, clip_key = jax.random.split(jax.random.key(0))
        captured = observe_gradients(loss, model, records, keep, loss_key)
        return clipped_total(lambda o, k: plan.clipping.clip(o, (), k), captured, clip_key)

    return plan, total


anything = hnp.arrays(np.float32, (2, 1, 6, 6), elements=st.floats(width=32))


@given(images=anything)
def test_no_image_moves_both_networks_together_by_more_than_their_bound(images):
    plan, total = clipper("unconditional")
    assert plan.clipping.sensitivity == pytest.approx(BOUND)
    with_both = total(images, jnp.array([True, True]))
    without = total(images, jnp.array([True, False]))
    assert norm(total(images, jnp.array([False, True]))) <= BOUND
    assert norm(subtract(with_both, without)) <= BOUND * (1 + 1e-5)  # sums in float32


@given(images=anything, places=st.lists(st.integers(-(2**31), 2**31 - 1), min_size=2, max_size=2))
def test_the_bound_holds_for_any_label_of_a_conditional_model(images, places):
    plan, total = clipper("conditional")
    assert plan.clipping.sensitivity == pytest.approx(BOUND)
    records = images, np.array(places, np.int32)
    assert norm(total(records, jnp.array([True, False]))) <= BOUND


@pytest.mark.parametrize("size", [0.0, 1.0, 255.0, 1e6, 1e18, 3e38, np.inf, np.nan])
@pytest.mark.parametrize("kind", SETTINGS)
def test_hostile_images_stay_within_the_bound_and_usual_ones_use_it(size, kind):
    _, total = clipper(kind)
    with np.errstate(invalid="ignore"):
        images = np.float32(small.pixels(2)[:, None] / 255) * np.float32(size)
    records = images if kind == "unconditional" else (images, small.places(2))
    share = total(records, jnp.array([True, False]))
    assert norm(share) <= BOUND
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(share))
    if size == 1.0:
        assert norm((share.encoder, share.decoder)) == pytest.approx(CLIP[0], rel=1e-4)
        assert norm(share.flow) <= CLIP[1]
        assert norm(share) > CLIP[0]


def test_one_number_bounds_both_networks_as_a_whole():
    plan, _, _ = plan_and_model(spec=small.BARE, clip_norm=0.07)
    assert plan.clipping == Flat(0.07)


def test_another_image_changes_no_gradient_but_its_own():
    _, model, loss = plan_and_model(spec=small.BARE)

    @jax.jit
    def gradients(images):
        captured = observe_gradients(loss, model, images, jnp.ones(5, bool), jax.random.key(0))
        found = measured(captured).per_record()
        stacks = [len(layer.stack) for layer in layers_of(model)]
        return [
            jnp.moveaxis(leaf, stack, 0)  # images first, then blocks
            for stack, layer in zip(stacks, found, strict=True)
            for leaf in jax.tree.leaves(layer)
        ]

    images = np.float32(small.pixels(5)[:, None] / 255)
    before = gradients(images)
    for bad in (0.3, 1e18, np.nan):
        changed = images.copy()
        changed[2] = bad
        for one, two in zip(before, gradients(changed), strict=True):
            np.testing.assert_array_equal(np.delete(one, 2, axis=0), np.delete(two, 2, axis=0))
            assert not np.array_equal(one[2], two[2])


def layers_of(model):
    return [node for node in jax.tree.leaves(model, is_leaf=is_layer) if is_layer(node)]


@pytest.mark.few(2)
@pytest.mark.parametrize("kind", small.KINDS)
def test_given_the_answers_of_the_mechanisms_the_images_change_nothing(kind, monkeypatch):
    monkeypatch.setattr(count, "count_records", lambda *_, **__: Released(37, PureDP(0.08)))
    made = small.estimator(**{**small.KINDS[kind], "num_records": None})
    images = small.images(made.spec)
    labels = None if images.labels is None else np.append(images.labels, np.int32(2))
    white = np.full((1, 1, 6, 6), 255, np.uint8)
    more = Images(np.concatenate([images.pixels, white]), labels, made.spec)
    with small.untrained() as seen:  # where training answers the same, whatever it sees
        assert small.same(made.fit(images, progress=False), made.fit(more, progress=False))
    few, many = (jax.tree.leaves(records)[0] for records in seen)
    assert (len(few), len(many)) == (40, 41)


def test_no_image_and_no_seed_is_in_the_file(tmp_path):
    images = small.images()
    made = small.estimator(seed=987_654_321)
    with small.untrained():
        made.fit(images, progress=False, save_as=tmp_path / "m.veil")
    data = (tmp_path / "m.veil").read_bytes()
    assert b"987654321" not in data
    assert all(image.tobytes() not in data for image in images.pixels)
    assert "987654321" not in repr(made)


def test_bytes_and_numbers_from_0_to_1_have_the_same_loss():
    _, model, loss = plan_and_model(spec=small.BARE)
    image = small.pixels(1)
    one, two = loss(model, image, None), loss(model, np.float32(image) / np.float32(255), None)
    assert one == two


@pytest.mark.parametrize("reconstruction", ["bce", "mse"])
def test_the_loss_is_the_weighted_error_of_pixels_less_the_log_density_of_the_code(reconstruction):
    _, model, _ = plan_and_model(spec=small.BARE)
    image = np.float32(small.pixels(1)) / 255
    code = model.encoder(image)
    shown = np.float64(jax.nn.sigmoid(model.decoder(code)))
    error = np.square(shown - image)
    if reconstruction == "bce":
        error = -image * np.log(shown) - (1 - image) * np.log(1 - shown)
    wanted = 9.0 * error.mean() - model.flow.log_prob(code)
    found = ImageLoss(reconstruction, 3.0)(model, image, None)
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
