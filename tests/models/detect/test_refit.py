"""Thresholds from samples that are corrected by a second fit, and the density of a detector."""

import dataclasses

import numpy as np
import pytest

import veilflow as vf
from tests.models.detect.models import mixture
from veilflow import evaluation
from veilflow.models.detect.refit import can_refit, refitted
from veilflow.models.detect.thresholds import rate_above
from veilflow.releases.columns import Columns
from veilflow.releases.grid import Grid
from veilflow.releases.mixture import ExpectationMaximization

BUDGET = vf.Budget(4.0, 1e-5)
BOUNDS, RECORDS, RATE = (-6.0, 6.0), 600, 0.1
SHORT = vf.Training(steps=3, batch_size=64)


def rows(n: int, seed: int, dim: int = 3) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.clip(rng.choice([-2.0, 2.0], (n, 1)) + rng.normal(size=(n, dim)), *BOUNDS)


@pytest.fixture(scope="module")
def narrow() -> vf.FittedMixtureDensity:
    """A mixture of more normals than so few records carry: its own samples look too normal to it."""
    estimator = vf.MixtureDensity(
        budget=vf.Budget(8.0, 1e-5), bounds=BOUNDS, num_components=40, steps=12, seed=1
    )
    return estimator.fit(rows(RECORDS, 1), progress=False)


def test_a_second_fit_corrects_the_threshold_of_a_model_that_knows_its_records_too_well(narrow):
    fresh = rows(20_000, 2)
    alarms = {}
    for refit in (False, True):
        detector = vf.LikelihoodDetector(narrow, false_alarm_rate=RATE)
        made = detector.from_samples(4000, refit=refit, seed=3)
        alarms[refit] = made.predict(fresh).mean()
        assert made.plan == narrow.plan  # nothing was spent
        assert made.guarantee == narrow.guarantee
    assert alarms[False] > 1.25 * RATE
    assert abs(np.log(alarms[True] / RATE)) < 0.7 * np.log(alarms[False] / RATE)


def test_a_seed_decides_the_second_fit(narrow):
    detector = vf.LikelihoodDetector(narrow, false_alarm_rate=RATE)
    first, again, other = (detector.from_samples(1000, seed=seed).threshold for seed in (3, 3, 4))
    assert first == again != other
    assert detector.from_samples(200).threshold is not None


@pytest.mark.parametrize(
    ("settings", "released"),
    [
        ({"start": "grid", "bounds": BOUNDS}, Grid),
        ({"start": "columns", "base": "mixture", "bounds": BOUNDS, "training": SHORT}, Columns),
        ({"row_norm": 12.0, "training": SHORT}, ExpectationMaximization),
        ({"bounds": BOUNDS, "start": "columns", "base": "normal", "training": SHORT}, Columns),
        ({"bounds": BOUNDS, "start": "actnorm", "training": SHORT}, None),
    ],
    ids=["grid", "marginals and mixture", "ball", "normal base", "actnorm"],
)
def test_every_kind_of_density_is_fitted_again_by_its_own_plan(settings, released):
    small = {} if released is Grid else {"flow": vf.maf(blocks=1, hidden=(4,))}
    estimator = vf.DensityFlow(budget=BUDGET, num_records=RECORDS, seed=2, **small, **settings)
    model = estimator.fit(rows(RECORDS, 4), progress=False)
    assert can_refit(model)
    assert released is None or model.plan.release(released) is not None
    again = refitted(model, seed=5)
    assert again.plan == model.plan
    assert again.assembly == model.assembly or released is Grid  # type: ignore[attr-defined]
    fresh = rows(500, 6)
    assert np.isfinite(again.log_prob(fresh)).all()
    assert not np.array_equal(again.log_prob(fresh), model.log_prob(fresh))


def test_what_cannot_be_fitted_again_keeps_the_threshold_of_its_samples(narrow):
    given = vf.DensityFlow(
        budget=BUDGET,
        bounds=BOUNDS,
        num_records=RECORDS,
        base=narrow,
        flow=vf.maf(blocks=1, hidden=(4,)),
        training=SHORT,
        seed=3,
    ).fit(rows(RECORDS, 7), progress=False)
    correlated = vf.DensityFlow(
        budget=BUDGET,
        row_norm=12.0,
        num_records=RECORDS,
        flow=vf.maf(blocks=1, hidden=(4,)),
        training=dataclasses.replace(SHORT, noise_bands=2),
        seed=3,
    ).fit(rows(RECORDS, 7), progress=False)
    public = dataclasses.replace(BUDGET, epsilon=float("inf"))
    without = dataclasses.replace(narrow, plan=dataclasses.replace(narrow.plan, budget=public))
    for model in (given, correlated, mixture(), without, object()):
        assert not can_refit(model)
    assert vf.LikelihoodDetector(correlated).from_samples(500).threshold is not None
    detector = vf.LikelihoodDetector(given, false_alarm_rate=RATE)
    assert detector.second_fit(500) is None
    found = {detector.from_samples(500, refit=refit, seed=1).threshold for refit in (True, False)}
    assert len(found) == 1


def test_detectors_of_one_model_share_a_second_fit(narrow):
    again = vf.LikelihoodDetector(narrow).second_fit(1000, seed=3)
    for rate in (0.05, 0.2):
        detector = vf.LikelihoodDetector(narrow, false_alarm_rate=rate)
        shared = detector.from_samples(1000, refit=again, seed=3)
        assert shared.threshold == detector.from_samples(1000, seed=3).threshold


def test_a_rate_of_scores_above_a_threshold_is_never_zero():
    scores = np.arange(99.0)
    assert rate_above(1e9, scores) == pytest.approx(0.01)
    assert rate_above(88.0, scores) == pytest.approx(0.11)


def test_the_density_of_a_detector_has_neither_grid_nor_marginals():
    estimator = vf.LikelihoodDetector.estimator(budget=BUDGET, bounds=BOUNDS, num_records=RECORDS)
    for dim in (2, 8):
        plan = estimator.plan(dim)
        assert plan.release(ExpectationMaximization) is not None
        assert plan.release(Grid) is plan.release(Columns) is None
    own = vf.LikelihoodDetector.estimator(budget=BUDGET, bounds=BOUNDS, start="columns")
    assert own.start == "columns"


def test_common_values_in_an_odd_combination_are_odd_to_the_density_of_a_detector():
    """Two columns are mostly exactly zero, and never both: rows of two zeros are the odd ones."""
    rng = np.random.default_rng(0)
    records = rng.normal(3.0, 1.0, size=(6000, 4))
    records[np.arange(6000), rng.integers(2, size=6000)] = 0.0
    odd = rng.normal(3.0, 1.0, size=(500, 4))
    odd[:, :2] = 0.0
    normal, records = records[:2000], records[2000:]
    settings = {"budget": BUDGET, "bounds": (-2, 8), "num_records": 4000, "seed": 1}
    settings["training"] = vf.Training(steps=0)
    areas = []
    for estimator in (
        vf.LikelihoodDetector.estimator(**settings),
        vf.DensityFlow(**settings),
    ):
        model = estimator.fit(records, progress=False)
        curve = evaluation.roc_curve(model.log_prob(normal), model.log_prob(odd))
        areas.append(curve.auroc)
    assert areas[0] > 0.95
    assert areas[0] > areas[1]
