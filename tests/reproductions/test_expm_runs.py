"""Parts of the ExpM+NF reproduction that measure: fits, exact draws, attacks, times; tiny."""

import math

import numpy as np
import pandas as pd
import pytest
from reproductions.expm_nf import adult, audit, exact, fits, methods, probes, timing
from sklearn.metrics import roc_auc_score

from veilflow.privacy.ledger import Ledger

pytestmark = pytest.mark.slow  # the system has probes; these are its parts

COLUMNS = {"age": 40, "education_num": 9, "hours_per_week": 50, "capital_gain": 0}
COLUMNS |= {"capital_loss": 4_356, "workclass": "Private", "education": "9th", "race": "White"}
COLUMNS |= {"marital_status": "Widowed", "occupation": "Sales", "relationship": "Wife"}
COLUMNS |= {"sex": "Female"}


def census(**changes):
    return pd.DataFrame([COLUMNS, COLUMNS | changes])


@pytest.fixture
def tiny(monkeypatch):
    """A problem of 200 generated records in the place of each set; few candidates, steps, draws."""
    for where, name, value in probes.FITS:
        monkeypatch.setattr(where, name, value)


def test_adult_is_scaled_row_by_row_into_the_unit_box():
    plain = adult.rows_of(census())
    assert plain.shape == (2, adult.MOST)
    assert np.abs(plain).max() <= 1
    np.testing.assert_array_equal(plain[0], plain[1])
    wild = adult.rows_of(census(age=10**6, capital_gain=10**9, race="nobody knows"))
    np.testing.assert_array_equal(wild[0], plain[0])  # another record changes none
    assert np.abs(wild).max() <= 1
    assert plain[0, :5].tolist() == pytest.approx([2 * 23 / 73 - 1, 1 / 15, 0, -1, 1])


def test_columns_of_lists_are_named_once_and_tell_their_value():
    assert len(set(adult.columns())) == len(adult.columns())
    place = 5 + adult.columns().index(("race", "White"))
    assert adult.rows_of(census(race="Black"))[:, place].tolist() == [1, -1]


@pytest.mark.parametrize("method", ["dp-sgd-l2", "dp-sgd-rdp", "objective", "output"])
def test_private_fits_are_judged_and_priced(tiny, method):
    found = fits.private("any", method, epsilon=5.0, seeds=[1, 2])
    assert len(found["aucs"]) == 2
    assert found["auc"] == pytest.approx(np.median(found["aucs"]))
    ledger = Ledger.from_json(found["ledger"])
    delta = methods.DELTA if method.startswith("dp") else 0
    assert ledger.epsilon(delta=delta) <= 5 * (1 + 1e-9)


def test_without_privacy_the_records_for_choices_choose(tiny, monkeypatch):
    found = fits.plain("any", "non-private", seeds=[1])
    assert found["guarantee"]["epsilon"] == "inf"
    assert found["auc"] > 0.8
    asked = []
    monkeypatch.setattr(fits, "auc", lambda labels, scores: asked.append(labels) or 0.5)
    fits.plain("any", "non-private", seeds=[1])
    assert len(asked) == len(methods._RIDGES) + 1


def test_noise_by_rdp_is_more_and_both_keep_the_budget(tiny):
    pld, rdp = (fits.private("any", f"dp-sgd{by}", epsilon=1.0, seeds=[1]) for by in ("", "-rdp"))
    assert rdp["noise"] > 1.02 * pld["noise"]
    for found in (pld, rdp):
        assert Ledger.from_json(found["ledger"]).epsilon(delta=methods.DELTA) <= 1 + 1e-9


def test_ranks_give_the_area_under_the_curve_ties_counting_half():
    labels = np.array([0, 1, 0, 1, 1])
    scores = np.array(
        [[0.1, 0.9, 0.2, 0.8, 0.7], [1, 1, 1, 1, 1], [3, 1, 2, 2, 0], [5, np.nan, 1, 9, 9]]
    )
    expected = [roc_auc_score(labels, np.nan_to_num(each)) for each in scores]
    np.testing.assert_allclose(fits.aucs_of(labels, scores), expected)


def test_of_flows_every_draw_is_judged_and_the_guarantee_is_conditional(tiny):
    found, arrays = fits.flow("any", "flow", epsilon=1.0, seeds=[1])
    assert arrays["draws"].shape == (1, 4)
    assert found["lowest"] <= found["auc"] <= found["highest"]
    assert "unproved" in [one["kind"] for one in found["guarantee"]["assumptions"]]


def test_times_are_of_calls_that_train(tiny, monkeypatch):
    fitted = []
    real = methods.fit
    monkeypatch.setattr(methods, "fit", lambda *args: fitted.append(args) or real(*args))
    for method, epsilon in (("objective", 1.0), ("non-private", math.inf)):
        fitted.clear()
        found = timing.perform("any", method, epsilon=epsilon)
        assert len(fitted) == 2
        assert fitted[0][0].seed != fitted[1][0].seed
        assert min(found["first"], found["second"]) > 0


@pytest.fixture
def coarse(monkeypatch):
    monkeypatch.setattr(exact, "_PER_AXIS", 61)
    monkeypatch.setattr(exact, "RECORDS", 40)
    monkeypatch.setattr(exact, "REJECTED", 150)


def test_the_test_of_fit_passes_what_is_exact_and_refuses_what_is_not(coarse):
    grid = exact.grid_of(0.3, exact.records(40, seed=1))
    draws = grid.draw(2_000, seed=2)
    assert grid.p_value(draws) > 1e-4  # one seed in ten thousand would fail
    assert grid.p_value(draws + 1.0) < 1e-6
    assert max(grid.distances(draws)) < 0.1
    assert max(grid.distances(draws + 1.0)) > 0.1
    assert grid.log_z < 0


def test_rejection_draws_fit_the_grid(coarse):
    found = exact.perform("rejection", epsilon=0.2)
    assert found["p_value"] > 1e-4
    assert found["guarantee"]["assumptions"] == []
    assert found["guarantee"]["epsilon"] == pytest.approx(0.2)


def test_a_bound_from_guesses_is_none_by_chance_and_large_for_knowledge():
    assert audit.guesses_bound(50, 100) == 0
    assert audit.guesses_bound(100, 100) > 3
    assert audit.guesses_bound(80, 100) < audit.guesses_bound(90, 100)


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_bounds_are_above_the_truth_no_more_often_than_they_say(epsilon):
    rng, num, runs = np.random.default_rng(0), 80, 600
    share = 1 / (1 + math.exp(-epsilon))  # randomized response: the most that epsilon allows
    hits, false = (rng.binomial(num, p, runs) for p in (share, 1 - share))
    pairs = zip(hits.tolist(), false.tolist(), strict=True)
    over = np.mean([audit.ratio_bound(*pair, num) > epsilon for pair in pairs])
    right = rng.binomial(num, share, runs)
    beyond = np.mean([audit.guesses_bound(int(r), num) > epsilon for r in right])
    assert over < 0.05
    assert beyond < 0.05 + 4 * math.sqrt(0.05 * 0.95 / runs)


def test_two_worlds_apart_are_told_and_one_world_is_not():
    rng = np.random.default_rng(0)
    same, other = rng.normal(size=(2, 200, 2))
    assert audit.membership_bound(same, other) < 0.5
    assert audit.membership_bound(same, other + np.array([5.0, 0.0])) > 2.5


def test_attacks_run_on_exact_samplers(monkeypatch):
    monkeypatch.setattr(audit, "TRIALS", 20)
    found = audit.perform("membership:grid", epsilon=0.5)
    assert found["excess"] == pytest.approx(found["lower_bound"] - 0.5)
    # 120 canaries: nine in ten right would be a chance of 1e-9 at epsilon 0.1
    assert audit.perform("one-run:rejection", epsilon=0.1)["right"] < 108


@pytest.mark.data
def test_adult_is_there_in_full():
    rows, labels = adult.load("test", 12)
    assert rows.shape == (16_281, 12)
    assert set(labels) == {0, 1}
