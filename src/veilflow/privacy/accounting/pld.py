"""The default accountant: privacy loss distributions, always rounded to the safe side."""

import math
from functools import lru_cache
from typing import ClassVar

from veilflow.privacy import events as ev
from veilflow.privacy.accounting import composition
from veilflow.privacy.accounting.accountant import (
    EVERY,
    AbstractAccountant,
    Answer,
    Releases,
    added_up,
)
from veilflow.privacy.accounting.composition import TooLargeError
from veilflow.privacy.accounting.conversions import epsilon_of_mu, log_delta_of_mu
from veilflow.privacy.accounting.pairs import (
    BoundedRangePair,
    GaussianPair,
    LaplacePair,
    Pair,
    randomized_response,
    zero_concentrated,
)
from veilflow.privacy.events import Event


class PLDAccountant(AbstractAccountant):
    """Composes dominating pairs numerically; tight, and always an upper bound.

    Plain Gaussians are summed in closed form, and everything else is composed on one grid. zCDP
    releases enter through a pair that dominates all of them. If a ledger is too large for the grid,
    the answer is that of RDP, and the label says so.
    """

    name: ClassVar[str] = "pld"
    label: ClassVar[str] = "PLD"
    kinds: ClassVar[tuple[type[Event], ...]] = EVERY

    def _epsilon(self, together: Releases, delta: float) -> Answer:
        return _epsilon(together, delta)

    def _delta(self, together: Releases, epsilon: float) -> float:
        return _delta(together, epsilon)


@lru_cache(maxsize=4096)
def _epsilon(together: Releases, delta: float) -> Answer:
    # Basic composition is always valid, and exact if delta is 0.
    total, failure = added_up(together)
    simple = total if failure <= delta else math.inf
    if delta == 0:
        return Answer(simple, PLDAccountant.label)
    mu = _gaussian_only(together)
    if mu is not None:
        return Answer(epsilon_of_mu(mu, delta), PLDAccountant.label)
    try:
        # The pairs of add and remove differ; the guarantee is the worse of the two.
        composed = max(
            composition.epsilon(_pairs(together, adding, tail=delta), delta=delta)
            for adding in _directions(together)
        )
    except (TooLargeError, MemoryError, ArithmeticError) as error:
        from veilflow.privacy.accounting import rdp

        by_rdp = rdp.epsilon_of(together, delta)
        return Answer(min(by_rdp, simple), f"RDP (PLD gave up: {error})")
    return Answer(min(composed, simple), PLDAccountant.label)


@lru_cache(maxsize=1024)
def _delta(together: Releases, epsilon: float) -> float:
    total, failure = added_up(together)
    simple = failure if total <= epsilon else 1.0
    if simple == 0:
        return 0.0
    mu = _gaussian_only(together)
    if mu is not None:
        return math.exp(log_delta_of_mu(mu, epsilon))
    try:
        composed = max(
            composition.delta(_pairs(together, adding, tail=1e-60), epsilon=epsilon)
            for adding in _directions(together)
        )
    except (TooLargeError, MemoryError, ArithmeticError):
        from veilflow.privacy.accounting import rdp

        composed = rdp.delta_of(together, epsilon)
    return min(composed, simple)


def _gaussian_only(together: Releases) -> float | None:
    """The mu of all Gaussians together, or None if there is anything else."""
    if not all(isinstance(event, ev.Gaussian) for event, _ in together):
        return None
    return math.sqrt(_sum_of_squares(together))


def _sum_of_squares(together: Releases) -> float:
    return sum(
        count * float(event.noise_multiplier) ** -2
        for event, count in together
        if isinstance(event, ev.Gaussian)
    )


def _directions(together: Releases) -> tuple[bool, ...]:
    sampled = any(isinstance(event, ev.PoissonSampled) for event, _ in together)
    return (False, True) if sampled else (False,)


def _pairs(together: Releases, adding: bool, *, tail: float) -> list[tuple[Pair, int]]:
    """The dominating pair of each kind; Gaussians, zCDP releases and failures are first merged."""
    pairs: list[tuple[Pair, int]] = []
    squares = _sum_of_squares(together)
    if squares > 0:
        pairs.append((GaussianPair(squares**-0.5, 1.0, adding), 1))
    rho = sum(count * e.rho for e, count in together if isinstance(e, ev.ZeroConcentrated))
    if rho > 0:
        # The tail is quantized, so that one pair serves all deltas that calibration asks for.
        pairs.append((zero_concentrated(rho, tail=10.0 ** math.floor(math.log10(tail) - 7)), 1))
    kept = math.fsum(
        count * math.log1p(-float(event.delta))
        for event, count in together
        if isinstance(event, ev.ApproximateDP)
    )
    if kept < 0:
        # Failures are independent of everything else, so they combine into one.
        pairs.append((randomized_response(0.0, -math.expm1(kept)), 1))
    for event, count in together:
        if isinstance(event, ev.PoissonSampled) and isinstance(event.event, ev.Gaussian):
            noise = float(event.event.noise_multiplier)
            pairs.append((GaussianPair(noise, float(event.sampling_rate), adding), count))
        elif isinstance(event, ev.Laplace):
            pairs.append((LaplacePair(float(event.noise_multiplier)), count))
        elif isinstance(event, ev.PureDP | ev.ApproximateDP) and event.epsilon > 0:
            pairs.append((randomized_response(float(event.epsilon)), count))
        elif isinstance(event, ev.ExponentialMechanism):
            pairs.append((BoundedRangePair(float(event.epsilon)), count))
    return pairs
