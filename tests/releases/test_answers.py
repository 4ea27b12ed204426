"""Answers of an ensemble: their probabilities, and what they cost."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import veilflow as vf
from veilflow._core import codec
from veilflow.privacy.events import ExponentialMechanism, PureDP, Repeated, ZeroConcentrated
from veilflow.privacy.guarantees import Sensitive
from veilflow.privacy.ledger import Ledger
from veilflow.privacy.mechanisms import _opendp
from veilflow.releases.answers import METHODS, Answers, joined, odd, overview, search
from veilflow.releases.part_mixtures import PartMixtures
from veilflow.releases.release import Release

BUDGET = vf.Budget(epsilon=4.0, delta=1e-6)


def answers(**fields: Any) -> Answers:
    usual: dict[str, Any] = {"method": "exponential", "parts": 10, "limit": 20}
    usual["settings"] = PartMixtures(num_components=1)
    return Answers(**{**usual, **fields})


def within(budget: vf.Budget, **fields: Any) -> Answers:
    price = {"noise_multiplier": 1.0} if fields["method"] == "noisy_max" else {"epsilon": 1.0}
    return answers(**fields, **price).priced(budget, Ledger())


def epsilon(one: Answers, uses: int, *, delta: float) -> float:
    return Ledger(entries=one.entries(uses)).epsilon(delta=delta)


EXPONENTIAL = answers(epsilon=0.7)
NOISY_MAX = answers(method="noisy_max", noise_multiplier=2.0)


def votes(*counts: int) -> Sensitive:
    return Sensitive(np.array(counts))


def test_the_probability_of_an_answer_is_that_of_algorithm_2():
    for c in range(11):
        up, down = math.exp(0.7 * c / 2), math.exp(0.7 * (10 - c) / 2)
        assert EXPONENTIAL.response_probability(c) == pytest.approx(up / (up + down), rel=1e-12)
    assert answers(parts=3, limit=1, epsilon=50.0).response_probability(0) > 0


def test_the_coin_is_drawn_with_exactly_these_odds(monkeypatch):
    """The mechanism below draws index i with probability proportional to exp(score_i / scale)."""
    asked = []

    def argmax(scores, *, scale):
        asked.append((scores, scale))
        return 0

    monkeypatch.setattr(_opendp, "noisy_argmax", argmax)
    odd(EXPONENTIAL, votes(*range(11)))
    for c, ((normal, strange), scale) in enumerate(asked):
        log_odds = (Fraction(normal) - Fraction(strange)) / Fraction(scale)
        exact = Fraction(0.7) * (2 * c - 10) / 2
        assert abs(log_odds) <= abs(exact)  # a scale that is rounded is rounded up
        assert abs(log_odds - exact) <= Fraction(1, 10**14)


def test_a_vote_moves_the_log_odds_by_epsilon_so_the_published_price_is_right():
    p = EXPONENTIAL.response_probability(np.arange(11))
    np.testing.assert_allclose(np.diff(np.log(p / (1 - p))), 0.7)
    ratios = np.abs(np.concatenate([np.diff(np.log(p)), np.diff(np.log1p(-p))]))
    assert ratios.max() <= 0.7
    assert ratios.max() > 0.67  # and half of it would be too little
    assert EXPONENTIAL.event_of_one == ExponentialMechanism(0.7)


@pytest.mark.parametrize("plan", [EXPONENTIAL, NOISY_MAX], ids=["exponential", "noisy max"])
def test_drawn_answers_have_their_probabilities(plan):
    for c in (0, 4, 5, 9):
        share = odd(plan, votes(*[c] * 2000)).mean()
        p = 1 - float(plan.response_probability(c))
        # operating-system entropy: five deviations, a false alarm in ten million
        assert abs(share - p) <= 5 * math.sqrt(p * (1 - p) / 2000) + 1e-9


def test_noisy_max_is_a_gaussian_on_a_count_that_moves_by_one():
    p = NOISY_MAX.response_probability(np.arange(11))
    assert p[5] == pytest.approx(0.5, abs=1e-6)
    assert p[6] == pytest.approx(0.5 * math.erfc(-0.5 / math.sqrt(2)), abs=1e-5)  # Phi(1/2)
    assert NOISY_MAX.event_of_one == ZeroConcentrated(math.nextafter(0.125, 1))


@pytest.mark.parametrize("method", METHODS)
def test_all_answers_together_use_up_the_budget_and_no_more(method):
    plan = within(BUDGET, method=method, parts=10, limit=50)
    spent = epsilon(plan, 50, delta=1e-6)
    assert 0.99 * 4.0 < spent <= 4.0
    assert plan.entries(0) == ()
    more = within(BUDGET, method=method, parts=10, limit=100)
    if method == "noisy_max":
        assert more.noise_multiplier > plan.noise_multiplier
    else:
        assert more.epsilon < plan.epsilon


@pytest.mark.parametrize("method", ["exponential", "sparse_vector"])
def test_without_delta_epsilons_add_up(method):
    plan = within(vf.Budget(epsilon=2.0, delta=0.0), method=method, parts=10, limit=8)
    assert plan.epsilon == pytest.approx(0.25, rel=1e-3)
    assert plan.epsilon * 8 <= 2.0


def test_the_ledger_holds_answers_one_by_one_but_a_stream_of_searches_whole():
    assert EXPONENTIAL.entries(3)[0].event == Repeated(3, ExponentialMechanism(0.7))
    assert EXPONENTIAL.entries(20)[0].event == EXPONENTIAL.event
    assert EXPONENTIAL.entries(21) == EXPONENTIAL.entries(20)
    stream = answers(method="sparse_vector", limit=5, epsilon=0.7)
    assert stream.entries(1)[0].event == stream.event == Repeated(5, PureDP(0.7))
    assert stream.entries(1) == stream.entries(5)


def test_one_threshold_for_many_anomalies_is_one_pure_event():
    budget = vf.Budget(epsilon=20.0, delta=0.0)
    settings = {"method": "sparse_vector", "parts": 200}
    one = within(budget, **settings, limit=1, anomalies=100)
    assert epsilon(one, 1, delta=0.0) == pytest.approx(20.0, rel=1e-3)
    many = within(budget, **settings, limit=100)
    assert epsilon(many, 1, delta=0.0) == pytest.approx(20.0, rel=1e-3)
    # without delta the noise of a query is a third less with one threshold for all
    assert search(one)._query_scale < 0.7 * search(many)._query_scale


def test_a_search_is_one_sparse_vector_that_ends_with_its_anomaly():
    plan = answers(method="sparse_vector", limit=5, epsilon=1e3, quorum=0.7)
    one = search(plan)
    assert one.event == PureDP(1e3)
    assert not one.above(Sensitive(6.0))
    assert one.above(Sensitive(8.0))
    with pytest.raises(vf.PrivacyError, match="all 1 positive answers are spent"):
        one.above(Sensitive(0.0))
    with pytest.raises(ValueError, match="they have no probability"):
        plan.response_probability(3)


@pytest.mark.parametrize("plan", [EXPONENTIAL, NOISY_MAX])
def test_answers_come_back_from_a_file(plan):
    written = codec.plain(plan)
    assert codec.restored(Release, written) == plan
    for change in ({"epsilon": 0.0, "noise_multiplier": 0.0}, {"method": "x"}, {"parts": 0}):
        with pytest.raises(ValueError, match=r"must be|not a Answers"):
            codec.restored(Release, {**written, **change})


# -- for the curator -------------------------------------------------------------------------------


def test_votes_of_several_queries_are_joined_behind_the_door():
    found = joined([votes(3, 4), votes(), votes(9)])
    assert isinstance(found, Sensitive)
    assert found.open() == [3, 4, 9]


def test_an_overview_counts_votes_and_rows_out_of_bounds():
    outside = np.array([False, False, True, False])
    found = overview(EXPONENTIAL, votes(10, 2, 10, 5), outside, bins=11)
    assert (
        found.against == 0.5
    )  # one by its votes, one out of bounds; half of the parts is no quorum
    chances = 1 - EXPONENTIAL.response_probability([10, 2, 5])
    assert found.answered == pytest.approx((chances.sum() + 1) / 4)
    assert found.shares.tolist() == [0, 0, 0.25, 0, 0, 0.25, 0, 0, 0, 0, 0.5]
    searches = answers(method="sparse_vector", epsilon=1.0, quorum=0.4)
    assert overview(searches, votes(10, 2, 10, 5), outside, bins=2).answered is None
