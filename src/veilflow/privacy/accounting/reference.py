"""A reference: the same question answered by dp-accounting's privacy loss distributions.

It shares nothing with our own PLD but the events and their counts: the other library builds, rounds and
composes every distribution. It is slow to import and slow with many kinds of releases. It is here to
check the default accountant, not to replace it.
"""

# SciPy and dp-accounting have no type stubs
# pyright: reportMissingTypeStubs=false

import math
from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

from veilflow._core.errors import PrivacyError
from veilflow.privacy import events as ev
from veilflow.privacy.accounting.accountant import AbstractAccountant, Answer, Releases
from veilflow.privacy.events import Event
from veilflow.privacy.unit import Adjacency

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

_FINEST_USEFUL = 1e-4
"""dp-accounting's own default for the spacing of losses; wider only to save memory."""
_MAX_POINTS = 2e6
_TAIL = 1e-15
"""The mass that each composition may move to infinite loss."""


class ReferenceAccountant(AbstractAccountant):
    """Composes privacy loss distributions with dp-accounting and its pessimistic estimates.

    Supports Gaussian, Laplace, pure and approximate releases, and Poisson-sampled Gaussian and
    Laplace ones. Its Fourier transforms round at about 1e-16, so below a delta of about 1e-12 the
    answer is loose or infinite.
    """

    name: ClassVar[str] = "dp-accounting"
    label: ClassVar[str] = "PLD (dp-accounting)"
    kinds: ClassVar[tuple[type[Event], ...]] = (
        ev.Gaussian,
        ev.Laplace,
        ev.PureDP,
        ev.ApproximateDP,
        ev.PoissonSampled,
    )

    def _releases(self, event: Event | Iterable[Event] | None, adjacency: Adjacency) -> Releases:
        counts = {_checked(one, adjacency): times for one, times in ev.flat(event).items()}
        return tuple(sorted(counts.items(), key=lambda item: repr(item[0])))

    def _epsilon(self, together: Releases, delta: float) -> Answer:
        return Answer(float(composed(together).get_epsilon_for_delta(delta)), self.label)

    def _delta(self, together: Releases, epsilon: float) -> float:
        delta = composed(together).get_delta_for_epsilon(epsilon)
        return float(delta)  # pyright: ignore[reportArgumentType]


def _checked(event: Event, adjacency: Adjacency) -> Event:
    """The release, if dp-accounting supports its sampling."""
    if not isinstance(event, ev.PoissonSampled):
        return event
    if adjacency is Adjacency.REPLACE_ONE:
        raise PrivacyError(
            f"{event} cannot be accounted for under replace-one adjacency. Use add/remove "
            "adjacency, or drop the sampling (sampling_rate=1)."
        )
    if not isinstance(event.event, ev.Gaussian | ev.Laplace):
        raise PrivacyError(
            f"the 'dp-accounting' accountant cannot add up the event {event}: it supports "
            "sampling of a single Gaussian or Laplace release only. Use accountant='pld', or "
            "record the inner event without sampling, which is valid and costs more."
        )
    return event


@lru_cache(maxsize=64)
def composed(
    together: Releases, *, pessimistic: bool = True, interval: float | None = None
) -> "PrivacyLossDistribution":
    """dp-accounting's distribution of all releases; a lower bound unless `pessimistic`."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    interval = _interval(together) if interval is None else interval
    # Truncated mass counts as infinite loss, or not at all: on the safe side of either bound.
    tail = _TAIL if pessimistic else 0.0
    total = pld.identity(interval, pessimistic_estimate=pessimistic)
    kept = 1.0
    for event, count in together:
        one, times = _distribution(event, count, interval, pessimistic)
        if isinstance(event, ev.ApproximateDP):
            kept *= (1 - event.delta) ** count
        if one is not None:
            total = total.compose(one.self_compose(times, tail) if times > 1 else one, tail)
    if kept < 1:
        failing = pld.PrivacyLossDistribution.create_from_rounded_probability(
            {0: kept}, 1 - kept, interval, pessimistic_estimate=pessimistic
        )
        total = total.compose(failing, tail)
    return total


def _distribution(
    event: Event, count: int, interval: float, pessimistic: bool
) -> "tuple[PrivacyLossDistribution | None, int]":
    """One release, and how often it remains to be composed."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    rate = 1.0
    if isinstance(event, ev.PoissonSampled):
        rate, event = float(event.sampling_rate), event.event
    # Connect-the-dots gives upper bounds only.
    how: dict[str, Any] = {
        "pessimistic_estimate": pessimistic,
        "value_discretization_interval": interval,
        "use_connect_dots": pessimistic,
    }
    if isinstance(event, ev.Gaussian):
        # Plain Gaussians add up to one; sampled ones do not.
        times = 1 if rate == 1 else count
        noise = float(event.noise_multiplier) / math.sqrt(count / times)
        return pld.from_gaussian_mechanism(noise, sampling_prob=rate, **how), times
    if isinstance(event, ev.Laplace):
        noise = float(event.noise_multiplier)
        return pld.from_laplace_mechanism(noise, sampling_prob=rate, **how), count
    assert isinstance(event, ev.PureDP | ev.ApproximateDP), "supports() lets nothing else through"
    epsilon = float(event.epsilon)
    if epsilon == 0:
        return None, 0
    return _coin(epsilon, interval, pessimistic), count


def _coin(epsilon: float, interval: float, pessimistic: bool) -> "PrivacyLossDistribution":
    """The worst pure release: randomized response."""
    from dp_accounting.pld import pld_pmf
    from dp_accounting.pld import privacy_loss_distribution as pld

    honest = 1 / (1 + math.exp(-epsilon))
    if not pessimistic:
        low, high = math.floor(-epsilon / interval), math.floor(epsilon / interval)
        masses = {low: 1 - honest, high: honest}
        return pld.PrivacyLossDistribution.create_from_rounded_probability(
            masses, 0.0, interval, pessimistic_estimate=False
        )
    # Their from_randomized_response rounds every loss up; connect-the-dots is far tighter.
    above = math.ceil(epsilon / interval)
    nodes = sorted({-above, 1 - above, above - 1, above})
    deltas: list[float] = []
    for node in nodes:
        at = node * interval
        lie = (1 - honest) * max(0.0, -math.expm1(at + epsilon))
        deltas.append(honest * max(0.0, -math.expm1(at - epsilon)) + lie)
    pmf = pld_pmf.create_pmf_pessimistic_connect_dots(interval, nodes, deltas)
    return pld.PrivacyLossDistribution(pmf)


def _interval(together: Releases) -> float:
    """A spacing of losses that suits the spread of their sum and fits into memory."""
    variance = span = 0.0
    for event, count in together:
        one, reach = _spread(event)
        variance += count * one**2
        span = max(span, reach)
    fine = math.sqrt(variance / sum(count for _, count in together)) / 16
    return max(min(_FINEST_USEFUL, fine), (span + 16 * math.sqrt(variance)) / _MAX_POINTS, 1e-12)


def _spread(event: Event) -> tuple[float, float]:
    """Roughly the standard deviation and the range of the loss of one release."""
    if isinstance(event, ev.PoissonSampled):
        one, reach = _spread(event.event)
        return min(event.sampling_rate * math.sqrt(math.expm1(min(one**2, 50.0))), one), reach
    if isinstance(event, ev.Gaussian):
        one = 1 / float(event.noise_multiplier)
        return one, 20 * one + one**2
    if isinstance(event, ev.Laplace):
        one = 1 / float(event.noise_multiplier)
    else:
        assert isinstance(event, ev.PureDP | ev.ApproximateDP)
        one = float(event.epsilon)
    return one, 2 * one
