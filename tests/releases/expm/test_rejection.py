"""Rejection has the law of the grid, and a cap costs what it says."""

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tests.releases.expm.exact_problem import NUM, RECORDS, SENSITIVE, target
from veilflow._core.keys import Secret
from veilflow.privacy.events import ApproximateDP, ExponentialMechanism
from veilflow.releases.expm import rejection
from veilflow.releases.expm.grid import GridSampler
from veilflow.releases.expm.rejection import RejectionSampler, decide, exp_bounds, exp_coins

SECRET = Secret.from_seed(0)


def draws(num: int, epsilon: float) -> np.ndarray:
    sampler, t = RejectionSampler(num_records=NUM), target(epsilon)
    return np.stack([sampler.draw(t, SENSITIVE, secret=SECRET).value for _ in range(num)])


def test_draws_have_the_law_of_a_fine_grid(monkeypatch):
    """Marginals, sum and difference by Kolmogorov-Smirnov: a false alarm in a million runs."""
    epsilon = 0.25
    monkeypatch.setattr(rejection, "_BLOCK", 64)
    t = target(epsilon)
    points = GridSampler(per_axis=151).points(t)
    log_weights = -t.rate * t.losses(points, RECORDS)
    shares = np.exp(log_weights - log_weights.max())
    shares /= shares.sum()
    # far from the prior, or the test would say nothing about losses
    assert 1 / (shares**2).sum() < 0.2 * len(points)
    found = draws(300, epsilon)
    for direction in ([1, 0], [0, 1], [1, 1], [1, -1]):
        places = points @ np.array(direction)
        order = np.argsort(places)
        cdf = np.cumsum(shares[order])
        law = lambda x, at=places[order], cdf=cdf: np.interp(x, at, cdf)  # noqa: E731
        assert stats.kstest(found @ np.array(direction), law).pvalue > 1e-6


def test_draws_do_not_have_the_law_of_the_prior(monkeypatch):
    monkeypatch.setattr(rejection, "_BLOCK", 64)
    assert stats.kstest(draws(200, 0.25)[:, 0], stats.norm(scale=3).cdf).pvalue < 1e-6


def test_without_a_cap_a_draw_is_a_pure_event():
    assert RejectionSampler(num_records=9).event(0.5) == ExponentialMechanism(0.5)
    assert RejectionSampler(num_records=9).delta(0.5) == 0
    assert RejectionSampler.assumption is None
    released = RejectionSampler(num_records=NUM).draw(target(0.1), SENSITIVE, secret=SECRET)
    assert released.event == ExponentialMechanism(0.1)


def test_the_delta_of_a_cap():
    capped = RejectionSampler(num_records=4, max_trials=30)
    delta = (1 - math.exp(-0.5 * 4)) ** 30
    assert capped.delta(0.5) == pytest.approx(delta, rel=1e-8)
    assert capped.delta(0.5) >= delta
    assert capped.event(0.5) == ApproximateDP(0.5, capped.delta(0.5))


@settings(max_examples=200, deadline=None)
@given(data=st.data(), trials=st.integers(1, 12), epsilon=st.floats(0.01, 2))
def test_the_law_of_capped_trials_is_private_as_derived(data, trials, epsilon):
    """Over a finite prior the law of capped rejection is a formula: its hockey stick is small."""
    num = 4
    share = st.floats(0.01, 1)
    prior = np.array(data.draw(st.lists(share, min_size=num, max_size=num)))
    prior /= prior.sum()
    coins = np.array(data.draw(st.lists(share, min_size=num, max_size=num)))
    moves = np.array(data.draw(st.lists(st.floats(0, 1), min_size=num, max_size=num)))
    laws, missed = [], []
    for coin in (coins, coins * np.exp(-epsilon * moves)):
        kept = prior @ coin
        missed.append((1 - kept) ** trials)
        laws.append((1 - missed[-1]) / kept * prior * coin + missed[-1] * prior)
    for one, other in (laws, laws[::-1]):
        stick = np.maximum(0, one - math.exp(epsilon) * other).sum()
        assert stick <= max(missed) + 1e-12


def tossed(monkeypatch: pytest.MonkeyPatch, *, up: bool) -> list[int]:
    """Coins that all fall alike, and how many were tossed at a time."""
    seen = []

    def coins(exponents, *, unit):
        seen.append(len(exponents))
        return np.full(len(exponents), up)

    monkeypatch.setattr(rejection, "_BLOCK", 8)
    monkeypatch.setattr(rejection, "exp_coins", coins)
    return seen


def test_a_cap_that_keeps_nothing_gives_a_draw_from_the_prior_and_makes_all_trials(monkeypatch):
    seen = tossed(monkeypatch, up=False)
    capped = RejectionSampler(num_records=NUM, max_trials=20)
    found = capped.draw(target(1.0), SENSITIVE, secret=SECRET)
    assert found.value.shape == (2,)
    assert np.isfinite(found.value).all()
    assert seen == [8, 8, 4]


def test_a_cap_makes_all_trials_also_when_the_first_is_kept(monkeypatch):
    seen = tossed(monkeypatch, up=True)
    capped = RejectionSampler(num_records=NUM, max_trials=16)
    capped.draw(target(1.0), SENSITIVE, secret=SECRET)
    assert seen == [8, 8]


def test_losses_are_cut_where_the_declared_number_ends(monkeypatch):
    """A declared number that is too low bounds the trials all the same."""
    largest = []

    def coins(exponents, *, unit):
        largest.append(float(exponents.max() * unit))
        return np.ones(len(exponents), bool)

    monkeypatch.setattr(rejection, "exp_coins", coins)
    RejectionSampler(num_records=2).draw(target(0.5), SENSITIVE, secret=SECRET)
    assert largest[0] == 0.5 * 2


def test_out_of_reach_is_refused_with_the_reason():
    sampler = RejectionSampler(num_records=1000)
    with pytest.raises(ValueError, match=r"e\^100 trials for 1000 records.*sampler='zoom'"):
        sampler.settled(target(0.1))
    with pytest.raises(ValueError, match=r"e\^100 trials"):
        sampler.draw(target(0.1), SENSITIVE, secret=SECRET)
    assert sampler.settled(target(0.01)) is sampler
    # for replacing a record the exponent is half of it
    with pytest.raises(ValueError, match=r"e\^50 trials"):
        sampler.settled(target(0.1, factor=2))


def test_the_number_of_records_must_be_declared():
    with pytest.raises(ValueError, match="needs num_records"):
        RejectionSampler().settled(target(0.1))


# -- coins with probability exp(-x) ----------------------------------------------------------------

EXPONENTS = st.fractions(min_value=0, max_value=400).filter(lambda x: x > 0)


@settings(max_examples=60, deadline=None)
@given(exponent=EXPONENTS, bits=st.sampled_from([64, 128, 320]))
def test_bounds_enclose_the_exponential_and_are_close(exponent, bits):
    low, high = exp_bounds(exponent, bits=bits)
    assert high - low <= 3
    with localcontext() as context:
        context.prec = 400
        exact = (-Decimal(exponent.numerator) / Decimal(exponent.denominator)).exp() * 2**bits
        assert low <= exact <= high


@pytest.mark.parametrize(("exponent", "unit"), [(3, Fraction(1, 7)), (40, Fraction(1))])
def test_words_next_to_the_border_are_decided_by_further_bits(exponent, unit, monkeypatch):
    """A word that shares all 64 bits with exp(-x) is below it for low further bits only."""
    low, high = exp_bounds(exponent * unit, bits=64)
    words = np.array([low - 2, low, high + 1], np.uint64)
    given = np.full(3, exponent)
    for byte, middle in ((b"\x00", True), (b"\xff", False)):
        monkeypatch.setattr(rejection.os, "urandom", lambda n, byte=byte: byte * n)
        assert decide(words, given, unit=unit).tolist() == [True, middle, False]


def test_a_word_just_below_the_lower_bound_needs_no_further_bits(monkeypatch):
    exponent = Fraction(1, 3)
    low, high = exp_bounds(exponent, bits=64)
    monkeypatch.setattr(rejection.os, "urandom", lambda n: pytest.fail("drew further bits"))
    assert rejection._exactly(low - 1, exponent)
    assert not rejection._exactly(high, exponent)


def test_an_exponent_of_zero_always_comes_up_and_a_huge_one_does_not():
    words = np.array([0, 2**64 - 1], np.uint64)
    assert decide(words, np.zeros(2, np.int64), unit=Fraction(1)).all()
    assert not decide(words, np.full(2, 10**6), unit=Fraction(1))[1]


def test_a_chance_too_small_for_double_precision_is_still_decided_exactly(monkeypatch):
    """exp(-1000) is 2^-1443 or so: only bits that are all zero that far are below it."""
    monkeypatch.setattr(rejection.os, "urandom", lambda n: b"\x00" * n)
    zero = np.zeros(1, np.uint64)
    assert decide(zero, np.array([1000]), unit=Fraction(1)).all()
    monkeypatch.setattr(rejection.os, "urandom", lambda n: b"\x00" * (n - 1) + b"\x01")
    assert not decide(zero, np.array([1000]), unit=Fraction(1)).any()


def test_frequencies():
    """A false alarm once in ten million runs."""
    num = 40_000
    for exponent in (1, 5, 20):
        share = exp_coins(np.full(num, exponent), unit=Fraction(1, 10)).mean()
        expected = math.exp(-exponent / 10)
        assert abs(share - expected) < 5.4 * math.sqrt(expected * (1 - expected) / num)
