import math
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from veilflow._core.errors import BudgetError
from veilflow.privacy import calibration
from veilflow.privacy import events as ev
from veilflow.privacy.budget import Budget
from veilflow.privacy.ledger import Ledger

COUNTED = Ledger().spend(ev.ZeroConcentrated(0.005), purpose="count")


def cost(ledger, rate, noise, steps, *, delta, accountant="pld"):
    event = calibration.training_event(rate, noise, steps)
    return ledger.spend(event, purpose="t").epsilon(delta=delta, accountant=accountant)


@pytest.mark.parametrize("epsilon", [0.05, 1.0, 10.0, 300.0])
def test_calibrated_noise_spends_the_budget_to_a_thousandth_from_below(epsilon):
    noise = calibration.noise_multiplier(Budget(epsilon, 1e-5), sampling_rate=0.01, steps=3000)
    spent = cost(Ledger(), 0.01, noise, 3000, delta=1e-5)
    assert epsilon * (1 - 1e-3) <= spent <= epsilon


@pytest.mark.parametrize("accountant", ["pld", "rdp", "gdp"])
def test_noise_can_be_calibrated_with_any_accountant_of_sampled_steps(accountant):
    budget = Budget(2.0, 1e-6)
    noise = calibration.noise_multiplier(
        budget, sampling_rate=0.02, steps=500, accountant=accountant
    )
    spent = cost(Ledger(), 0.02, noise, 500, delta=1e-6, accountant=accountant)
    assert 2.0 * (1 - 1e-3) <= spent <= 2.0


def test_plain_gaussians_can_be_calibrated_by_zcdp_and_need_more_noise_than_by_pld():
    budget = Budget(1.0, 1e-6)
    noises = [
        calibration.noise_multiplier(budget, sampling_rate=1.0, steps=7, accountant=name)
        for name in ("pld", "zcdp")
    ]
    assert noises[0] < noises[1]


def test_what_was_spent_before_is_taken_into_account():
    budget = Budget(1.0, 1e-5)
    alone = calibration.noise_multiplier(budget, sampling_rate=0.01, steps=1000)
    after = calibration.noise_multiplier(budget, sampling_rate=0.01, steps=1000, ledger=COUNTED)
    assert after > alone
    assert 0.999 <= cost(COUNTED, 0.01, after, 1000, delta=1e-5) <= 1.0


def test_calibrated_steps_fit_and_a_few_more_do_not():
    steps = calibration.steps(Budget(1.0, 1e-5), sampling_rate=0.01, noise_multiplier=1.0)
    assert cost(Ledger(), 0.01, 1.0, steps, delta=1e-5) <= 1.0
    assert cost(Ledger(), 0.01, 1.0, round(steps * 1.02), delta=1e-5) > 1.0


def test_few_steps_are_counted_to_the_last_one():
    budget = Budget(3.0, 1e-5)
    steps = calibration.steps(budget, sampling_rate=1.0, noise_multiplier=4.0)
    assert cost(Ledger(), 1.0, 4.0, steps, delta=1e-5) <= 3.0
    assert cost(Ledger(), 1.0, 4.0, steps + 1, delta=1e-5) > 3.0


def test_a_calibrated_rate_spends_the_budget_from_below():
    rate = calibration.sampling_rate(Budget(1.0, 1e-5), noise_multiplier=1.0, steps=500)
    assert 0.999 <= cost(Ledger(), rate, 1.0, 500, delta=1e-5) <= 1.0


def test_a_budget_that_affords_everything_gives_the_end_of_the_range():
    assert calibration.sampling_rate(Budget(9.0, 1e-5), noise_multiplier=50.0, steps=3) == 1.0
    roomy = Budget(9.0, 1e-5)
    assert calibration.steps(roomy, sampling_rate=1e-9, noise_multiplier=1e3) == 10**8


def test_an_unreachable_target_says_what_would_be_reachable():
    with pytest.raises(BudgetError, match=r"even steps=1 would bring the total to epsilon=\d"):
        calibration.steps(Budget(0.01, 1e-9), sampling_rate=1.0, noise_multiplier=1.0)


def test_nothing_fits_a_ledger_that_is_already_overdrawn():
    spent = Ledger().spend(ev.PureDP(3.0), purpose="bounds")
    with pytest.raises(BudgetError, match="already spent"):
        calibration.noise_multiplier(Budget(1.0, 1e-5), sampling_rate=0.01, steps=10, ledger=spent)


def test_any_event_can_be_calibrated():
    scale = calibration.calibrate(
        lambda b: ev.Repeated(10, ev.Laplace(b)),
        Budget(1.0, 0.0),
        bracket=(1e-3, 1e5),
        increasing=False,
    )
    assert 10.0 <= scale <= 10.02


@pytest.mark.parametrize(
    "bad",
    [
        {"sampling_rate": 0.0, "steps": 10},
        {"sampling_rate": 1.5, "steps": 10},
        {"sampling_rate": 0.1, "steps": 0},
    ],
)
def test_impossible_settings_are_refused_before_any_search(bad):
    with pytest.raises(ValueError):
        calibration.noise_multiplier(Budget(1.0, 1e-5), **bad)


def test_the_same_question_is_answered_from_memory():
    asked = {"sampling_rate": 0.013, "steps": 777}
    first = calibration.noise_multiplier(Budget(1.0, 1e-5), **asked)
    hits = calibration._solved.cache_info().hits
    assert calibration.noise_multiplier(Budget(1.0, 1e-5), **asked) == first
    assert calibration._solved.cache_info().hits == hits + 1


@dataclass
class Curve:
    """An epsilon that rises with a value as a power of it, with jumps; counts what it is asked."""

    power: float
    scale: float
    jumps_at: float = math.inf
    jumps_to: float = math.inf
    zero_below: float = 0.0
    asked: set = field(default_factory=set)

    def __call__(self, value):
        self.asked.add(value)
        if value < self.zero_below:
            return 0.0
        return self.jumps_to if value >= self.jumps_at else self.scale * value**self.power


powers = st.floats(0.05, 8)
scales = st.floats(-6, 6).map(lambda log: 10**log)
places = st.floats(-5.9, 5.9).map(lambda log: 10**log)
LOW, HIGH = 1e-6, 1e6


def search(curve, start, **settings):
    return calibration._search(curve, 1.0, LOW, HIGH, start=start, **{"integer": False, **settings})


@given(powers, scales, places)
def test_a_smooth_curve_is_followed_to_its_target(power, scale, start):
    curve = Curve(power, scale)
    found = search(curve, start)
    if curve(LOW) > 1:
        assert found == LOW
    elif curve(HIGH) <= 1:
        assert found == HIGH or curve(found) >= 1 - 5e-4
    else:
        assert 1 - 5e-4 <= curve(found) <= 1
    assert len(curve.asked) <= 60


@given(powers, scales, places, places, st.sampled_from([math.inf, 1.001, 50.0]))
def test_a_jump_over_the_target_is_stopped_just_below(power, scale, start, jump, height):
    curve = Curve(power, scale, jumps_at=jump, jumps_to=max(height, scale * jump**power))
    found = search(curve, start)
    assert found == LOW or curve(found) <= 1
    if curve(LOW) <= 1 and scale * jump**power < 1 - 5e-4:
        assert found >= jump * (1 - 1e-9) or curve(found) >= 1 - 5e-4
    assert len(curve.asked) <= 100


@given(powers, places, places)
def test_no_cost_at_all_is_no_obstacle(power, zero_below, start):
    curve = Curve(power, zero_below**-power / 2, zero_below=zero_below)
    found = search(curve, start)
    assert curve(found) <= 1
    assert curve(found) >= 1 - 5e-4 or found == HIGH


@given(powers, st.integers(1, 10**6), places)
def test_whole_numbers_are_found_to_the_last_one_or_to_the_tolerance(power, last, start):
    curve = Curve(power, (last + 0.5) ** -power)
    found = calibration._search(curve, 1.0, 1.0, 1e8, start=max(start, 1.0), integer=True)
    assert found == int(found)
    assert found == last or 1 - 5e-4 <= curve(found) <= 1
    assert len(curve.asked) <= 60


def test_a_cost_that_never_changes_gives_the_dear_end():
    assert search(lambda _: 0.3, 1.0) == HIGH
    assert search(lambda _: 0.0, 1.0) == HIGH


@pytest.mark.parametrize("budget", [Budget(1.0, 1e-6), Budget(0.01, 1e-2), Budget(8.0, 1e-12)])
@pytest.mark.parametrize("share", [0.01, 0.3, 0.9])
def test_parts_of_a_budget_compose_to_the_whole(budget, share):
    one, other = (calibration.part_of(budget, part) for part in (share, 1 - share))
    squares = [calibration.gaussian_mu(part) ** 2 for part in (one, other)]
    assert squares[0] / sum(squares) == pytest.approx(share, rel=1e-3)
    assert sum(squares) == pytest.approx(calibration.gaussian_mu(budget) ** 2, rel=1e-3)
    assert one.epsilon > 0
