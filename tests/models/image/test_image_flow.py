"""Fitting images: what is paid and declared, seeds, what is refused."""

import math
from dataclasses import replace

import jax
import numpy as np
import pytest

import veilflow as vf
from tests.images.files import write_image
from tests.models.image import small
from veilflow.images import Images, read_images
from veilflow.privacy.assumptions import FloatSums, Generator, Seeded
from veilflow.privacy.events import NonPrivate, PureDP
from veilflow.releases.plan import SLACK
from veilflow.releases.training import PrivateTraining


@pytest.fixture(params=["by class", "conditional"])
def kind(request) -> str:
    return request.param


# -- what is paid ----------------------------------------------------------------------------------


@pytest.mark.few(1)
def test_the_guarantee_is_within_the_budget_and_recomputes_from_the_ledger(kind):
    model = small.fitted(kind)
    assert 3.9 < model.guarantee.epsilon <= 4.0
    assert model.guarantee.delta == small.BUDGET.delta
    assert model.ledger.epsilon(delta=1e-3) == pytest.approx(model.guarantee.epsilon)
    assert model.ledger.epsilon(delta=1e-3, accountant="dp-accounting") <= 4.0


def test_the_ledger_is_known_before_the_images_are(kind):
    made = small.estimator(**small.KINDS[kind])
    assert made.plan() == small.fitted(kind).plan
    assert [entry.purpose for entry in made.plan().ledger.entries] == ["training", SLACK]


def test_a_model_for_each_class_costs_what_one_model_costs():
    one, each = (small.fitted(kind).ledger.entries for kind in ("conditional", "by class"))
    assert one[0] == each[0]
    assert one[1].event.delta < each[1].event.delta < 1e-12  # more numbers with noise


def test_an_undeclared_count_is_paid_for_and_enters_the_divisor_alone(monkeypatch):
    made, plans, run = small.estimator(num_records=None), [], PrivateTraining.run

    def noted(self, *args, task):
        plans.append(task.plan)
        return run(self, *args, task=task)

    monkeypatch.setattr(PrivateTraining, "run", noted)
    with small.untrained():
        model = made.fit(small.images(), progress=False)
    count, training, slack = model.ledger.entries
    assert (training.purpose, slack.purpose) == ("training", SLACK)
    assert count.purpose == "number of records"
    assert count.event == PureDP(0.02 * 4.0)
    assert made.plan() == model.plan
    assert model.plan.num_records is None
    number, (plan,) = model.facts["num_records"], plans
    assert number >= 1
    assert plan.expected_batch_size == pytest.approx(0.5 * number / 3)
    assert plan.noise_multiplier == training.event.event.event.noise_multiplier


def test_declared_facts_are_confessed_and_paid_ones_are_not():
    def declared(**settings):
        return str(small.estimator(**settings).plan().ledger.assumptions[0])

    form, tail = "the size of images", "were declared, not read from the records"
    assert declared() == f"{form}, the range of pixels, classes and the number of records {tail}"
    assert declared(num_records=None) == f"{form}, the range of pixels and classes {tail}"
    assert declared(num_records=None, spec=small.BARE) == f"{form} and the range of pixels {tail}"


def test_a_chosen_seed_is_confessed_and_a_fresh_secret_is_not():
    common = {FloatSums(), Generator()}
    assert {*common, Seeded()} <= set(small.fitted().guarantee.assumptions)
    fresh = small.estimator(seed=None).plan().ledger.assumptions
    assert common <= set(fresh)
    assert Seeded() not in fresh


def test_too_small_a_budget_is_refused_before_the_images_are_opened():
    made = small.estimator(
        budget=vf.Budget(epsilon=1e-7, delta=1e-12), num_records=10, steps=10_000
    )
    with pytest.raises(vf.BudgetError, match="noise_multiplier"):
        made.plan()
    with small.untrained() as seen, pytest.raises(vf.BudgetError, match="noise_multiplier"):
        made.fit(small.images(), progress=False)
    assert not seen


@pytest.mark.slow
def test_a_fit_without_privacy_says_so_and_learns_what_each_class_looks_like():
    made = small.estimator(
        budget=vf.Budget(epsilon=math.inf, delta=1e-3), steps=300, learning_rate=(0.01, 0.02)
    )
    with pytest.warns(vf.NotPrivateWarning, match="not private"):
        model = made.fit(small.images(), progress=False)
    assert model.guarantee.epsilon == math.inf
    assert [entry.event for entry in model.ledger.entries] == [NonPrivate()]
    assert made.plan() == model.plan

    wanted = [small.pixels()[small.places() == place].mean(axis=0) for place in range(3)]
    for place, name in enumerate(small.CLASSES):
        found = model.sample(64, label=name, seed=0).pixels.mean(axis=(0, 1))
        distances = [np.abs(found - mean).mean() for mean in wanted]
        assert np.argmin(distances) == place
    again = model.reconstruct(small.images()).pixels[:, 0]
    assert np.abs(again - small.pixels().astype(float)).mean() < 30


# -- what training sees ----------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_model_and_another_a_new_one(kind):
    made = small.estimator(**small.KINDS[kind])
    images = small.images(made.spec)
    assert small.same(made.fit(images, progress=False), small.fitted(kind))
    other = replace(made, seed=2).fit(images, progress=False)
    assert not np.array_equal(
        other.sample(3, seed=0).pixels, small.fitted(kind).sample(3, seed=0).pixels
    )


def seen(*images, **settings):
    """What training would see of images, and the model."""
    made = small.estimator(**settings.pop("made", {}))
    with small.untrained() as records:
        model = made.fit(*images, progress=False, **settings)
    return records[0], model


def check_seen(found, wanted: Images):
    pixels, labels = found
    np.testing.assert_array_equal(pixels, wanted.pixels, strict=True)
    np.testing.assert_array_equal(labels, wanted.labels, strict=True)


def test_arrays_and_folders_are_read_as_images_are(tmp_path):
    images, labels = small.images(), small.places()
    check_seen(seen(images)[0], images)
    check_seen(seen(small.pixels(), labels)[0], images)
    for i, image in enumerate(small.pixels()):
        write_image(tmp_path / small.CLASSES[labels[i]] / f"{i:03d}.png", image)
    check_seen(seen(tmp_path)[0], images.take(np.argsort(labels, kind="stable")))


def test_bytes_stay_bytes_on_their_way_to_the_device():
    (pixels, _), _ = seen(small.images())
    assert pixels.dtype == np.uint8


@pytest.mark.parametrize("members", [0, 1])
def test_a_class_may_have_no_image_or_one(members):
    images, labels = small.images(), small.places().copy()
    labels[np.flatnonzero(labels == 1)[members:]] = 0
    model = small.estimator().fit(Images(images.pixels, labels, images.spec), progress=False)
    assert (labels == 1).sum() == members
    assert model.guarantee == small.fitted().guarantee
    assert (model.sample(5, label="dot", seed=0).labels == 1).all()
    assert np.isfinite(model.log_prob_by_class(images)).all()


def test_a_fit_that_diverged_says_so():
    infinite = lambda models: jax.tree.map(lambda x: x * np.inf, models)  # noqa: E731
    with small.untrained(infinite), pytest.warns(UserWarning, match="training diverged"):
        small.estimator().fit(small.images(), progress=False)


# -- what is refused -------------------------------------------------------------------------------


def folder_with(tmp_path, name, pixels):
    write_image(tmp_path / "bar" / "1.png", small.pixels(1)[0])
    path = write_image(tmp_path / "dot" / name, pixels)
    return tmp_path, path


BAD_IMAGES = {
    "mixed sizes": (
        lambda: [np.zeros((6, 6)), np.zeros((6, 5))],
        "6 x 5 pixels, but 6 x 6 is declared",
    ),
    "another size": (lambda: np.zeros((4, 6, 7), np.uint8), "6 x 7"),
    "color": (lambda: np.zeros((4, 6, 6, 3), np.uint8), "1 channel"),
    "no number": (lambda: np.full((4, 6, 6), np.nan), "not numbers"),
    "flat": (lambda: np.zeros((4, 36)), "Reshape flat images first"),
}


@pytest.mark.parametrize(("make", "message"), BAD_IMAGES.values(), ids=BAD_IMAGES.keys())
def test_images_that_are_not_as_declared_are_refused(make, message):
    images = make()
    with pytest.raises(ValueError, match=message):
        small.estimator().fit(images, np.zeros(len(images), int), progress=False)


def test_damaged_files_are_refused_or_skipped(tmp_path):
    folder, path = folder_with(tmp_path, "2.png", small.pixels(2)[1])
    path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(ValueError, match="file 2 "):
        small.estimator().fit(folder, progress=False)
    records, model = seen(folder, invalid="skip")
    check_seen(records, small.images().take(slice(1)))
    assert model.plan == small.estimator().plan()


@pytest.mark.slow
def test_images_of_which_none_is_left_are_fitted_like_no_images():
    broken = np.full((3, 6, 6), np.nan)
    model = small.estimator().fit(broken, [0, 1, 2], progress=False, invalid="skip")
    assert model.plan == small.estimator().plan()


BAD_LABELS = {
    "missing": (small.SPEC, None, "there are no labels"),
    "not declared": (small.SPEC, ["bar"] * 39 + ["cat"], "not in the declared class list"),
    "out of the list": (small.SPEC, [3] * 40, "not in the declared class list"),
    "too few": (small.SPEC, [0] * 39, "as many as images"),
    "not asked for": (small.BARE, [0] * 40, "no classes are declared"),
}


@pytest.mark.parametrize(("spec", "labels", "message"), BAD_LABELS.values(), ids=BAD_LABELS.keys())
def test_labels_that_do_not_fit_are_refused(spec, labels, message):
    with pytest.raises(ValueError, match=message):
        small.estimator(spec=spec).fit(small.pixels(), labels, progress=False)


def test_images_with_labels_take_no_others():
    with pytest.raises(ValueError, match="have their labels already"):
        small.estimator().fit(small.images(), [0] * 40, progress=False)
    with pytest.raises(ValueError, match="another specification"):
        small.estimator().fit(small.images(small.BARE), progress=False)


def test_labels_out_of_the_list_are_skipped_on_request():
    labels = np.where(np.arange(40) == 7, 9, small.places())
    records, _ = seen(small.pixels(), labels, invalid="skip")
    check_seen(records, small.images().take(np.arange(40) != 7))


def test_values_out_of_range_are_moved_into_it():
    wild = small.pixels().astype(float)
    wild[0] *= 1e6
    wild[1] = -np.inf
    records, _ = seen(wild, small.places())
    check_seen(records, read_images(np.clip(wild, 0, 255), small.SPEC, labels=small.places()))


WRONG: dict[str, tuple[dict, type[Exception], str]] = {
    "spec": ({"spec": (6, 6)}, TypeError, "spec must be a vf.ImageSpec"),
    "budget": ({"budget": 1.0}, TypeError, "budget must be a Budget"),
    "delta": ({"budget": vf.Budget(1.0, 0.0)}, ValueError, "delta must be positive"),
    "partition": ({"partition": "classes"}, ValueError, "partition must be one of"),
    "no classes": ({"partition": "models", "spec": small.BARE}, ValueError, "needs classes"),
    "flow": ({"flow": (4, 8)}, TypeError, "flow must be a vf.ImageArchitecture"),
    "size": (
        {"flow": vf.ImageArchitecture(size=(6, 7))},
        ValueError,
        r"\(1, 6, 7\).*\(1, 6, 6\)",
    ),
    "reconstruction": ({"reconstruction": "l1"}, ValueError, "'bce', 'mse'"),
    "temperature": ({"temperature": 0}, ValueError, "temperature must be positive"),
    "steps": ({"steps": 0}, ValueError, "steps must be at least 1"),
    "records": ({"num_records": 0}, ValueError, "num_records must be at least 1"),
    "rate": ({"sampling_rate": 1.5}, ValueError, "sampling_rate must be above 0"),
    "training": ({"training": {"steps": 3}}, TypeError, r"training must be vf.Training\(...\)"),
    "batch": (
        {"batch_size": 4, "sampling_rate": None, "num_records": None},
        ValueError,
        "needs num",
    ),
    "three norms": ({"clip_norm": (1, 2, 3)}, ValueError, "clip_norm must be one .* got 3 numbers"),
    "norm": ({"clip_norm": (0.1, 0.0)}, ValueError, "clip_norm must be positive"),
    "clipping": ({"clipping": "per-layer"}, ValueError, "clipping must be 'flat'"),
    "rates": ({"learning_rate": (0.1,)}, ValueError, "learning_rate must be one .* got 1 numbers"),
    "learning": ({"learning_rate": (0.1, -1)}, ValueError, "learning_rate must be positive"),
    "decay": ({"weight_decay": -1}, ValueError, "weight_decay must be at least 0"),
    "ema": ({"ema_decay": 1.0}, ValueError, "ema_decay must be strictly"),
    "seed": ({"seed": 1.5}, TypeError, "seed must be a whole number"),
}


@pytest.mark.parametrize(("change", "error", "message"), WRONG.values(), ids=WRONG.keys())
def test_a_wrong_setting_is_refused_before_there_are_images(change, error, message):
    with pytest.raises(error, match=message):
        small.estimator(**change)


def test_numbers_of_numpy_are_as_good_as_plain_ones(tmp_path):
    made = small.estimator(
        steps=np.int64(3),
        sampling_rate=np.float32(0.5),
        clip_norm=(np.float64(0.1), 0.2),
        learning_rate=[np.float32(0.01), 0.01],
        ema_decay=np.float32(0.5),
    )
    with small.untrained():
        model = made.fit(small.images(), progress=False, save_as=tmp_path / "m.veil")
    assert small.same(vf.load(tmp_path / "m.veil"), model)
    assert model.plan.release(PrivateTraining).settings.ema_decay == 0.5
