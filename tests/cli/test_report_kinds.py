"""`veilflow report --data` of every kind of model file: a page, or a line that says what to give."""

import numpy as np
import pandas as pd
import pytest

import veilflow as vf
from tests.cli.test_models import refused
from tests.models.detect.models import mixture
from tests.models.expm import test_classifier as classifiers
from tests.models.image import small as images
from tests.reports import kinds
from tests.reports.test_curator import checked
from veilflow.images.write import write_images
from veilflow.models import registry
from veilflow.tabular import Rows, write_rows

RNG = np.random.default_rng(0)
TRIED = {
    "ChainedImputer",  # which has no rows of its own, see tests/reports/test_curator
    "DensityFlow",  # as the mixture: both are rows of numbers, see test_reports
    "TableFlow",  # see tests/reports/test_curator
    "MixtureDensity",
    "EnsembleDetector",
    "ExpMechClassifier",
    "FlowPosterior",
    "ImageFlow",
    "LikelihoodDetector",
}


def test_every_kind_of_file_is_tried():
    assert set(registry._MODELS) == TRIED


@pytest.fixture
def report(veilflow, tmp_path):
    """Write a curator's report and return its page."""

    def run(*words):
        done = veilflow("report", *words, "--out", "r", "--force")
        assert done.exit_code == 0, done.stderr
        assert "INTERNAL" in done.stderr
        assert done.stdout == "wrote r/curator.html (INTERNAL: do not publish)\n"
        page = (tmp_path / "r/curator.html").read_text()
        checked(page)
        return page

    return run


def test_a_regression_is_compared_with_its_records(veilflow, report, tmp_path):
    age = RNG.uniform(20, 80, 3000)
    pressure = 120 + 0.5 * (age - 50) + RNG.normal(0, 10, 3000)
    rows = Rows(np.column_stack([age, pressure]), ("age", "pressure"))
    write_rows(rows, tmp_path / "data.csv")
    words = ("--model", "linear", "--target", "pressure", "--low", "20,60", "--high", "80,200")
    spend = ("--epsilon", 3, "--delta", 1e-6, "--seed", 4, "--out", "p.veil")
    assert veilflow("posterior", "fit", "data.csv", *words, *spend).exit_code == 0
    page = report("p.veil", "--data", "data.csv")
    assert "A linear regression of pressure" in page
    assert "Records within their predicted interval" in page
    write_rows(Rows(rows.values[:, :1], ("age",)), tmp_path / "less.csv")
    refused(veilflow("report", "p.veil", "--data", "less.csv", "--out", "s"), "pressure")


def test_a_posterior_of_ones_own_model_shows_its_parameters(report, tmp_path):
    kinds.fitted("posterior").save(tmp_path / "p.veil")
    (tmp_path / "data.csv").write_text("never read\n")
    assert "no record was read for this page" in report("p.veil", "--data", "data.csv")


def test_a_classifier_is_compared_with_its_labels(veilflow, report, tmp_path):
    kinds.fitted("classifier").save(tmp_path / "c.veil")
    frame = pd.DataFrame({"x1": classifiers.ROWS[:, 0], "y": classifiers.LABELS})
    frame.to_csv(tmp_path / "data.csv", index=False)
    page = report("c.veil", "--data", "data.csv", "--label", "y")
    assert "Area under the curve" in page
    assert "Calibration" in page
    refused(veilflow("report", "c.veil", "--data", "data.csv", "--out", "s"), "name their column")


def test_a_classifier_of_series_takes_series(veilflow, report, tmp_path):
    mask = np.ones((20, 3, 2))
    labels = np.arange(20) % 2
    made = vf.ExpMechClassifier(
        budget=vf.Budget(epsilon=1.0, delta=0),
        prior=vf.GaussianPrior(3.0),
        bounds=(0, 1),
        num_records=20,
        model="grud",
        sampler=vf.expm.ZoomSampler(num_candidates=8, rounds=1),
    )
    made.fit((mask / 2, mask, mask), labels, progress=False).save(tmp_path / "g.veil")
    arrays = {"values": mask / 2, "mask": mask, "since": mask, "labels": labels}
    np.savez(tmp_path / "series.npz", **arrays)
    page = report("g.veil", "--data", "series.npz", "--test", "series.npz")
    assert "rows held out" in page
    pd.DataFrame({"x": [1.0], "y": [1]}).to_csv(tmp_path / "rows.csv", index=False)
    done = veilflow("report", "g.veil", "--data", "rows.csv", "--label", "y", "--out", "s")
    refused(done, "takes series: give an NPZ")


def test_images_are_compared_by_class(veilflow, report, tmp_path):
    images.drawn().save(tmp_path / "i.veil")
    write_images(images.images(), tmp_path / "shapes")
    page = report("i.veil", "--data", "shapes")
    assert "Balance of classes" in page
    assert "Real images, class dot" not in page
    assert "Real images, class dot" in report("i.veil", "--data", "shapes", "--show-images")
    refused(veilflow("report", "i.veil", "--out", "s", "--show-images"), "give --data, too")
    np.save(tmp_path / "bare.npy", images.pixels())
    done = veilflow("report", "i.veil", "--data", "bare.npy", "--out", "s")
    refused(done, "there are no labels")


def test_a_detector_is_compared_by_its_scores(report, veilflow, tmp_path):
    detector = vf.LikelihoodDetector(mixture(columns=("a", "b")), false_alarm_rate=0.1)
    detector.from_samples(500, seed=1).save(tmp_path / "d.veil")
    values = np.vstack([detector.model.sample(300, seed=2), [[9.0, 9.0]]])
    write_rows(Rows(values, ("a", "b")), tmp_path / "rows.csv")
    page = report("d.veil", "--data", "rows.csv")
    assert "of 301 of the fit" in page
    assert "10.00 %" in page
    images.drawn().save(tmp_path / "i.veil")
    write_images(images.images(), tmp_path / "shapes")
    fit = ("detect", "fit", "i.veil", "--threshold", 2, "--label", "dot", "--out", "j.veil")
    assert veilflow(*fit).exit_code == 0
    assert "compared with class dot" in report("j.veil", "--data", "shapes")


def test_an_ensemble_is_compared_by_its_votes_for_no_query(report, veilflow, tmp_path):
    write_rows(Rows(RNG.normal(size=(200, 2)), ("a", "b")), tmp_path / "data.csv")
    fit = ("detect", "fit", "data.csv", "--low", -4, "--high", 4, "--density", "mixture")
    few = (
        "--parts",
        4,
        "--components",
        1,
        "--epsilon",
        8,
        "--max-queries",
        3,
        "--out",
        "e.private",
    )
    assert veilflow(*fit, *few).exit_code == 0
    # what a policy is asked about is the promise of the answers, for the file is kept
    (tmp_path / "policy.toml").write_text("max_epsilon = 9")
    page = report("e.private", "--data", "data.csv")
    assert "No query was spent" in page
    assert vf.load(tmp_path / "e.private").queries_left == 3
    card = veilflow("report", "e.private", "--out", "c")
    assert card.exit_code == 1
    assert "epsilon=inf is above 9" in card.stderr
    (tmp_path / "policy.toml").unlink()
    done = veilflow("report", "e.private", "--out", "c", "--publish")
    assert done.exit_code == 1
    assert "nothing to publish" in done.stderr
