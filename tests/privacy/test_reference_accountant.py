"""Our PLD against dp-accounting: never below its optimistic, hardly above its pessimistic estimate.

Each direction is compared apart: the answer is the larger of the two, and removing a record is
nearly always the dearer one, so an error in adding would stay unseen.
"""

import json
import math
import subprocess
import sys

import numpy as np
import pytest

from veilflow._core.errors import PrivacyError
from veilflow.privacy import accounting
from veilflow.privacy import events as ev
from veilflow.privacy.accounting import composition, reference
from veilflow.privacy.accounting.accountant import releases
from veilflow.privacy.accounting.conversions import epsilon_of_mu, log_delta_of_mu
from veilflow.privacy.accounting.pairs import GaussianPair, randomized_response
from veilflow.privacy.accounting.pld import _pairs
from veilflow.privacy.ledger import Ledger
from veilflow.privacy.unit import Adjacency

PLD = accounting.get("pld")
REFERENCE = accounting.get("dp-accounting")


def steps(rate, noise, times):
    return ev.Repeated(times, ev.PoissonSampled(rate, ev.Gaussian(noise)))


def ours(events, adding, delta):
    together = releases(events, Adjacency.ADD_REMOVE)
    return composition.epsilon(_pairs(together, adding, tail=delta), delta=delta)


def theirs(events, adding, delta, *, pessimistic):
    together = REFERENCE._releases(events, Adjacency.ADD_REMOVE)
    found = reference.composed(together, pessimistic=pessimistic)
    one = found._pmf_add if adding else found._pmf_remove
    return one.get_epsilon_for_delta(delta)


LEDGERS = {
    "rare": [steps(1e-3, 1.5, 30)],
    "frequent": [steps(0.3, 1.5, 8)],
    "noisy": [steps(0.02, 50.0, 30)],
    "little noise": [steps(0.02, 0.7, 6)],
    "two rates": [steps(0.01, 1.0, 8), steps(0.1, 3.0, 8)],
    "mixed": [steps(0.02, 1.0, 6), ev.Gaussian(3.0), ev.Laplace(2.0), ev.PureDP(0.2)],
    "failing": [steps(0.05, 2.0, 10), ev.Repeated(3, ev.ApproximateDP(0.1, 1e-9))],
    "coins": [ev.Repeated(40, ev.PureDP(0.1)), ev.Repeated(5, ev.Laplace(4.0))],
}


@pytest.mark.few(6)
@pytest.mark.parametrize("adding", [False, True], ids=["remove", "add"])
@pytest.mark.parametrize("events", LEDGERS.values(), ids=LEDGERS.keys())
def test_few_releases_lie_between_the_optimistic_and_the_pessimistic_estimate(events, adding):
    for delta in (1e-2, 1e-5, 1e-8):
        found = ours(events, adding, delta)
        assert found >= theirs(events, adding, delta, pessimistic=False) * (1 - 1e-6)
        assert found <= theirs(events, adding, delta, pessimistic=True) * (1 + 2e-3) + 1e-9


MANY = {
    "training": [steps(0.01, 1.0, 2000)],
    "long training": [steps(1e-3, 0.8, 100_000)],
    "training and more": [steps(0.004, 1.2, 5000), ev.Gaussian(4.0), ev.PureDP(0.05)],
    "tiny coins": [ev.Repeated(10**5, ev.PureDP(1e-5))],
}


@pytest.mark.parametrize("events", MANY.values(), ids=MANY.keys())
def test_many_releases_agree_with_the_pessimistic_estimate(events):
    # Optimistic estimates of many steps say nothing: each step is rounded down by a whole cell.
    for adding in (False, True):
        for delta in (1e-3, 1e-6):
            other = theirs(events, adding, delta, pessimistic=True)
            assert ours(events, adding, delta) == pytest.approx(other, rel=2e-3)


@pytest.mark.parametrize("adding", [False, True], ids=["remove", "add"])
@pytest.mark.parametrize("noise", [0.05, 0.15, 0.5, 5.0])
def test_two_plain_gaussians_are_exact_in_both_directions(noise, adding):
    pair = (GaussianPair(noise, 1.0, adding), 2)
    for delta in (1e-2, 1e-6, 1e-12):
        exact = epsilon_of_mu(math.sqrt(2) / noise, delta)
        assert exact * (1 - 1e-9) <= composition.epsilon([pair], delta=delta) <= exact * 1.001
    for epsilon in (0.0, 0.3, 10.0):
        exact = math.exp(log_delta_of_mu(math.sqrt(2) / noise, epsilon))
        found = composition.delta([pair], epsilon=epsilon)
        assert found >= exact * (1 - 1e-9)
        assert found <= exact * 1.001 + 1e-290


@pytest.mark.few(4)
@pytest.mark.parametrize("adding", [False, True], ids=["remove", "add"])
@pytest.mark.parametrize(("rate", "noise"), [(0.02, 0.7), (1e-3, 0.3), (1e-5, 1.5), (0.3, 0.7)])
def test_two_sampled_steps_agree_with_a_double_sum(rate, noise, adding):
    # Two steps, integrated over both noises without a grid of losses or a Fourier transform.
    x = (np.arange(-12 * noise, 1 + 12 * noise, noise / 100) + noise / 200)[:, None]
    base = np.exp(-0.5 * (x / noise) ** 2) * (noise / 100) / (noise * math.sqrt(2 * math.pi))
    ratio = np.log1p(rate * np.expm1((x - 0.5) / noise**2))
    loss = -ratio if adding else ratio
    mass = base if adding else base * np.exp(ratio)
    for delta in (1e-2, 1e-6):
        found = ours([steps(rate, noise, 2)], adding, delta)
        short = found * (1 - 2e-3)
        both, masses = loss + loss.T, mass * mass.T

        def curve(epsilon, both=both, masses=masses):
            return float(np.sum(np.maximum(-np.expm1(np.minimum(epsilon - both, 0)), 0) * masses))

        assert curve(found) <= delta * (1 + 1e-4)
        assert found == 0 or curve(short) > delta * (1 - 1e-4)


def contour_delta(rate, noise, times, adding, epsilon):
    """Delta as an integral of the moment generating function: no grid of losses, no transform.

    delta is 1 / (2 pi i) times the integral of M(s) e^(-s epsilon) / (s (s + 1)) along any vertical
    line right of 0; on the one through the saddle point the integrand is a bell.
    """
    x, cell = np.linspace(-13 * noise, 35 + 13 * noise, 4000, retstep=True)
    log_weight = -0.5 * (x / noise) ** 2 + math.log(cell / (noise * math.sqrt(2 * math.pi)))
    loss = np.log1p(rate * np.expm1((x - 0.5) / noise**2))

    def log_integrand(s):
        power = np.multiply.outer(-s if adding else s + 1, loss)
        log_mgf = np.log(np.sum(np.exp(power + log_weight), axis=1))
        return times * log_mgf - s * epsilon - np.log(s) - np.log1p(s)

    tilts = np.geomspace(1e-2, 30, 200)
    on_axis = log_integrand(tilts).real
    best = int(np.argmin(on_axis))
    a, top = tilts[best], on_axis[best]
    near = log_integrand(a * np.array([1 - 1e-3, 1.0, 1 + 1e-3])).real
    bend = (near[0] - 2 * near[1] + near[2]) / (1e-3 * a) ** 2
    u, step = np.linspace(0, 25 / math.sqrt(bend), 600, retstep=True)
    bell = np.exp(log_integrand(a + 1j * u) - top).real
    assert 0 < best < len(tilts) - 1  # else there was no saddle,
    assert np.max(np.abs(bell[-20:])) < 1e-7  # or no bell, and the integral is worth nothing
    return math.exp(top) * (float(np.sum(bell)) - 0.5 * bell[0]) * step / math.pi


@pytest.mark.parametrize("adding", [False, True], ids=["remove", "add"])
@pytest.mark.parametrize(
    ("rate", "noise", "times"), [(0.01, 1.0, 2000), (0.1, 2.0, 500), (1e-3, 1.5, 10**6)]
)
@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-12])
def test_many_sampled_steps_are_above_a_contour_integral(rate, noise, times, adding, delta):
    found = ours([steps(rate, noise, times)], adding, delta)
    assert contour_delta(rate, noise, times, adding, found) <= delta * (1 + 1e-6)
    assert contour_delta(rate, noise, times, adding, found * (1 - 2e-3)) > delta


def test_failures_do_not_loosen_what_they_are_released_with():
    failing = ev.Repeated(10**6, ev.ApproximateDP(0.0, 1e-9))
    for delta in (1e-2, 2e-3):
        found = PLD.epsilon([failing, ev.PureDP(0.1)], delta=delta)
        assert found == pytest.approx(REFERENCE.epsilon([failing, ev.PureDP(0.1)], delta=delta))
    assert PLD.epsilon(failing, delta=1.1e-3) == 0
    assert PLD.epsilon(failing, delta=0.9e-3) == math.inf
    assert PLD.delta(ev.ApproximateDP(0.3, 1e-5), epsilon=0.3) == 1e-5


def test_the_pair_of_all_failures_and_a_coin_is_that_of_one_failing_coin():
    t = np.linspace(-1, 1, 41)
    above, scaled = randomized_response(0.4, 1e-3).tails(t)
    coin, coin_scaled = randomized_response(0.4).tails(t)
    np.testing.assert_allclose(above - scaled, 1e-3 + (1 - 1e-3) * (coin - coin_scaled), atol=1e-15)


def test_sampled_laplace_noise_is_bounded_by_its_amplified_epsilon():
    # Ours is the pure bound; theirs knows the shape of the noise and is at most that.
    event = ev.Repeated(10, ev.PoissonSampled(0.1, ev.Laplace(1.0)))
    assert REFERENCE.epsilon(event, delta=1e-5) <= PLD.epsilon(event, delta=1e-5) * (1 + 1e-6)
    single = ev.PoissonSampled(0.1, ev.Laplace(1.0))
    assert PLD.epsilon(single, delta=0.0) == pytest.approx(math.log1p(0.1 * math.expm1(1)))


@pytest.mark.parametrize(
    "event",
    [
        ev.ZeroConcentrated(0.1),
        ev.ExponentialMechanism(0.5),
        ev.PoissonSampled(0.1, ev.PureDP(1.0)),
        ev.PoissonSampled(0.1, ev.Together((ev.Gaussian(1.0), ev.Gaussian(2.0)))),
    ],
    ids=str,
)
def test_what_dp_accounting_has_no_distribution_for_is_refused_by_name(event):
    kind = type(event).__name__
    ledger = Ledger().spend(ev.Gaussian(1.0), purpose="a").spend(event, purpose="b")
    with pytest.raises(PrivacyError, match=kind):
        ledger.epsilon(delta=1e-5, accountant="dp-accounting")
    assert kind in (REFERENCE.supports(event, Adjacency.ADD_REMOVE) or "")


def test_sampling_twice_multiplies_the_rates():
    twice = ev.PoissonSampled(0.5, ev.PoissonSampled(0.2, ev.Gaussian(1.0)))
    once = ev.PoissonSampled(0.1, ev.Gaussian(1.0))
    assert REFERENCE.epsilon(twice, delta=1e-5) == REFERENCE.epsilon(once, delta=1e-5)


@pytest.mark.parametrize("noise", [1e-200, 1e-160, 1e200])
def test_numbers_beyond_double_precision_prove_nothing_instead_of_crashing(noise):
    for name in ("pld", "rdp", "gdp"):
        with np.errstate(all="ignore"):
            epsilon = accounting.get(name).epsilon(ev.Gaussian(noise), delta=1e-5)
        assert epsilon == math.inf


def test_the_reference_is_not_imported_until_it_is_asked():
    code = (
        "import sys, json; from veilflow.privacy import accounting, events;"
        "accounting.get('dp-accounting').epsilon(None, delta=1e-5);"
        "accounting.get('pld').epsilon(events.Gaussian(1.0), delta=1e-5);"
        "print(json.dumps('dp_accounting' in sys.modules))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(run.stdout) is False
