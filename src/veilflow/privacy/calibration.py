"""Calibration: the least noise, most steps or largest batches that a budget affords.

One search serves all: Brent's method on the logarithm of epsilon, which is nearly straight in that of
the number. It returns a number within the budget. The number of accountant calls is bounded.
"""

# SciPy and dp-accounting have no type stubs
# pyright: reportMissingTypeStubs=false, reportUnknownVariableType=false

import contextlib
import math
from collections.abc import Callable
from functools import cache, lru_cache

from veilflow._core import check
from veilflow._core.errors import BudgetError, PrivacyError
from veilflow.privacy.accounting.conversions import log_delta_of_mu
from veilflow.privacy.budget import Budget
from veilflow.privacy.events import Event, Gaussian, PoissonSampled, Repeated
from veilflow.privacy.ledger import Ledger

_TOLERANCE = 5e-4
"""How far below the target, relatively, a calibrated epsilon may stay."""
_MAX_CALLS = 80
_FIRST_STEP = 0.05
"""From a guess toward the target, in the logarithm."""
_TINY, _HUGE = 0.05, 20.0
"""Times the target, where epsilon counts as no less and no more: Brent's method needs numbers."""
_ROUNDING = 1e-12
"""Of a value, relatively: a search ends where its two ends are this close."""
_NOISE = (1e-2, 1e6)
_STEPS = (1.0, 1e8)
_RATE = (1e-9, 1.0)

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
    """The positive number whose event spends the budget's epsilon and no more.

    Args:
        make_event: From the number to the event it would cause.
        budget: What `ledger` and the event may cost together.
        bracket: The range to search, both ends positive.
        increasing: Whether epsilon grows with the number (steps, rate) or falls (noise).
        ledger: What is already spent.
        accountant: Whose sums count.
        guess: Where to start; the middle of the bracket when not given.
        integer: Whether only whole numbers will do.
        what: The number's name, for messages.

    Returns:
        A number within the budget: epsilon is at most the target and, unless an end of
        the bracket is reached or whole numbers are too far apart, within 0.1 % of it.

    Raises:
        BudgetError: When nothing in the bracket fits; the message tells what would be reachable.
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
    """The value closest to `dear` that is within the target, of all that Brent's method tries.

    Args:
        epsilon: Of a value, at most `target` at `cheap` and rising toward `dear`. Remembers answers.
        target: What epsilon must not exceed.
        cheap: One end of the range, and the answer if no other value is within the target.
        dear: The other end.
        start: Where to look first.
        integer: Whether only whole numbers will do.
    """
    from scipy.optimize import brentq  # slow to import, and only needed here

    within = [cheap]
    ends = {math.log(cheap): cheap, math.log(dear): dear}  # to the last digit

    def distance(log: float) -> float:
        """How far the logarithm of epsilon is from its aim; 0 if that is close enough."""
        value = ends.get(log, math.exp(log))
        if integer:
            value = float(math.floor(value * (1 + _ROUNDING)))
        if epsilon(value) <= target:
            within.append(value)
        beyond = math.log(min(max(epsilon(value) / target, _TINY), _HUGE))
        close = math.log1p(-_TOLERANCE) <= beyond <= 0
        return 0.0 if close else beyond - math.log1p(-_TOLERANCE / 2)

    near, far = _around(distance, math.log(start), cheap=math.log(cheap), dear=math.log(dear))
    if distance(near) * distance(far) < 0:
        brentq(distance, near, far, xtol=_ROUNDING, maxiter=_MAX_CALLS, disp=False)
    return max(within, key=lambda value: abs(math.log(value / cheap)))


def _around(
    distance: Callable[[float], float], start: float, *, cheap: float, dear: float
) -> tuple[float, float]:
    """Two places between which `distance` is 0, found by ever larger steps from `start`.

    Both are the same end of the range if it is 0 nowhere.
    """
    end = dear if distance(start) <= 0 else cheap
    near, step = start, _FIRST_STEP
    while distance(near) != 0 and near != end:
        far = end if abs(end - near) <= step else near + math.copysign(step, end - near)
        if distance(far) * distance(near) <= 0:
            return near, far
        near, step = far, 3 * step
    return near, near


def noise_multiplier(
    budget: Budget,
    *,
    sampling_rate: float,
    steps: int,
    ledger: Ledger = _EMPTY,
    accountant: str = "pld",
) -> float:
    """The least noise multiplier with which `steps` sampled Gaussian steps fit the budget.

    Args:
        budget: What the ledger and the training may cost together.
        sampling_rate: The probability that a record enters a batch.
        steps: The number of noisy releases.
        ledger: What is already spent.
        accountant: Whose sums count.

    Raises:
        BudgetError: When no noise is enough.
    """
    check.rate(sampling_rate=sampling_rate)
    check.count(steps=steps)
    return _noise_multiplier(budget, float(sampling_rate), int(steps), ledger, accountant)


@lru_cache(maxsize=512)
def _noise_multiplier(
    budget: Budget, sampling_rate: float, steps: int, ledger: Ledger, accountant: str
) -> float:
    # The central limit gives a start; nothing but the number of accountant calls hangs on it.
    mu = gaussian_mu(budget)
    guess = math.log1p(min(mu / sampling_rate, 1e100) ** 2 / steps) ** -0.5
    return calibrate(
        lambda noise: training_event(sampling_rate, noise, steps),
        budget,
        bracket=_NOISE,
        increasing=False,
        ledger=ledger,
        accountant=accountant,
        guess=guess,
        what="noise_multiplier",
    )


def steps(
    budget: Budget,
    *,
    sampling_rate: float,
    noise_multiplier: float,
    ledger: Ledger = _EMPTY,
    accountant: str = "pld",
) -> int:
    """The most sampled Gaussian steps that fit the budget, to 0.1 % of epsilon, at most 10^8.

    Args:
        budget: What the ledger and the training may cost together.
        sampling_rate: The probability that a record enters a batch.
        noise_multiplier: Noise over sensitivity.
        ledger: What is already spent.
        accountant: Whose sums count.

    Raises:
        BudgetError: When not even one step fits.
    """
    check.rate(sampling_rate=sampling_rate)
    check.positive(noise_multiplier=noise_multiplier)
    return _steps(budget, float(sampling_rate), float(noise_multiplier), ledger, accountant)


@lru_cache(maxsize=512)
def _steps(
    budget: Budget, sampling_rate: float, noise: float, ledger: Ledger, accountant: str
) -> int:
    variance = max(sampling_rate**2 * math.expm1(min(1 / noise / noise, 600.0)), 1e-300)
    found = calibrate(
        lambda number: training_event(sampling_rate, noise, int(number)),
        budget,
        bracket=_STEPS,
        increasing=True,
        ledger=ledger,
        accountant=accountant,
        guess=gaussian_mu(budget) ** 2 / variance,
        integer=True,
        what="steps",
    )
    return int(found)


def sampling_rate(
    budget: Budget,
    *,
    noise_multiplier: float,
    steps: int,
    ledger: Ledger = _EMPTY,
    accountant: str = "pld",
) -> float:
    """The largest sampling rate with which `steps` Gaussian steps fit the budget.

    Args:
        budget: What the ledger and the training may cost together.
        noise_multiplier: Noise over sensitivity.
        steps: The number of noisy releases.
        ledger: What is already spent.
        accountant: Whose sums count.

    Raises:
        BudgetError: When no rate is small enough.
    """
    check.positive(noise_multiplier=noise_multiplier)
    check.count(steps=steps)
    return _sampling_rate(budget, float(noise_multiplier), int(steps), ledger, accountant)


@lru_cache(maxsize=512)
def _sampling_rate(
    budget: Budget, noise: float, steps: int, ledger: Ledger, accountant: str
) -> float:
    spread = math.sqrt(max(steps * math.expm1(min(1 / noise / noise, 600.0)), 1e-300))
    return calibrate(
        lambda rate: training_event(rate, noise, steps),
        budget,
        bracket=_RATE,
        increasing=True,
        ledger=ledger,
        accountant=accountant,
        guess=gaussian_mu(budget) / spread,
        what="sampling_rate",
    )


def training_event(sampling_rate: float, noise_multiplier: float, steps: int) -> Event:
    """`steps` Gaussian releases, each on a fresh Poisson batch."""
    return Repeated(steps, PoissonSampled(sampling_rate, Gaussian(noise_multiplier)))


def advice(budget: Budget, event: Event, *, ledger: Ledger, accountant: str = "pld") -> str:
    """A sentence on what would fit instead of `event`, for the message of a refusal."""
    times, inner = (event.times, event.event) if isinstance(event, Repeated) else (1, event)
    rate = 1.0
    if isinstance(inner, PoissonSampled):
        rate, inner = inner.sampling_rate, inner.event
    if not isinstance(inner, Gaussian):
        return "Ask for less, or raise the budget."
    rate, times, noise = float(rate), int(times), float(inner.noise_multiplier)
    tries: list[tuple[str, Callable[[], float]]] = [
        (
            f"raise noise_multiplier from {noise:.4g} to",
            lambda: _noise_multiplier(budget, rate, times, ledger, accountant),
        ),
        (
            f"lower steps from {times} to",
            lambda: _steps(budget, rate, noise, ledger, accountant),
        ),
        (
            f"lower sampling_rate from {rate:.4g} to",
            lambda: _sampling_rate(budget, noise, times, ledger, accountant),
        ),
    ]
    fits: list[str] = []
    for words, find in tries:
        with contextlib.suppress(PrivacyError, ValueError):  # this way out is closed
            fits.append(f"{words} {_rounded(find(), up=words.startswith('raise'))}")
    if not fits:
        return "Nothing like it would fit: raise the budget."
    return "What would fit: " + ", or ".join(fits) + "."


def _rounded(value: float, *, up: bool) -> str:
    """`value` in a few digits, rounded to the safe side."""
    if isinstance(value, int):
        return str(value)
    unit = 10.0 ** (math.floor(math.log10(value)) - 3)
    whole = math.ceil(value / unit) if up else math.floor(value / unit)
    return f"{whole * unit:.4g}"


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
