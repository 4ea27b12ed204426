"""Answers of an ensemble: their probabilities, and what they cost."""

import math
from fractions import Fraction

import numpy as np
import pytest

import veilflow as vf
from veilflow.models.detect.answers import METHODS, Plan
from veilflow.privacy.events import ExponentialMechanism, PureDP, Repeated, ZeroConcentrated
from veilflow.privacy.guarantees import Sensitive
from veilflow.privacy.mechanisms import _opendp

BUDGET = vf.Budget(epsilon=4.0, delta=1e-6)
EXPONENTIAL = Plan(method="exponential", parts=10, limit=20, epsilon=0.7)
NOISY_MAX = Plan(method="noisy_max", parts=10, limit=20, noise_multiplier=2.0)


def votes(*counts: int) -> Sensitive:
    return Sensitive(np.array(counts))


def test_the_probability_of_an_answer_is_that_of_algorithm_2():
    for c in range(11):
        up, down = math.exp(0.7 * c / 2), math.exp(0.7 * (10 - c) / 2)
        assert EXPONENTIAL.response_probability(c) == pytest.approx(up / (up + down), rel=1e-12)
    assert Plan(method="exponential", parts=3, limit=1, epsilon=50.0).response_probability(0) > 0


def test_the_coin_is_drawn_with_exactly_these_odds(monkeypatch):
    """The mechanism below draws index i with probability proportional to exp(score_i / scale)."""
    asked = []

    def argmax(scores, *, scale):
        asked.append((scores, scale))
        return 0

    monkeypatch.setattr(_opendp, "noisy_argmax", argmax)
    EXPONENTIAL.odd(votes(*range(11)))
    for c, ((normal, odd), scale) in enumerate(asked):
        log_odds = (Fraction(normal) - Fraction(odd)) / Fraction(scale)
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
        odd = plan.odd(votes(*[c] * 2000)).mean()
        p = 1 - float(plan.response_probability(c))
        # operating-system entropy: five deviations, a false alarm in ten million
        assert abs(odd - p) <= 5 * math.sqrt(p * (1 - p) / 2000) + 1e-9


def test_noisy_max_is_a_gaussian_on_a_count_that_moves_by_one():
    p = NOISY_MAX.response_probability(np.arange(11))
    assert p[5] == pytest.approx(0.5, abs=1e-6)
    assert p[6] == pytest.approx(0.5 * math.erfc(-0.5 / math.sqrt(2)), abs=1e-5)  # Phi(1/2)
    assert NOISY_MAX.event_of_one == ZeroConcentrated(math.nextafter(0.125, 1))


@pytest.mark.parametrize("method", METHODS)
def test_all_answers_together_use_up_the_budget_and_no_more(method):
    plan = Plan.within(BUDGET, method=method, parts=10, limit=50)
    spent = plan.ledger(50).epsilon(delta=1e-6)
    assert 0.99 * 4.0 < spent <= 4.0
    assert plan.ledger(0).entries == ()
    more = Plan.within(BUDGET, method=method, parts=10, limit=100)
    if method == "noisy_max":
        assert more.noise_multiplier > plan.noise_multiplier
    else:
        assert more.epsilon < plan.epsilon


@pytest.mark.parametrize("method", ["exponential", "sparse_vector"])
def test_without_delta_epsilons_add_up(method):
    plan = Plan.within(vf.Budget(epsilon=2.0, delta=0.0), method=method, parts=10, limit=8)
    assert plan.epsilon == pytest.approx(0.25, rel=1e-3)
    assert plan.epsilon * 8 <= 2.0


def test_the_ledger_holds_answers_one_by_one_but_a_stream_of_searches_whole():
    assert EXPONENTIAL.ledger(3).entries[0].event == Repeated(3, ExponentialMechanism(0.7))
    stream = Plan(method="sparse_vector", parts=10, limit=5, epsilon=0.7)
    assert stream.ledger(1).entries[0].event == Repeated(5, PureDP(0.7))
    assert stream.ledger(1) == stream.ledger(5)


def test_one_threshold_for_many_anomalies_is_one_pure_event():
    budget = vf.Budget(epsilon=20.0, delta=0.0)
    settings = {"method": "sparse_vector", "parts": 200}
    one = Plan.within(budget, **settings, limit=1, anomalies=100)
    assert one.ledger(1).epsilon(delta=0.0) == pytest.approx(20.0, rel=1e-3)
    many = Plan.within(budget, **settings, limit=100)
    assert many.ledger(1).epsilon(delta=0.0) == pytest.approx(20.0, rel=1e-3)
    # without delta the noise of a query is a third less with one threshold for all
    assert one.search()._query_scale < 0.7 * many.search()._query_scale


def test_a_search_is_one_sparse_vector_that_ends_with_its_anomaly():
    plan = Plan(method="sparse_vector", parts=10, limit=5, epsilon=1e3, quorum=0.7)
    search = plan.search()
    assert search.event == PureDP(1e3)
    assert not search.above(Sensitive(6.0))
    assert search.above(Sensitive(8.0))
    with pytest.raises(vf.PrivacyError, match="all 1 positive answers are spent"):
        search.above(Sensitive(0.0))
    with pytest.raises(ValueError, match="no probability of its own"):
        plan.response_probability(3)


@pytest.mark.parametrize("plan", [EXPONENTIAL, NOISY_MAX])
def test_a_plan_comes_back_from_json(plan):
    assert Plan.from_json(plan.to_json()) == plan
    with pytest.raises((ValueError, TypeError)):
        Plan.from_json({**plan.to_json(), "epsilon": 0.0, "noise_multiplier": 0.0})
