"""The best of K runs: the law of K, the choice, and the price by brute force."""

import functools
import math
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.special import logsumexp

from veilflow._core.errors import PrivacyError
from veilflow.privacy.events import ApproximateDP, Gaussian, PureDP, Repeated
from veilflow.privacy.guarantees import Released
from veilflow.privacy.mechanisms import (
    NumberOfRuns,
    repeat_and_select,
    selection_event,
    selection_event_from_rdp,
)
from veilflow.privacy.mechanisms.selection import selection_rdp

LAWS = [
    NumberOfRuns(stop=0.2),
    NumberOfRuns(stop=0.05, shape=0.0),
    NumberOfRuns(stop=0.1, shape=-0.5),
    NumberOfRuns(stop=0.3, shape=2.5),
]


@functools.cache
def mass_function(law, size=4000):
    """P(K = k) for k = 1, 2, ..., from the recurrence, normalized numerically."""
    mass = np.ones(size)
    for k in range(1, size):
        mass[k] = mass[k - 1] * (1 - law.stop) * (k + law.shape) / (k + 1)
    return mass / mass.sum()


def best_of(law, run):
    """The law of the best, when outcomes are ordered by score from lowest to highest."""
    mass = mass_function(law)
    below = np.concatenate([[0.0], np.minimum(np.cumsum(run), 1.0)])
    powers = np.array([np.sum(mass * q ** np.arange(1, mass.size + 1)) for q in below])
    return np.diff(powers)


def renyi(p, q, order):
    return logsumexp(order * np.log(p) + (1 - order) * np.log(q)) / (order - 1)


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_number_of_runs_follows_its_law(law):
    mass = mass_function(law)
    k = np.arange(1, mass.size + 1)
    assert law.mean == pytest.approx(float(np.sum(k * mass)), rel=1e-6)
    draws = np.array([law.draw() for _ in range(3000)])
    counts = np.append(np.bincount(draws, minlength=9)[1:9], np.sum(draws > 8))
    expected = 3000 * np.append(mass[:8], mass[8:].sum())
    assert stats.chisquare(counts, expected).pvalue > 1e-9  # the false-alarm rate


def test_the_extremes_of_the_uniform_give_a_number_of_runs():
    law = NumberOfRuns(stop=0.5)
    assert law._invert(Decimal(0)) == 1
    assert law._invert(Decimal(1) - Decimal(2) ** -80) < 1000


@pytest.mark.parametrize("law", LAWS, ids=str)
@given(
    weights=st.lists(st.floats(0.01, 1), min_size=5, max_size=5),
    signs=st.lists(st.sampled_from([-1, 1]), min_size=5, max_size=5),
)
def test_no_pair_of_pure_runs_beats_the_stated_price(law, weights, signs):
    one = np.array(weights) / np.sum(weights)
    two = one * np.exp(0.4 * np.array(signs))
    two /= two.sum()
    epsilon = np.abs(np.log(one / two)).max()
    if epsilon == 0:
        return
    loss = np.abs(np.log(best_of(law, one) / best_of(law, two))).max()
    event = selection_event(PureDP(float(epsilon)), runs=law)
    assert isinstance(event, PureDP)
    assert loss <= event.epsilon + 1e-9


def geometric_best_of(stop, run):
    """`best_of` for the geometric law, without cancellation for rare good outcomes."""
    at_least = np.append(np.cumsum(run[::-1])[::-1], 0.0)
    ends = stop + (1 - stop) * at_least
    return stop * run / (ends[1:] * ends[:-1])


def rare_good_outcomes(epsilon):
    one = np.array([0.0, 1e-4 * 0.01, 1e-4 * 0.99])
    two = one * np.exp([0.0, -epsilon, epsilon])
    one[0], two[0] = 1 - one.sum(), 1 - two.sum()
    return one, two


def test_the_price_of_the_geometric_law_is_nearly_reached():
    one, two = (geometric_best_of(1e-7, run) for run in rare_good_outcomes(0.5))
    assert one.sum() == pytest.approx(1)
    assert 2.8 * 0.5 < np.abs(np.log(one / two)).max() <= 3 * 0.5


def test_the_renyi_price_covers_rare_good_outcomes_too():
    # At a high order the term for the tail of K is what keeps the bound above the truth.
    law, order = NumberOfRuns(stop=1e-7), 1000.0
    one, two = rare_good_outcomes(0.5)
    best = [geometric_best_of(law.stop, run) for run in (one, two)]

    def curve(a):
        return renyi(one, two, a)

    bound = selection_rdp(curve, order=order, runs=law, orders=(2, 10, 100, 1000))
    truth = renyi(best[0], best[1], order)
    without_the_term = curve(order) + math.log(law.mean) / (order - 1)
    assert without_the_term < truth <= bound


@pytest.mark.parametrize("law", LAWS, ids=str)
@given(
    weights=st.lists(st.floats(0.01, 1), min_size=4, max_size=4),
    delta=st.floats(0.001, 0.05),
    place=st.integers(0, 4),
)
def test_no_pair_of_approximate_runs_beats_the_stated_price(law, weights, delta, place):
    common = np.array(weights) / np.sum(weights)
    tilted = common * np.exp([0.3, -0.3, 0.3, -0.3])
    tilted /= tilted.sum()
    epsilon = np.abs(np.log(common / tilted)).max()
    # an outcome only the first can have, anywhere in the order
    one = np.insert((1 - delta) * common, place, delta)
    two = np.insert((1 - delta) * tilted, place, 0.0)
    two[(place + 1) % 5] += delta
    event = selection_event(ApproximateDP(float(epsilon), delta), runs=law)
    assert isinstance(event, ApproximateDP)
    for p, q in ((one, two), (two, one)):
        a, b = best_of(law, p), best_of(law, q)
        assert np.maximum(a - math.exp(event.epsilon) * b, 0).sum() <= event.delta + 1e-9


@pytest.mark.parametrize("law", LAWS, ids=str)
@given(
    weights=st.lists(st.floats(0.01, 1), min_size=5, max_size=5),
    tilt=st.lists(st.floats(-1, 1), min_size=5, max_size=5),
    order=st.sampled_from([1.5, 2.0, 8.0]),
)
def test_no_pair_of_runs_beats_the_renyi_price(law, weights, tilt, order):
    one = np.array(weights) / np.sum(weights)
    two = one * np.exp(tilt)
    two /= two.sum()

    def curve(a):
        return max(renyi(one, two, a), renyi(two, one, a))

    bound = selection_rdp(curve, order=order, runs=law, orders=(1.1, 1.5, 2, 4, 8, 32))
    a, b = best_of(law, one), best_of(law, two)
    assert max(renyi(a, b, order), renyi(b, a, order)) <= bound + 1e-9


def test_renyi_price_of_a_concentrated_run_is_sane():
    def curve(order):
        return 0.05 * order

    law = NumberOfRuns(stop=0.1, shape=0.0)
    single = min(
        curve(a) + math.log1p(-1 / a) - math.log(1e-6 * a) / (a - 1) for a in np.arange(2, 200)
    )
    event = selection_event_from_rdp(curve, runs=law, delta=1e-6)
    assert event.delta == 1e-6
    assert single < event.epsilon < 2 * single  # ten-odd expected runs for less than two


def test_the_best_is_returned_and_runs_are_counted_by_the_law(monkeypatch):
    monkeypatch.setattr(NumberOfRuns, "draw", lambda self: 4)
    scores = iter([("a", math.nan), ("b", 2.0), ("c", 2.0), ("d", -1.0)])
    released = repeat_and_select(
        lambda: Released(next(scores), PureDP(0.5)), runs=LAWS[0], base=PureDP(0.5)
    )
    assert released.value == ("b", 2.0)
    assert released.event == PureDP(1.5)
    assert next(scores, None) is None


def test_scores_that_are_no_numbers_still_give_a_result(monkeypatch):
    monkeypatch.setattr(NumberOfRuns, "draw", lambda self: 2)
    released = repeat_and_select(
        lambda: Released(("only", math.nan), PureDP(0.5)), runs=LAWS[0], base=PureDP(0.5)
    )
    assert released.value == ("only", -math.inf)


def test_unproved_bases_and_impossible_laws_are_refused():
    with pytest.raises(TypeError, match="accountant"):
        selection_event(Gaussian(1.0), runs=LAWS[0])  # pyright: ignore
    with pytest.raises(ValueError, match="smaller delta"):
        selection_event(ApproximateDP(1.0, 0.5), runs=LAWS[0])
    for wrong in ({"stop": 0.0}, {"stop": 1.0}, {"stop": 0.5, "shape": -1.0}):
        with pytest.raises(ValueError, match=r"stop|shape"):
            NumberOfRuns(**wrong)
    with pytest.raises(TypeError, match="Released"):
        repeat_and_select(lambda: ("x", 1.0), runs=LAWS[0], base=PureDP(1.0))  # pyright: ignore


def test_a_run_that_costs_its_base_up_to_rounding_is_accepted():
    assert 3 * 0.1 > 0.3
    run = Released(("x", 1.0), Repeated(3, PureDP(0.1)))
    assert repeat_and_select(lambda: run, runs=LAWS[0], base=PureDP(0.3)).value == ("x", 1.0)
    dearer = Released(("x", 1.0), PureDP(0.3 * (1 + 1e-6)))
    with pytest.raises(PrivacyError, match="more than its base"):
        repeat_and_select(lambda: dearer, runs=LAWS[0], base=PureDP(0.3))
