"""From scores to guesses: ties are broken by chance, and what was found is told as it is."""

import json

import numpy as np
import pytest

from veilflow.audit import guessing

SETTINGS = {"method": "test", "delta": 1e-5, "claimed": 1.0, "internal": True}


def test_equal_scores_say_nothing_though_members_come_first():
    member = np.repeat([True, False], 500)
    result = guessing.from_scores(np.zeros(1000), member, **SETTINGS)
    assert result.lower_bound < 0.3
    assert result.scores["auc"] == 0.5
    right = guessing.correct_guesses(np.zeros(1000), member, 1000)
    assert 430 < right < 570  # four standard deviations and more


def test_scores_that_give_everything_away_refute_the_claim():
    member = np.tile([True, False], 500)
    result = guessing.from_scores(member * 1.0, member, **SETTINGS)
    assert result.exceeds_claim
    assert "REFUTED" in result.sentence
    assert str(result).startswith("INTERNAL")
    assert result.counts["correct"] == result.counts["guesses"]


def test_scores_that_are_not_numbers_count_as_lowest():
    member = np.array([True] * 10 + [False] * 10)
    scores = np.where(member, 1.0, np.nan)
    assert guessing.correct_guesses(scores, member, 20) == 20
    assert guessing.auc(scores, member) == 1.0


def test_choosing_the_number_of_guesses_is_paid_for():
    rng = np.random.default_rng(0)
    # coins and scores apart: more than one in twenty audits above zero would be a false alarm rate
    # that was not stated
    above = 0
    for seed in range(200):
        member = rng.random(200) < 0.5
        result = guessing.from_scores(rng.random(200), member, seed=seed, **SETTINGS)
        above += result.lower_bound > 0
    assert above <= 20


def test_a_result_is_plain_json():
    member = np.tile([True, False], 20)
    result = guessing.from_scores(
        np.arange(40.0), member, **{**SETTINGS, "claimed": float("inf")}, guesses=10
    )
    told = json.loads(json.dumps(result.to_json(), allow_nan=False))
    assert told["claimed"] is None
    assert told["exceeds_claim"] is False
    assert told["internal"] is True
    assert "no claim" in told["sentence"]
    assert told["counts"]["guesses"] == 10


@pytest.mark.parametrize(
    ("scores", "member", "changes", "message"),
    [
        (np.zeros(3), np.ones(3, bool), {}, "records that were in"),
        (np.zeros(3), np.ones(2, bool), {}, "one score"),
        (np.zeros(2), np.array([True, False]), {"guesses": 3}, "at most the 2"),
        (np.zeros(2), np.array([True, False]), {"bound": "two-run"}, "bound"),
    ],
)
def test_what_cannot_be_guessed_about_is_refused(scores, member, changes, message):
    with pytest.raises(ValueError, match=message):
        guessing.from_scores(scores, member, **{**SETTINGS, **changes})
