import logging
import math
import time
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, norm

from veilflow._core.errors import PrivacyError
from veilflow.privacy import accounting
from veilflow.privacy import events as ev
from veilflow.privacy.accounting import composition
from veilflow.privacy.accounting.conversions import log_delta_of_rho
from veilflow.privacy.accounting.pairs import BoundedRangePair, zero_concentrated
from veilflow.privacy.unit import Adjacency

PLD = accounting.get("pld")
RDP = accounting.get("rdp")


def steps(rate, noise, times):
    return ev.Repeated(times, ev.PoissonSampled(rate, ev.Gaussian(noise)))


def gaussian_delta(epsilon, noise):
    return norm.cdf(-epsilon * noise + 0.5 / noise) - math.exp(epsilon) * norm.cdf(
        -epsilon * noise - 0.5 / noise
    )


# --- a contract that every accountant runs, each on events it can add up -----------------------

CONTRACT = {
    "pld": [steps(0.05, 1.5, 100), ev.Laplace(2.0), ev.ZeroConcentrated(0.02), ev.Gaussian(3.0)],
    "rdp": [steps(0.05, 1.5, 100), ev.ExponentialMechanism(0.3), ev.ApproximateDP(0.1, 1e-9)],
    "zcdp": [ev.Gaussian(3.0), ev.ZeroConcentrated(0.02), ev.PureDP(0.2), ev.Laplace(5.0)],
    "gdp": [steps(0.05, 1.5, 100), ev.Gaussian(3.0)],
    "pure": [ev.PureDP(0.2), ev.Laplace(5.0), ev.ExponentialMechanism(0.3)],
    "basic": [ev.PureDP(0.2), ev.ApproximateDP(0.5, 1e-7), ev.Laplace(5.0)],
    "dp-accounting": [steps(0.05, 1.5, 100), ev.Laplace(2.0), ev.ApproximateDP(0.1, 1e-14)],
}


def test_every_accountant_runs_the_contract():
    assert set(CONTRACT) == set(accounting.NAMES)


@pytest.fixture(params=CONTRACT)
def case(request):
    return accounting.get(request.param), CONTRACT[request.param]


def test_nothing_spent_costs_nothing(case):
    accountant, _ = case
    for nothing in (None, ()):
        assert accountant.epsilon(nothing, delta=1e-5) == 0
        assert accountant.delta(nothing, epsilon=0.0) == 0


def test_unprotected_use_costs_everything(case):
    accountant, events = case
    assert accountant.epsilon([*events, ev.NonPrivate()], delta=1e-5) == math.inf
    assert accountant.delta([*events, ev.NonPrivate()], epsilon=50.0) == 1
    sampled = ev.PoissonSampled(0.01, ev.NonPrivate())
    assert accountant.epsilon(sampled, delta=0.5) == math.inf


def test_more_releases_cost_more_and_repeating_is_the_same_as_listing(case):
    accountant, events = case
    spent = [accountant.epsilon(events[:n], delta=1e-5) for n in range(len(events) + 1)]
    assert all(a < b for a, b in pairwise(spent))
    listed = accountant.epsilon([*events, *events, *events], delta=1e-5)
    assert listed == accountant.epsilon(ev.Repeated(3, ev.Together(tuple(events))), delta=1e-5)


def test_epsilon_falls_as_delta_grows(case):
    accountant, events = case
    spent = [accountant.epsilon(events, delta=d) for d in (1e-12, 1e-8, 1e-4, 1e-2)]
    assert all(a >= b for a, b in pairwise(spent))


def test_delta_at_the_epsilon_proved_is_at_most_the_delta_asked_for(case):
    accountant, events = case
    epsilon = accountant.epsilon(events, delta=1e-4)
    assert accountant.delta(events, epsilon=epsilon) <= 1e-4 * (1 + 1e-3)


def test_what_it_cannot_add_up_is_refused_by_name(case):
    accountant, events = case
    assert accountant.supports(events[0], Adjacency.ADD_REMOVE) is None
    for bad in (
        ev.PoissonSampled(0.1, ev.ZeroConcentrated(0.1)),
        ev.PoissonSampled(0.1, ev.Repeated(2, ev.Gaussian(1.0))),
    ):
        assert "PoissonSampled" in (accountant.supports(bad, Adjacency.ADD_REMOVE) or "")
        with pytest.raises(PrivacyError, match="PoissonSampled"):
            accountant.epsilon(bad, delta=1e-5)


def test_sampling_under_replace_one_is_refused_and_plain_releases_are_not(case):
    accountant, _ = case
    sampled = ev.PoissonSampled(0.1, ev.PureDP(1.0))
    with pytest.raises(PrivacyError, match="replace-one"):
        accountant.epsilon(sampled, delta=1e-5, adjacency=Adjacency.REPLACE_ONE)
    plain = ev.PureDP(1.0) if accountant.name in ("pure", "basic") else ev.Gaussian(1.0)
    answers = {accountant.epsilon(plain, delta=1e-5, adjacency=a) for a in Adjacency}
    assert len(answers) == 1  # noise is measured against the sensitivity of the adjacency itself


@pytest.mark.parametrize("delta", [-1e-9, 1.0, math.nan])
def test_an_impossible_delta_is_refused(case, delta):
    with pytest.raises(ValueError, match="delta"):
        case[0].epsilon(case[1], delta=delta)


def test_sampling_with_rate_one_is_no_sampling(case):
    accountant, events = case
    once = [e for e in events if not isinstance(e, ev.Repeated)]
    always = [ev.PoissonSampled(1.0, e) for e in once]
    assert accountant.epsilon(always, delta=1e-5) == accountant.epsilon(once, delta=1e-5)


@pytest.mark.parametrize("delta", [1e-3, 1e-5, 1e-8])
def test_a_distance_is_paid_at_the_epsilon_that_is_reported(case, delta):
    """The price of being near a run grows with epsilon, so with a smaller delta."""
    accountant, events = case
    far, near = ev.TotalVariation(1e-9), ev.TotalVariation(1e-14)
    alone = accountant.epsilon(events, delta=delta)
    found = accountant.epsilon([*events, far], delta=delta)
    assert found >= alone
    if alone < math.inf:
        assert accountant.epsilon([*events, near], delta=delta) == pytest.approx(alone, rel=1e-3)
    if found < math.inf:
        left = delta - (1 + math.exp(found)) * 1e-9
        assert left >= 0
        assert accountant.epsilon(events, delta=left) <= found * (1 + 1e-6)
        described = accountant.delta(events, epsilon=found)
        total = accountant.delta([*events, far], epsilon=found)
        assert total == pytest.approx(described + (1 + math.exp(found)) * 1e-9, rel=1e-9)


def test_distances_add_up_and_alone_cost_twice_themselves():
    two = (ev.TotalVariation(1e-6), ev.TotalVariation(3e-6))
    assert PLD.delta(two, epsilon=0.0) == pytest.approx(8e-6)
    assert PLD.delta(two, epsilon=2.0) == pytest.approx((1 + math.exp(2.0)) * 4e-6)
    assert PLD.epsilon(two, delta=8.1e-6) == 0
    assert PLD.epsilon(two, delta=7.9e-6) == math.inf
    assert PLD.delta(ev.Repeated(3, two[0]), epsilon=0.0) == pytest.approx(6e-6)
    assert PLD.delta(two, epsilon=1e4) == 1


def test_a_distance_larger_than_delta_leaves_nothing_proved():
    release = ev.Gaussian(1.0)
    slack = ev.TotalVariation(1e-8)
    assert PLD.epsilon([release, slack], delta=1e-5) < math.inf
    # at this delta epsilon is about 5.3, where the distance costs more than 2e-6
    assert PLD.epsilon(release, delta=1e-6) > 4.8
    assert PLD.epsilon([release, slack], delta=1e-6) == math.inf


def test_a_slack_priced_at_one_epsilon_understates_at_a_smaller_delta():
    """Why the distance is on the ledger and not a delta for the epsilon of a budget."""
    release, distance = ev.Gaussian(4.0), 1e-12
    epsilon = PLD.epsilon(release, delta=1e-5)
    frozen = ev.ApproximateDP(0.0, (1 + math.exp(epsilon)) * distance)
    honest = ev.TotalVariation(distance)
    tiny = 2e-11
    assert PLD.epsilon([release, frozen], delta=tiny) < PLD.epsilon([release, honest], delta=tiny)


def test_a_sampled_distance_is_refused():
    with pytest.raises(PrivacyError, match="amplified by sampling"):
        PLD.epsilon(ev.PoissonSampled(0.5, ev.TotalVariation(1e-6)), delta=1e-5)


def test_an_unsupported_event_names_an_accountant_that_can():
    with pytest.raises(PrivacyError, match=r"PoissonSampled.*'pld'"):
        accounting.get("zcdp").epsilon([ev.PureDP(1.0), steps(0.1, 1.0, 5)], delta=1e-5)
    with pytest.raises(ValueError, match="one of"):
        accounting.get("prv")


# --- closed forms ------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", [0.3, 1.0, 4.0, 50.0])
@pytest.mark.parametrize("delta", [1e-2, 1e-5, 1e-10])
def test_plain_gaussians_are_exact(noise, delta):
    one = PLD.epsilon(ev.Gaussian(noise), delta=delta)
    if one > 0:
        assert gaussian_delta(one, noise) == pytest.approx(delta, rel=1e-4)
    nine = PLD.epsilon(ev.Repeated(9, ev.Gaussian(noise)), delta=delta)
    assert nine == pytest.approx(PLD.epsilon(ev.Gaussian(noise / 3), delta=delta), rel=1e-9)


@pytest.mark.parametrize("times", [1, 40, 2000])
@pytest.mark.parametrize("delta", [1e-3, 1e-9, 1e-40])
def test_the_grid_agrees_with_the_exact_gaussian_from_above(times, delta):
    grid = PLD.epsilon([steps(1 - 1e-13, 20.0, times)], delta=delta)  # not quite plain
    exact = PLD.epsilon(ev.Repeated(times, ev.Gaussian(20.0)), delta=delta)
    assert exact * (1 - 1e-6) <= grid <= exact * (1 + 1e-3)


@pytest.mark.parametrize("rate", [1e-4, 0.01, 0.3, 0.9])
@pytest.mark.parametrize("noise", [0.5, 1.0, 5.0])
def test_one_sampled_step_agrees_with_its_closed_form_from_above(rate, noise):
    for epsilon in (0.001, 0.1, 1.0):
        cut = noise**2 * math.log1p(math.expm1(epsilon) / rate) + 0.5  # removing a record
        remove = (1 - rate) * norm.sf(cut / noise) + rate * norm.sf((cut - 1) / noise)
        remove -= math.exp(epsilon) * norm.sf(cut / noise)
        found = PLD.delta(steps(rate, noise, 1), epsilon=epsilon)
        assert remove * (1 - 1e-6) - 1e-18 <= found
        if remove > 1e-15:
            assert found <= remove * 1.01


@pytest.mark.parametrize("scale", [0.2, 1.0, 10.0])
def test_one_laplace_release_is_exact(scale):
    for delta in (1e-2, 1e-6):
        exact = max(0.0, 1 / scale + 2 * math.log1p(-delta))
        assert exact - 1e-9 <= PLD.epsilon(ev.Laplace(scale), delta=delta) <= exact + 1e-4


@pytest.mark.parametrize("times", [1, 5, 60])
def test_pure_releases_compose_optimally(times):
    epsilon, delta = 0.2, 1e-4
    k = np.arange(times + 1)
    losses, masses = (2 * k - times) * epsilon, binom.pmf(k, times, 1 / (1 + math.exp(-epsilon)))

    def exact(e):
        return float(np.sum(np.maximum(-np.expm1(e - losses), 0) * masses))

    found = PLD.epsilon(ev.Repeated(times, ev.PureDP(epsilon)), delta=delta)
    assert exact(found) <= delta * (1 + 1e-6)
    assert exact(found * 0.999 - 1e-4) > delta
    assert found <= times * epsilon


def test_without_delta_pure_releases_cost_their_sum_and_others_are_unbounded():
    pure = [ev.PureDP(0.5), ev.Laplace(4.0), ev.ExponentialMechanism(0.25)]
    for name in ("pld", "pure", "basic"):
        assert accounting.get(name).epsilon(pure, delta=0.0) == 1.0
    assert PLD.epsilon([*pure, ev.Gaussian(100.0)], delta=0.0) == math.inf
    assert accounting.get("basic").epsilon(ev.ApproximateDP(1.0, 1e-9), delta=0.0) == math.inf


def test_sampling_a_pure_release_amplifies_it():
    for inner in (ev.PureDP(1.0), ev.Laplace(1.0), ev.ExponentialMechanism(1.0)):
        epsilon = accounting.get("pure").epsilon(ev.PoissonSampled(0.1, inner), delta=0.0)
        assert epsilon == pytest.approx(math.log1p(0.1 * math.expm1(1.0)))


def test_a_failing_release_uses_up_delta():
    event = ev.ApproximateDP(0.5, 1e-6)
    assert PLD.epsilon(event, delta=0.9e-6) == math.inf
    assert PLD.epsilon(event, delta=1e-6 * (1 + 1e-9)) == pytest.approx(0.5, abs=1e-4)
    many = PLD.epsilon(ev.Repeated(10, event), delta=2e-5)
    assert 0.5 < many < 5.0
    assert RDP.epsilon(ev.Repeated(10, event), delta=2e-5) >= many


# --- dominating pairs of our own ----------------------------------------------------------------


@given(st.floats(0.01, 8.0), st.floats(0.0, 1.0), st.floats(-1.0, 1.0))
def test_the_bounded_range_pair_dominates_every_two_point_mechanism(epsilon, where, at):
    t, a = where * epsilon, at * epsilon
    tell = (math.exp(epsilon) - math.exp(t)) / math.expm1(epsilon)
    two_point = tell * max(0.0, -math.expm1(a - t)) + (1 - tell) * max(
        0.0, -math.expm1(a - t + epsilon)
    )
    above, scaled = BoundedRangePair(epsilon).tails(np.array([a]))
    assert above[0] - scaled[0] >= two_point - 1e-12


def test_bounded_range_is_cheaper_than_pure_of_the_same_epsilon_and_dearer_than_half():
    def cost(event):
        return PLD.epsilon(ev.Repeated(50, event), delta=1e-5)

    assert cost(ev.PureDP(0.1)) < cost(ev.ExponentialMechanism(0.2)) < cost(ev.PureDP(0.2))


@pytest.mark.parametrize("rho", [1e-4, 0.02, 0.5, 20.0])
def test_the_zcdp_pair_lies_between_the_gaussian_and_the_conversion(rho):
    pair = zero_concentrated(rho, tail=1e-14)
    assert math.isclose(float(np.sum(pair.masses)) + pair.lost, 1.0, rel_tol=1e-9)
    epsilons = pair.losses[pair.losses > rho]
    above, scaled = pair.tails(epsilons)
    curve = above - scaled
    keep = curve > 1e-12
    bound = np.exp(log_delta_of_rho(rho, epsilons))
    assert np.all(curve[keep] <= bound[keep] * (1 + 1e-5))
    exact = [gaussian_delta(e, (2 * rho) ** -0.5) for e in epsilons[keep]]
    assert np.all(curve[keep] >= np.array(exact))


def test_a_discrete_count_beside_training_costs_less_than_two_budgets_would():
    count, training = ev.ZeroConcentrated(0.01), steps(0.01, 1.0, 1000)
    both = PLD.epsilon([count, training], delta=1e-5)
    apart = [PLD.epsilon(e, delta=0.5e-5) for e in (count, training)]
    assert max(apart) < both < sum(apart)
    alone = PLD.epsilon(count, delta=1e-5)
    assert alone == pytest.approx(accounting.get("zcdp").epsilon(count, delta=1e-5), rel=1e-4)


# --- bounds against each other and against published numbers ------------------------------------

GRID = [
    (rate, noise, times)
    for rate in (1e-3, 0.02, 0.5)
    for noise in (0.6, 1.5, 8.0)
    for times in (1, 300, 20_000)
]


@pytest.mark.parametrize(("rate", "noise", "times"), GRID)
def test_pld_is_below_rdp(rate, noise, times):
    event = steps(rate, noise, times)
    assert PLD.epsilon(event, delta=1e-6) <= RDP.epsilon(event, delta=1e-6)


@pytest.mark.parametrize(("rate", "noise", "times"), [(0.02, 1.0, 1000), (0.004, 0.8, 5000)])
def test_pld_agrees_with_an_independent_implementation(rate, noise, times):
    from dp_accounting.pld import privacy_loss_distribution as reference

    other = reference.from_gaussian_mechanism(
        noise, sampling_prob=rate, value_discretization_interval=1e-3
    ).self_compose(times)
    ours = PLD.epsilon(steps(rate, noise, times), delta=1e-6)
    assert ours == pytest.approx(other.get_epsilon_for_delta(1e-6), rel=2e-3)


@pytest.mark.parametrize(
    ("rate", "noise", "times"), [(0.02, 1.0, 30), (0.3, 0.7, 5), (1e-3, 0.5, 3)]
)
def test_pld_is_never_below_an_optimistic_estimate_of_the_truth(rate, noise, times):
    from dp_accounting.pld import privacy_loss_distribution as reference

    lower = reference.from_gaussian_mechanism(
        noise, sampling_prob=rate, pessimistic_estimate=False, use_connect_dots=False
    ).self_compose(times, tail_mass_truncation=0)
    for delta in (1e-3, 1e-6):
        ours = PLD.epsilon(steps(rate, noise, times), delta=delta)
        optimistic = lower.get_epsilon_for_delta(delta)
        assert optimistic <= ours <= optimistic * 1.01 + 2e-4 * times


@pytest.mark.parametrize(
    ("rate", "noise", "times", "delta", "expected"),
    [
        (100 / 24060, 2.1, 4737, 1.52e-5, 0.5),
        (100 / 24060, 2.1, 16939, 1.52e-5, 1.0),
        (100 / 24060, 2.1, 59459, 1.52e-5, 2.0),
        (100 / 24060, 2.1, 201612, 1.52e-5, 4.0),
        (0.1, 1.25, 300, 1e-5, 8.38),
        (0.1, 4.5, 300, 1e-5, 1.54),
        (0.1, 1.25 / math.sqrt(2), 300, 1e-5, 15.7),
        (0.5, 29.93, 8000, 1e-2, 4.0),
        (0.5, 18.28, 8000, 1e-5, 12.9),
        (1 / 12, 6.68, 8000, 1e-5, 5.02),
    ],
)
def test_numbers_recomputed_for_the_published_systems(rate, noise, times, delta, expected):
    assert PLD.epsilon(steps(rate, noise, times), delta=delta) == pytest.approx(expected, rel=5e-3)


def test_the_central_limit_understates_epsilon_where_noise_is_small_and_rarely_sampled():
    event = steps(1e-3, 0.5, 1000)
    assert accounting.get("gdp").epsilon(event, delta=1e-6) == pytest.approx(0.98, abs=0.01)
    assert PLD.epsilon(event, delta=1e-6) == pytest.approx(4.24, abs=0.01)


def test_the_central_limit_is_exact_for_plain_gaussians():
    event = ev.Repeated(7, ev.Gaussian(3.0))
    assert accounting.get("gdp").epsilon(event, delta=1e-6) == PLD.epsilon(event, delta=1e-6)


@settings(max_examples=12)
@given(
    rate=st.floats(1e-4, 0.9),
    noise=st.floats(0.4, 20.0),
    times=st.integers(1, 5000),
    more=st.floats(1.1, 3.0),
)
def test_epsilon_grows_with_steps_and_rate_and_falls_with_noise(rate, noise, times, more):
    base = PLD.epsilon(steps(rate, noise, times), delta=1e-6)
    assert PLD.epsilon(steps(rate, noise, math.ceil(times * more)), delta=1e-6) >= base * 0.999
    assert PLD.epsilon(steps(min(1.0, rate * more), noise, times), delta=1e-6) >= base * 0.999
    assert PLD.epsilon(steps(rate, noise * more, times), delta=1e-6) <= base * 1.001


# --- size and speed ------------------------------------------------------------------------------


def test_a_hundred_different_steps_compose_in_seconds_and_from_above():
    kinds = [steps(0.01, 1.0 + 1e-9 * i, 30) for i in range(100)]
    start = time.process_time()
    apart = PLD.epsilon(kinds, delta=1e-5)
    elapsed = time.process_time() - start
    together = PLD.epsilon(steps(0.01, 1.0, 3000), delta=1e-5)
    assert together * (1 - 1e-4) <= apart <= together * 1.002
    assert elapsed < 10  # processor seconds; about 2 on one core of 2024


@pytest.mark.parametrize(
    "event",
    [
        steps(0.01, 0.3, 10**6),
        steps(0.99, 0.3, 10**6),
        steps(1e-6, 0.01, 10**6),
        steps(1e-3, 50.0, 10**6),
        steps(1e-5, 100.0, 1),
        steps(1e-9, 1e3, 1),
        steps(0.5, 1e-2, 10),
        ev.Repeated(10**6, ev.Laplace(100.0)),
        ev.Repeated(3, ev.ExponentialMechanism(900.0)),
        ev.PureDP(2000.0),
        [steps(0.01, 1.0, 10**5), ev.PureDP(1e-6), ev.ZeroConcentrated(1e-9)],
        [steps(0.01, 30.0, 10), ev.ZeroConcentrated(500.0)],
    ],
    ids=str,
)
def test_extreme_ledgers_are_answered_at_once_and_below_rdp(event):
    start = time.process_time()
    epsilon = PLD.epsilon(event, delta=1e-5)
    assert time.process_time() - start < 15
    assert 0 <= epsilon < math.inf
    assert epsilon <= RDP.epsilon(event, delta=1e-5) * (1 + 1e-3)


def test_a_ledger_too_large_for_the_grid_falls_back_and_says_so():
    most = PLD.account(
        steps(1e-6, 5.0, composition.MAX_COUNT), delta=1e-5, adjacency=Adjacency.ADD_REMOVE
    )
    assert most.label == "PLD"
    event = steps(1e-6, 5.0, composition.MAX_COUNT + 1)
    answer = PLD.account(event, delta=1e-5, adjacency=Adjacency.ADD_REMOVE)
    assert answer.label.startswith("RDP (PLD gave up: ")
    assert answer.value == RDP.epsilon(event, delta=1e-5)
    with pytest.raises(PrivacyError, match="releases"):
        PLD.epsilon(ev.Repeated(10**20, ev.Gaussian(1.0)), delta=1e-5)


def test_orders_that_renyi_accounting_skips_are_not_reported(caplog):
    with caplog.at_level(logging.WARNING, logger="absl"):
        RDP.epsilon(steps(0.3, 0.3, 1000), delta=1e-5)
    assert not caplog.records


def test_a_tiny_delta_is_as_safe_as_a_large_one():
    event = [steps(0.1, 2.0, 50), ev.Gaussian(5.0)]
    found = [PLD.epsilon(event, delta=10.0**-k) for k in (5, 15, 30, 100)]
    assert found == sorted(found)
    assert found[-1] <= RDP.epsilon(event, delta=1e-100)
    assert PLD.delta(event, epsilon=found[2]) == pytest.approx(1e-30, rel=0.05)
