"""Calibration: the least noise, the most steps or the largest batches that a budget affords.

One search serves all three: Brent's method on the logarithm of epsilon, which is nearly a straight line
in the logarithm of the setting. The answer is always on the safe side, within the budget.
"""

# SciPy and dp-accounting have no type stubs
# pyright: reportMissingTypeStubs=false, reportUnknownVariableType=false

import contextlib
import math
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any

from veilflow._core import check
from veilflow._core.errors import BudgetError, PrivacyError
from veilflow.privacy.accounting.conversions import epsilon_of_mu, log_delta_of_mu
from veilflow.privacy.budget import Budget
from veilflow.privacy.events import Event, Gaussian, PoissonSampled, Repeated
from veilflow.privacy.ledger import Ledger

_TOLERANCE = 5e-4
"""How far below the target, relatively, a calibrated epsilon may stay."""
_MAX_CALLS = 80
_FIRST_STEP = 0.05
"""The first step from the initial guess toward the target, in the logarithm."""
_CAPS = 0.05, 20.0
"""Epsilon over its target is capped to this range: Brent's method needs finite numbers."""
_ROUNDING = 1e-12
"""The search ends when its two ends are this close, relatively."""

_EMPTY = Ledger()


def calibrate(
    make_event: Callable[[float], Event],
    budget: Budget,
    *,
    bracket: tuple[float, float],
    increasing: bool,
    ledger: Ledger = _EMPTY,
    accountant: str = "pld",
    guess: float | None = None,
    integer: bool = False,
    what: str = "value",
) -> float:
    """The positive setting whose event spends the budget's epsilon and no more.

    Args:
        make_event: Maps a setting to the event it would cause.
        budget: What `ledger` and the event may cost together.
        bracket: The range to search; both ends are positive.
        increasing: Whether epsilon grows with the setting (steps, rate) or falls (noise).
        ledger: What is already spent.
        accountant: The accountant that computes epsilon.
        guess: Where to start; by default the geometric middle of the bracket.
        integer: Whether the setting is a whole number.
        what: The name of the setting, for error messages.

    Returns:
        A setting whose epsilon is at most the target and within 0.1 % of it, unless an end of the
        bracket is reached or whole numbers are too far apart.

    Raises:
        BudgetError: Nothing in the bracket fits; the message says what could be reached.
    """
    low, high = bracket
    check.positive(low=low, high=high)
    if low >= high:
        raise ValueError(f"bracket must rise, got {bracket}.")
    target = budget.epsilon

    @cache
    def epsilon(value: float) -> float:
        after = ledger.spend(make_event(value), purpose="calibration")
        return after.epsilon(delta=budget.delta, accountant=accountant)

    cheap, dear = (low, high) if increasing else (high, low)
    if ledger.entries and not budget.admits(ledger, accountant=accountant):
        spent = ledger.epsilon(delta=budget.delta, accountant=accountant)
        raise BudgetError(
            f"the ledger has already spent epsilon={spent:.4g} of {target:.4g}; nothing is left."
        )
    least = epsilon(cheap)
    if least > target:
        raise BudgetError(
            f"no {what} fits: even {what}={cheap:.4g} would bring the total to "
            f"epsilon={least:.4g} at delta={budget.delta:.3g}, with a budget of {target:.4g}."
        )
    start = min(max(guess or math.sqrt(low * high), low), high)
    return _search(epsilon, target, cheap, dear, start=start, integer=integer)


def _search(
    epsilon: Callable[[float], float],
    target: float,
    cheap: float,
    dear: float,
    *,
    start: float,
    integer: bool,
) -> float:
    """Of all values tried, the one closest to `dear` that keeps epsilon within the target.

    Args:
        epsilon: A cached function, at most `target` at `cheap` and rising toward `dear`.
        target: What epsilon must not exceed.
        cheap: One end of the range, and the answer if no other value keeps within the target.
        dear: The other end.
        start: Where to look first.
        integer: Whether the value is a whole number.
    """
    from scipy.optimize import brentq  # slow to import, and only needed here

    within = [cheap]
    ends = {math.log(cheap): cheap, math.log(dear): dear}  # exact to the last digit

    def distance(log: float) -> float:
        """How far the logarithm of epsilon is from the target; 0 if that is close enough."""
        value = ends.get(log, math.exp(log))
        if integer:
            value = float(math.floor(value * (1 + _ROUNDING)))
        if epsilon(value) <= target:
            within.append(value)
        beyond = math.log(min(max(epsilon(value) / target, _CAPS[0]), _CAPS[1]))
        close = math.log1p(-_TOLERANCE) <= beyond <= 0
        return 0.0 if close else beyond - math.log1p(-_TOLERANCE / 2)

    # ever larger steps from the start toward the target, until one goes past it or reaches the end
    near, step = math.log(start), _FIRST_STEP
    end = math.log(dear if distance(near) <= 0 else cheap)
    while distance(near) != 0 and near != end:
        far = end if abs(end - near) <= step else near + math.copysign(step, end - near)
        if distance(far) * distance(near) < 0:
            brentq(distance, near, far, xtol=_ROUNDING, maxiter=_MAX_CALLS, disp=False)
            break
        near, step = far, 3 * step
    return max(within, key=lambda value: abs(math.log(value / cheap)))


def noise_multiplier(
    budget: Budget,
    *,
    sampling_rate: float,
    steps: int,
    bands: int = 1,
    ledger: Ledger = _EMPTY,
    accountant: str = "pld",
) -> float:
    """The least noise multiplier with which `steps` sampled Gaussian steps fit the budget.

    Args:
        budget: What the ledger and the training may cost together.
        sampling_rate: The probability that a record enters a batch.
        steps: The number of noisy releases.
        bands: Over how many steps noise is correlated; it is then noise over the sensitivity of a turn.
        ledger: What is already spent.
        accountant: The accountant that computes epsilon.

    Raises:
        BudgetError: No amount of noise is enough.
    """
    rate, turns = turns_of(sampling_rate, steps, bands)
    return _solved(budget, ledger, accountant, rate, None, turns)


def steps(
    budget: Budget,
    *,
    sampling_rate: float,
    noise_multiplier: float,
    ledger: Ledger = _EMPTY,
    accountant: str = "pld",
) -> int:
    """The most sampled Gaussian steps that fit the budget, to 0.1 % of epsilon; at most 10^8.

    The arguments are those of `noise_multiplier`, with the noise given instead of the steps.

    Raises:
        BudgetError: Not even one step fits.
    """
    check.rate(sampling_rate=sampling_rate)
    check.positive(noise_multiplier=noise_multiplier)
    rate, noise = float(sampling_rate), float(noise_multiplier)
    return int(_solved(budget, ledger, accountant, rate, noise, None))


def sampling_rate(
    budget: Budget,
    *,
    noise_multiplier: float,
    steps: int,
    ledger: Ledger = _EMPTY,
    accountant: str = "pld",
) -> float:
    """The largest sampling rate with which `steps` Gaussian steps fit the budget.

    The arguments are those of `noise_multiplier`, with the noise given instead of the rate.

    Raises:
        BudgetError: No rate is small enough.
    """
    check.positive(noise_multiplier=noise_multiplier)
    check.count(steps=steps)
    return _solved(budget, ledger, accountant, None, float(noise_multiplier), int(steps))


@lru_cache(maxsize=512)
def _solved(
    budget: Budget,
    ledger: Ledger,
    accountant: str,
    rate: float | None,
    noise: float | None,
    steps: int | None,
) -> float:
    """The setting of a training that is None; the other two are given."""
    # guesses by the central limit theorem, which only save calls of the accountant
    mu = gaussian_mu(budget)
    spread = math.expm1(min(1 / noise / noise, 600.0)) if noise else 0.0
    if rate is None:
        guess = mu / math.sqrt(max((steps or 1) * spread, 1e-300))
        search: dict[str, Any] = {"what": "sampling_rate", "bracket": (1e-9, 1.0), "guess": guess}
    elif steps is None:
        guess = mu**2 / max(rate**2 * spread, 1e-300)
        search = {"what": "steps", "bracket": (1.0, 1e8), "guess": guess, "integer": True}
    else:
        guess = math.log1p(min(mu / rate, 1e100) ** 2 / steps) ** -0.5
        search = {"what": "noise_multiplier", "bracket": (1e-2, 1e6), "guess": guess}
    return calibrate(
        lambda value: training_event(rate or value, noise or value, steps or int(value)),
        budget,
        increasing=noise is not None,
        ledger=ledger,
        accountant=accountant,
        **search,
    )


def training_event(
    sampling_rate: float, noise_multiplier: float, steps: int, *, bands: int = 1
) -> Event:
    """`steps` Gaussian releases, each on a fresh Poisson batch.

    With several bands it is what the turns of one record cost: see `privacy.banded_noise`.
    """
    rate, turns = turns_of(sampling_rate, steps, bands)
    return Repeated(turns, PoissonSampled(rate, Gaussian(noise_multiplier)))


def turns_of(sampling_rate: float, steps: int, bands: int) -> tuple[float, int]:
    """The probability that a record takes a turn, and the most turns that it has in `steps` steps.

    Where noise is correlated over `bands` steps, a record has a turn in one of `bands` steps, and takes
    it with `bands` times the sampling rate. So it enters as many steps as with independent noise.

    Raises:
        ValueError: A number is out of range, or there is no such probability.
    """
    check.rate(sampling_rate=sampling_rate)
    check.count(steps=steps, noise_bands=bands)
    rate = float(bands * sampling_rate)
    if rate > 1:
        raise ValueError(
            f"noise_bands ({bands}) times the sampling rate ({sampling_rate:.4g}) must be at most 1: a "
            "record has a turn in one of that many steps, and takes it with this probability. Use "
            "fewer bands or smaller batches."
        )
    return rate, -(-int(steps) // int(bands))


def advice(budget: Budget, event: Event, *, ledger: Ledger, accountant: str = "pld") -> str:
    """A sentence on what would fit instead of `event`, for the message of a refusal."""
    times, inner = (int(event.times), event.event) if isinstance(event, Repeated) else (1, event)
    rate = 1.0
    if isinstance(inner, PoissonSampled):
        rate, inner = float(inner.sampling_rate), inner.event
    if not isinstance(inner, Gaussian):
        return "Ask for less, or raise the budget."
    noise = float(inner.noise_multiplier)
    options = {
        f"raise noise_multiplier from {noise:.4g}": (rate, None, times),
        f"lower steps from {times}": (rate, noise, None),
        f"lower sampling_rate from {rate:.4g}": (None, noise, times),
    }
    fits: list[str] = []
    for words, settings in options.items():
        with contextlib.suppress(PrivacyError, ValueError):  # this setting alone cannot do it
            value = _solved(budget, ledger, accountant, *settings)
            fits.append(f"{words} to {_rounded(value, up=settings[1] is None)}")
    if not fits:
        return "Nothing like it would fit: raise the budget."
    return "What would fit: " + ", or ".join(fits) + "."


def _rounded(value: float, *, up: bool) -> str:
    """`value` in a few digits, rounded to the safe side; whole numbers stay as they are."""
    if value == int(value):
        return str(int(value))
    unit = 10.0 ** (math.floor(math.log10(value)) - 3)
    return f"{(math.ceil if up else math.floor)(value / unit) * unit:.4g}"


@lru_cache(maxsize=512)
def gaussian_mu(budget: Budget) -> float:
    """The mu of one Gaussian mechanism that spends the whole budget, for rules of thumb."""
    target = math.log(max(budget.delta, 1e-300))
    low, high = 1e-9, 1e6
    for _ in range(60):
        middle = math.sqrt(low * high)
        fits = log_delta_of_mu(middle, budget.epsilon) <= target
        low, high = (middle, high) if fits else (low, middle)
    return low


def part_of(budget: Budget, share: float) -> Budget:
    """A budget for a share of the squared mu of `budget`, as rules of thumb divide it.

    Budgets whose shares sum to 1 cost about the whole together; what they cost exactly is for the
    accountant to say. Delta is divided as well, so that epsilon is never zero.
    """
    check.fraction(share=share)
    mu, delta = gaussian_mu(budget) * math.sqrt(share), budget.delta * share
    return Budget(epsilon=epsilon_of_mu(mu, delta), delta=delta)
