"""The curator's report of classifiers, images, posteriors and detectors: true to what it measured."""

import base64
import dataclasses
import re
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

import veilflow as vf
from tests.models.detect.models import mixture
from tests.models.expm import test_classifier as classifiers
from tests.models.image import small as images
from tests.reports.test_curator import checked
from veilflow.flows import FixedLinear, Flow, StandardNormal
from veilflow.models.posterior.regressions import Regression
from veilflow.reports import curator_report, render
from veilflow.reports.detector import detector_sections, ensemble_sections
from veilflow.reports.labeled import calibration, classifier_sections
from veilflow.reports.pictures import image_sections
from veilflow.reports.posterior import posterior_sections

RNG = np.random.default_rng(0)
NUM = 2000
AGES = RNG.uniform(20, 80, NUM)
BOUNDS = {"linear": (0.0, 300.0), "logistic": (0.0, 1.0), "poisson": (0.0, 60.0)}
TRUTH = {"linear": (120.0, 0.5, np.log(10.0)), "logistic": (-0.4, 0.05), "poisson": (1.5, 0.02)}


def regression(kind: str) -> Regression:
    low, high = BOUNDS[kind]
    return Regression(kind=kind, columns=("age",), target="y", bounds=((20.0, low), (80.0, high)))


def posterior(kind: str, *, off: float = 0.0, known: bool = True) -> vf.FittedPosterior:
    """Nearly sure of the truth, but for an intercept that is off."""
    model = regression(kind)
    plan = vf.FlowPosterior(
        log_likelihood=model.log_likelihood,
        parameters=model.parameters,
        budget=vf.Budget(1.0, 1e-6),
    ).plan()
    mean = np.array(TRUTH[kind]) + np.eye(len(TRUTH[kind]))[0] * off
    flow = Flow(StandardNormal(len(mean)), FixedLinear(factor=1e-3 * np.eye(len(mean)), shift=mean))
    return vf.FittedPosterior(
        flow=flow,
        parameters=model.parameters,
        regression=model if known else None,
        plan=plan,
        guarantee=plan.guarantee,
        facts={},
    )


def records(kind: str) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    predictor = TRUTH[kind][0] + TRUTH[kind][1] * (AGES - 50)
    if kind == "linear":
        y = predictor + 10 * rng.standard_normal(NUM)
    elif kind == "logistic":
        y = (rng.random(NUM) < 1 / (1 + np.exp(-predictor))).astype(float)
    else:
        y = rng.poisson(np.exp(predictor)).astype(float)
    return pd.DataFrame({"y": y, "age": AGES, "other": "not a number"})


def compared(kind: str, **settings: Any) -> dict[str, Any]:
    found = posterior_sections(posterior(kind, **settings), records(kind), max_rows=10_000, seed=0)
    return found["posterior"]["compared"]


# -- posteriors ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["linear", "poisson"])
def test_intervals_hold_as_many_records_as_they_should_if_the_posterior_is_right(kind):
    found = compared(kind)
    for level, share in found["coverage"]:
        assert share == pytest.approx(level, abs=4 * np.sqrt(level * (1 - level) / NUM))
    assert found["means"][0] == pytest.approx(records(kind)["y"].mean())
    assert found["means"][1] == pytest.approx(found["means"][0], rel=0.02)
    wrong = compared(kind, off=20.0 if kind == "linear" else 1.0)
    assert all(share < level - 0.1 for level, share in wrong["coverage"])


def test_chances_of_a_logistic_regression_are_compared_with_what_came():
    found, frame = compared("logistic"), records("logistic")
    assert found["calibration"]["off"] < 0.04
    assert found["area"] == pytest.approx(roc_auc_score(frame["y"], frame["age"]), abs=1e-9)
    assert compared("logistic", off=1.5)["calibration"]["off"] > 0.2
    page = curator_report(posterior("logistic"), frame, test=frame)
    checked(page)
    assert "records held out" in page


def test_a_posterior_shows_parameters_with_intervals_and_correlations():
    page = curator_report(posterior("linear"), records("linear"), max_rows=500)
    found = checked(page)
    assert sum(tag == "svg" for tag, _ in found.tags) == 3 + 1
    assert page.count('class="upright"') == 2 * 3
    assert "a posterior of the parameters" in page
    assert "2000 records were read, 500 of them drawn" in page
    low, high = 120 - 1.96e-3, 120 + 1.96e-3
    assert f"95 % from {render.number(low)} to {render.number(high)}" in page
    assert "Strongest correlations" in page


def test_without_a_likelihood_no_record_is_read():
    page = curator_report(posterior("linear", known=False), object())
    checked(page)
    assert "no record was read for this page" in page


def test_hostile_names_are_text():
    hostile = '<script>"x"&\x1b'
    plain = posterior("logistic", known=False)
    other = dataclasses.replace(plain, parameters=("a", hostile))
    pages = [curator_report(model, None) for model in (plain, other)]
    tags = [[tag for tag, _ in checked(page).tags] for page in pages]
    assert tags[0] == tags[1]  # not one tag more
    assert "&lt;script&gt;" in pages[1]
    assert "\x1b" not in pages[1]


def test_a_regression_of_other_parameters_is_refused():
    with pytest.raises(ValueError, match="other parameters than the posterior"):
        dataclasses.replace(posterior("linear"), regression=regression("logistic"))


# -- classifiers -----------------------------------------------------------------------------------


def test_areas_and_calibration_are_those_of_the_probabilities():
    model = classifiers.fitted(seed=1)
    labels = np.append(classifiers.LABELS[1:], 7)  # no class of the model
    found = classifier_sections(model, classifiers.ROWS, labels=labels)["classes"]
    chances, known = model.predict_proba(classifiers.ROWS)[:-1, 1], labels[:-1]
    assert found["area"] == pytest.approx(roc_auc_score(known, chances))
    assert found["other"] == 1
    assert sum(line["count"] for line in found["calibration"]["lines"]) == classifiers.NUM - 1
    page = curator_report(model, classifiers.ROWS, labels=labels)
    checked(page)
    assert "1 records have a label that is no class" in page
    with pytest.raises(ValueError, match="one for each record"):
        classifier_sections(model, classifiers.ROWS, labels=labels[1:])
    with pytest.raises(ValueError, match="one of the classes"):
        classifier_sections(model, classifiers.ROWS, labels=labels + 10)


def test_three_classes_have_a_mean_area_and_the_chance_of_the_guess():
    class Model:
        classes = ("a", "b", "c")

        def predict_proba(self, rows):
            return np.asarray(rows)

    places = RNG.integers(0, 3, 300)
    chances = RNG.dirichlet([1, 1, 1], 300) + np.eye(3)[places]
    chances /= chances.sum(axis=1, keepdims=True)
    labels = np.array(Model.classes)[places]
    found = classifier_sections(Model(), chances, labels=labels)["classes"]
    wanted = roc_auc_score(places, chances, multi_class="ovr")
    assert found["area"] == pytest.approx(wanted)
    assert found["accuracy"] == pytest.approx(np.mean(chances.argmax(axis=1) == places))
    one = classifier_sections(Model(), chances[places == 0], labels=labels[places == 0])["classes"]
    assert one["area"] is None


def test_calibration_is_off_by_the_mean_distance_of_its_bins():
    chances = np.array([0.05, 0.05, 0.95, 0.95, 1.0])
    found = calibration(chances, np.array([False, True, True, True, True]), of="x")
    assert found["off"] == pytest.approx((2 * 0.45 + 3 * (1 - 2.9 / 3)) / 5)
    assert [(one["range"], one["count"]) for one in found["lines"]] == [
        ("0 to 10 %", 2),
        ("90 to 100 %", 3),
    ]


# -- images ----------------------------------------------------------------------------------------


def pictures(page: str) -> set[bytes]:
    return {base64.b64decode(data) for data in re.findall(r'base64,([^"]+)"', page)}


def test_real_images_are_shown_only_if_somebody_asks():
    settings: dict[str, Any] = {"labels": images.places()}
    page = curator_report(images.drawn(), images.pixels(), **settings)
    shown = curator_report(images.drawn(), images.pixels(), show_images=True, **settings)
    checked(page)
    checked(shown)
    assert "No single real image is shown" in page
    assert page.count('alt="Synthetic images, class') == 3
    assert 'alt="Real images' not in page
    assert len(pictures(shown) - pictures(page)) == shown.count('alt="Real images, class') == 3
    assert pictures(page) < pictures(shown)


def test_shares_of_classes_are_those_of_the_records():
    places = np.array([0, 0, 0, 2], np.int32)
    found = image_sections(images.drawn(), images.pixels(4), places, seed=0)["images"]
    assert [(name, real) for name, real, _ in found["balance"]] == [
        ("bar", 0.75),
        ("dot", 0.0),
        ("frame", 0.25),
    ]
    assert found["rows"][1]["means"][0] is None  # nothing is drawn of a class without records
    bare = image_sections(images.drawn("unlabeled"), images.pixels(4), None, seed=0)["images"]
    assert bare["balance"] is None
    with pytest.raises(ValueError, match="no images"):
        image_sections(images.drawn(), images.pixels(0), places[:0], seed=0)


# -- detectors -------------------------------------------------------------------------------------


def test_scores_are_those_of_the_detector():
    detector = vf.LikelihoodDetector(mixture(), false_alarm_rate=0.05).from_samples(4000, seed=1)
    rows = np.vstack([detector.model.sample(1980, seed=2), np.full((20, 2), 9.0)])
    found = detector_sections(detector, rows, None, seed=3)["detector"]
    with pytest.warns(UserWarning, match="outside the declared bounds"):
        assert found["odd"] == np.mean(detector.predict(rows))
    assert found["outside"] == 0.01
    assert abs(found["odd_samples"] - 0.05) < 2 * found["give_or_take"]
    page = curator_report(detector, rows)
    checked(page)
    assert "1.00 % lie outside the declared bounds" in page
    assert page.count('class="upright"') == 1
    with pytest.raises(ValueError, match="no threshold yet"):
        curator_report(vf.LikelihoodDetector(mixture()), rows)


def test_images_of_the_class_are_scored_where_labels_tell_it():
    detector = vf.LikelihoodDetector(images.drawn(), threshold=0.0, label="dot")
    found = detector_sections(detector, images.pixels(), images.places(), seed=0)["detector"]
    own = images.pixels()[images.places() == 1]
    assert found["count"] == len(own)
    assert found["odd"] == np.mean(detector.predict(own))
    every = detector_sections(detector, images.pixels(), None, seed=0)["detector"]
    assert every["count"] == images.NUM_IMAGES
    assert "class dot" in curator_report(detector, images.images())


@pytest.mark.parametrize("method", ["exponential", "noisy_max", "sparse_vector"])
def test_votes_are_counted_and_nobody_is_answered(method):
    limit: dict[str, Any] = (
        {"max_anomalies": 2} if method == "sparse_vector" else {"max_queries": 6}
    )
    rows = np.vstack([RNG.normal(0, 0.3, (400, 2)), [[3.9, -3.9]] * 3, [[9.0, 9.0]]])
    ensemble = vf.EnsembleDetector(
        budget=vf.Budget(40.0, 1e-6),
        bounds=(-4, 4),
        parts=5,
        flow="mixture",
        num_components=1,
        answers=vf.Answering(method=method, **limit),
        seed=1,
    ).fit(rows[:400], progress=False)
    found = ensemble_sections(ensemble, rows)["ensemble"]
    wanted = (2 * ensemble.votes(rows).open() < 5) | (np.abs(rows) > 4).any(axis=1)
    assert found["odd"] == np.mean(wanted)
    assert found["outside"] == 1 / len(rows)
    assert (found["answered"] is None) == (method == "sparse_vector")
    page = curator_report(ensemble, rows)
    checked(page)
    assert "The ensemble may not be published" in page
    assert "may be published, with its release card" not in page
    assert ensemble.spent == 0
