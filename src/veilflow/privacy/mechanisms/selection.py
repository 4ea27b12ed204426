"""Private selection: the best of a random number of private runs, paid for once.

Choosing the best of a fixed number of runs costs as much as releasing them all. If the number of runs
is itself random, with a truncated negative binomial distribution, the choice costs about as much as
two or three runs, however many there were.
"""

import math
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from typing import TypeVar

from veilflow._core import check
from veilflow._core.errors import PrivacyError
from veilflow.privacy import accounting
from veilflow.privacy.events import ApproximateDP, Event, PureDP
from veilflow.privacy.guarantees import Released

T = TypeVar("T")

_DEFAULT_ORDERS = tuple(1 + x / 10 for x in range(1, 100)) + tuple(float(x) for x in range(11, 257))


@dataclass(frozen=True, kw_only=True)
class NumberOfRuns:
    """The truncated negative binomial distribution of the number of runs, K = 1, 2, ...

    P(K = k) is proportional to (1 - stop)^k times the rising factorial shape (shape + 1) ... (shape
    + k - 1) over k!. With `shape` 1 this is the geometric distribution (stop with probability `stop`
    after each run), with 0 the logarithmic one. A smaller shape costs less and spreads K more.

    Attributes:
        stop: In (0, 1); the smaller it is, the more runs there are.
        shape: Above -1.
    """

    stop: float
    shape: float = 1.0

    def __post_init__(self) -> None:
        check.fraction(stop=self.stop)
        check.finite(shape=self.shape)
        if self.shape <= -1:
            raise ValueError(f"shape must be above -1, got {self.shape}.")

    @property
    def mean(self) -> float:
        """The expected number of runs."""
        eta, gamma = self.shape, self.stop
        if eta == 0:
            return (1 / gamma - 1) / math.log(1 / gamma)
        return eta * (1 - gamma) / (gamma * -math.expm1(eta * math.log(gamma)))

    def draw(self) -> int:
        """A number of runs from operating-system entropy, within 2^-150 of the distribution."""
        with localcontext() as context:
            context.prec = 80
            uniform = Decimal(secrets.randbits(192)) / Decimal(2**192)
            return self._invert(uniform)

    def _invert(self, uniform: Decimal) -> int:
        eta, gamma = Decimal(self.shape), Decimal(self.stop)
        first = 1 / -gamma.ln() if eta == 0 else eta / (gamma ** (-eta) - 1)
        mass = (1 - gamma) * first
        k, below = 1, mass
        while uniform >= below:
            mass *= (1 - gamma) * (k + eta) / (k + 1)
            k += 1
            below += mass
            if mass < Decimal(10) ** -70:  # the sum stays below `uniform` only by rounding
                break
        return k


def repeat_and_select(
    run: Callable[[], Released[tuple[T, float]]],
    *,
    runs: NumberOfRuns,
    base: PureDP | ApproximateDP,
) -> Released[tuple[T, float]]:
    """Do a random number of independent private runs and release only the best.

    Guarantee:
        See `selection_event`. Only the result and the distribution of K may be published: not the
        number of runs, not the other results, and not how long it took.

    Args:
        run: One complete private run with fresh noise. It returns a candidate and its score, and the
            score is part of what it releases and pays for. Runs may choose hyperparameters at
            random, from a distribution that does not depend on the data.
        runs: Distribution of the number of runs.
        base: The guarantee of one run, including its score; it comes from an accountant if a run
            composes several events.

    Returns:
        The candidate with the highest score (the first one in a tie; NaN is the lowest), its score,
        and the event that pays for everything. The events of single runs must not be paid again.

    Raises:
        PrivacyError: The event of a run costs more than `base`.
    """
    event = selection_event(base, runs=runs)
    best: tuple[T, float] | None = None
    rank = -math.inf
    for _ in range(runs.draw()):
        released = run()
        check.instance(Released, released=released, hint="It is what run() must return.")
        _check_run(released.event, base)
        candidate, score = released.value
        score = float(score)
        score = -math.inf if math.isnan(score) else score
        if best is None or score > rank:
            best, rank = (candidate, score), score
    assert best is not None  # K >= 1
    return Released(best, event)


def _check_run(event: Event, base: PureDP | ApproximateDP) -> None:
    delta = base.delta if isinstance(base, ApproximateDP) else 0.0
    spent = accounting.get("pld").epsilon(event, delta=delta)
    if spent > base.epsilon * (1 + 1e-9):
        raise PrivacyError(
            f"one run cost epsilon={spent:.6g} at delta={delta:.3g}, more than its base, {base}. "
            "Set base to what an accountant proves for one run, including its score."
        )


def selection_event(base: PureDP | ApproximateDP, *, runs: NumberOfRuns) -> Event:
    """What the best of `runs` costs when one run is pure or approximate DP.

    Guarantee:
        If one run is (epsilon, delta)-DP, the best is ((2 + shape) epsilon, mean delta)-DP; for the
        geometric distribution and delta = 0 that is 3 epsilon.

    Proof: let q(y) be the probability that a run scores at most as high as y, and f the generating
    function of K. The best is y with probability Q(y) times the mean of f' over the range of q at
    y. For this family f'(q) is proportional to (stop + (1 - stop)(1 - q))^-(shape + 1), and 1 - q,
    a probability, changes by at most e^epsilon between neighbors; Q(y) gives the remaining epsilon.
    With delta > 0, a run is a mixture: with probability 1 - delta it comes from an epsilon-DP pair
    (Kairouz, Oh, Viswanath). No run leaves it with probability at least 1 - mean delta, and given
    that, the generating function is f((1 - delta) q), of the same form.

    Args:
        base: The guarantee of one run.
        runs: Distribution of the number of runs.

    Returns:
        `PureDP` or `ApproximateDP`.

    Raises:
        ValueError: `mean * delta` reaches 1.

    References:
        Liu and Talwar, "Private selection from private candidates" (2019), the random stopping
        theorem (3 epsilon); Papernot and Steinke, "Hyperparameter tuning with Renyi differential
        privacy" (2022), the corollary of Theorem 2 for pure DP.
    """
    hint = "Ask an accountant for one run's epsilon and delta, or use selection_event_from_rdp."
    check.instance(PureDP | ApproximateDP, base=base, hint=hint)
    if isinstance(base, PureDP):
        return PureDP((2 + runs.shape) * base.epsilon)
    delta = runs.mean * base.delta
    if delta >= 1:
        raise ValueError(
            f"delta {base.delta} of one run times {runs.mean:.3g} expected runs must be below "
            "1. Account for a smaller delta per run."
        )
    return ApproximateDP((2 + runs.shape) * base.epsilon, delta)


def selection_rdp(
    rdp: Callable[[float], float],
    *,
    order: float,
    runs: NumberOfRuns,
    orders: Sequence[float] = _DEFAULT_ORDERS,
) -> float:
    """Renyi divergence of `order` for the best of `runs`, from the curve of one run.

    Args:
        rdp: Renyi DP of one run as a function of the order.
        order: Above 1.
        runs: Distribution of the number of runs.
        orders: Auxiliary orders to optimize over; any of them gives a valid bound.

    Returns:
        The bound of Papernot and Steinke's Theorem 2.
    """
    check.positive(order_minus_one=order - 1)
    penalty = min(
        (1 - 1 / other) * rdp(other) + math.log(1 / runs.stop) / other for other in orders
    )
    return rdp(order) + (1 + runs.shape) * penalty + math.log(runs.mean) / (order - 1)


def selection_event_from_rdp(
    rdp: Callable[[float], float],
    *,
    runs: NumberOfRuns,
    delta: float,
    orders: Sequence[float] = _DEFAULT_ORDERS,
) -> ApproximateDP:
    """What the best of `runs` costs, from the Renyi curve of one run; tighter for training runs.

    Guarantee:
        (epsilon, delta)-DP with the smallest epsilon over `orders`, by Theorem 2 of Papernot and
        Steinke and the conversion of Canonne, Kamath and Steinke (Proposition 12).

    Args:
        rdp: Renyi DP of one run, including its score, as a function of the order.
        runs: Distribution of the number of runs.
        delta: The delta to state epsilon for.
        orders: Orders above 1 to optimize over.

    Returns:
        The event that pays for everything.
    """
    check.fraction(delta=delta)
    best = math.inf
    for order in orders:
        value = selection_rdp(rdp, order=order, runs=runs, orders=orders)
        best = min(best, value + math.log1p(-1 / order) - math.log(delta * order) / (order - 1))
    return ApproximateDP(max(best, 0.0), delta)
