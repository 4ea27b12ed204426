"""Image models that the library fits: what attacks find, and what a step of theirs does."""

import math

import numpy as np
import pytest

import veilflow as vf
from tests.models.image import small
from veilflow import audit
from veilflow.images import read_images, to_unit
from veilflow.privacy.guarantees import Released
from veilflow.releases import training

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

NUM_IMAGES = 60
SPEC = vf.ImageSpec(height=6, width=6, classes=(0, 1))
SIZES = vf.ImageArchitecture(size=(6, 6), channels=(8,), latent=8, blocks=2, hidden=(16,))


def images(seed):
    """Pixels by chance alone: what a model can know of them it has by heart."""
    pixels = np.random.default_rng(seed).integers(0, 256, (NUM_IMAGES, 6, 6)).astype(np.uint8)
    return read_images(pixels, SPEC, labels=np.arange(NUM_IMAGES) % 2)


def fitted(epsilon):
    return vf.ImageFlow(
        spec=SPEC,
        budget=vf.Budget(epsilon=epsilon, delta=1e-3),
        num_records=NUM_IMAGES,
        flow=SIZES,
        training=vf.Training(steps=1000, sampling_rate=1.0),
        partition="models",
        seed=1,
    ).fit(images(0), progress=False)


@pytest.mark.slow
def test_an_overfitted_image_model_is_found_out_and_a_private_one_keeps_its_claim():
    model = fitted(math.inf)
    told = audit.audit(model, images(0), images(1))
    assert told.method == "reconstruction"
    assert told.scores["auc"] > 0.9
    assert told.lower_bound > 1
    near = audit.audit(
        model, images(0), images(1), method="synthetic", synthetic=model.sample(2000, seed=0)
    )
    assert near.scores["auc"] > 0.8
    private = fitted(1.0)
    for method in ("reconstruction", "density"):
        found = audit.audit(private, images(0), images(1), method=method)
        assert not found.exceeds_claim
        assert found.scores["auc"] < 0.65


def test_images_without_classes_are_scored_too():
    model = small.drawn("unlabeled")
    inside, outside = (small.images(small.BARE, seed=seed) for seed in (0, 1))
    for method in (None, "density"):
        found = audit.audit(model, inside, outside, method=method)
        assert not found.exceeds_claim
        # the same images on both sides: nothing to tell
        assert audit.audit(model, inside, inside, method=method).scores["auc"] == 0.5


@pytest.mark.slow
@pytest.mark.usefixtures("optimized")
def test_the_step_that_an_image_model_takes_is_measured(monkeypatch):
    given = {}

    def stand_in(plan, loss, models, records, *, num_parts, common, **_):
        given.update(plan=plan, model=models, loss_fn=loss, num_parts=num_parts, common=common)
        return Released(models, plan.event)

    monkeypatch.setattr(training, "train_parts", stand_in)
    small.estimator().fit(small.images(), progress=False)
    pixels = to_unit(small.images().pixels[:12])
    records = np.asarray(pixels), np.arange(12, dtype=np.int32) % 2  # none of the third part
    report = audit.engine_check(**given, records=records, parts=["sensitivity", "noise"])
    assert report.passed, str(report)
    sensitivity = next(c for c in report.checks if c.name == "sensitivity")
    assert sensitivity.measured > 0.5 * given["plan"].clipping.sensitivity
