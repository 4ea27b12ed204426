"""The base class of accountants: from events to epsilon or delta, or a clear refusal."""

import abc
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from veilflow._core import check
from veilflow._core.errors import PrivacyError
from veilflow.privacy import events as ev
from veilflow.privacy.assumptions import Assumption
from veilflow.privacy.events import Event
from veilflow.privacy.unit import Adjacency

Releases: TypeAlias = tuple[tuple[Event, int], ...]
"""Plain events, without `Repeated` or `Together`, and how often each one happened."""

PURE: tuple[type[Event], ...] = (ev.Laplace, ev.PureDP, ev.ExponentialMechanism)
"""Releases that are private at delta 0."""
EVERY: tuple[type[Event], ...] = (
    *PURE,
    ev.Gaussian,
    ev.ZeroConcentrated,
    ev.ApproximateDP,
    ev.PoissonSampled,
)
"""All releases that have a finite epsilon."""

MAX_RELEASES = 10**15
_MAX_GUESSES = 50


@dataclass(frozen=True)
class Answer:
    """An epsilon, the label of the accountant that computed it, and what it assumes."""

    value: float
    label: str
    assumptions: tuple[Assumption, ...] = ()


class AbstractAccountant(abc.ABC):
    """Composes events into one epsilon or delta. Subclasses list the plain events they support."""

    name: ClassVar[str]
    label: ClassVar[str]
    assumptions: ClassVar[tuple[Assumption, ...]] = ()
    kinds: ClassVar[tuple[type[Event], ...]]

    def supports(self, event: Event, adjacency: Adjacency) -> str | None:
        """None if `event` can be accounted for, otherwise the reason why not."""
        try:
            self._checked(_apart(self._releases(event, adjacency))[0])
        except PrivacyError as error:
            return str(error)
        return None

    def epsilon(
        self,
        event: Event | Iterable[Event] | None,
        *,
        delta: float,
        adjacency: Adjacency = Adjacency.ADD_REMOVE,
    ) -> float:
        """The epsilon proved at `delta`; infinite if there is none.

        Args:
            event: What was released; None or nothing costs 0.
            delta: From 0 (pure releases only) to below 1.
            adjacency: The neighboring relation for which the noise of the events was scaled.

        Returns:
            An upper bound of epsilon, unless `label` says that it is an approximation.

        Raises:
            PrivacyError: This accountant does not support an event; the message names one that does.
        """
        return self.account(event, delta=delta, adjacency=adjacency).value

    def account(
        self, event: Event | Iterable[Event] | None, *, delta: float, adjacency: Adjacency
    ) -> Answer:
        """`epsilon` with the label to print beside it, which also tells of a fallback."""
        if delta != 0:
            check.fraction(delta=delta)
        together, distance, spent = _apart(self._releases(event, adjacency))
        if _non_private(together):
            return Answer(math.inf, self.label, self.assumptions)
        self._checked(together)
        left = float(delta) - spent
        if left < 0:
            return Answer(math.inf, self.label, self.assumptions)
        try:
            if distance == 0:
                return self._described(together, left)
            return self._at_a_distance(together, distance, left)
        except ArithmeticError:  # beyond double precision, nothing is proved
            return Answer(math.inf, self.label, self.assumptions)

    def _described(self, together: Releases, delta: float) -> Answer:
        if not together:
            return Answer(0.0, self.label, self.assumptions)
        return self._epsilon(together, delta)

    def _at_a_distance(self, together: Releases, distance: float, delta: float) -> Answer:
        """The epsilon of a run at this distance from the described one.

        The price of the distance, in delta, grows with epsilon. A guess of epsilon sets part of delta
        aside for it, and the rest of delta gives an epsilon. If that is at most the guess, its price is
        at most what was set aside, so it is proved.
        """
        guess = 0.0
        for _ in range(_MAX_GUESSES):
            left = delta - (1 + math.exp(guess)) * distance
            if left < 0:
                break
            answer = self._described(together, left)
            if answer.value <= guess:
                return answer
            guess = answer.value * (1 + 1e-9)
        return Answer(math.inf, self.label, self.assumptions)

    def delta(
        self,
        event: Event | Iterable[Event] | None,
        *,
        epsilon: float,
        adjacency: Adjacency = Adjacency.ADD_REMOVE,
    ) -> float:
        """The delta proved at `epsilon`, at most 1; the counterpart of `epsilon`."""
        check.nonnegative(epsilon=epsilon)
        together, distance, slack = _apart(self._releases(event, adjacency))
        if _non_private(together):
            return 1.0
        self._checked(together)
        try:
            slack += (1 + math.exp(epsilon)) * distance if distance else 0.0
            return min(1.0, slack + (self._delta(together, float(epsilon)) if together else 0.0))
        except ArithmeticError:
            return 1.0

    @abc.abstractmethod
    def _epsilon(self, together: Releases, delta: float) -> Answer:
        """Epsilon of supported, private releases; `delta` may be 0."""

    @abc.abstractmethod
    def _delta(self, together: Releases, epsilon: float) -> float:
        """Delta of supported, private releases."""

    def _releases(self, event: Event | Iterable[Event] | None, adjacency: Adjacency) -> Releases:
        return releases(event, adjacency)

    def _checked(self, together: Releases) -> None:
        for event, _ in together:
            if isinstance(event, (ev.NonPrivate, *self.kinds)):
                continue
            raise PrivacyError(
                f"the {self.name!r} accountant cannot add up the event {event}. "
                "Use accountant='pld', which can."
            )

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


def _apart(together: Releases) -> tuple[Releases, float, float]:
    """The releases, their distance from the real ones, and the delta that is spent in any case.

    Distances add up. So do the deltas of (0, delta)-DP releases: such a release reveals nothing except
    with probability delta, whatever it is composed with.
    """
    events: list[tuple[Event, int]] = []
    distances: list[float] = []
    deltas: list[float] = []
    for event, number in together:
        if isinstance(event, ev.TotalVariation):
            distances.append(number * float(event.distance))
        elif isinstance(event, ev.ApproximateDP) and event.epsilon == 0:
            deltas.append(number * float(event.delta))
        else:
            events.append((event, number))
    return tuple(events), math.fsum(distances), math.fsum(deltas)


def _non_private(together: Releases) -> bool:
    return any(isinstance(event, ev.NonPrivate) for event, _ in together)


def releases(event: Event | Iterable[Event] | None, adjacency: Adjacency) -> Releases:
    """All plain releases in `event`, equal ones counted together, in a canonical order.

    Sampling is resolved: (epsilon, delta) releases are amplified to log(1 + q (e^epsilon - 1)) and
    q delta. Only Gaussians stay `PoissonSampled`.

    Raises:
        PrivacyError: No accountant here supports a sampled event.
    """
    counts: dict[Event, int] = {}
    for release, times in ev.flat(event).items():
        plain = (
            _amplified(release, adjacency) if isinstance(release, ev.PoissonSampled) else release
        )
        counts[plain] = counts.get(plain, 0) + times
    if sum(counts.values()) > MAX_RELEASES:
        raise PrivacyError(f"the ledger holds more than {MAX_RELEASES:.0e} releases.")
    return tuple(sorted(counts.items(), key=lambda item: repr(item[0])))


def num_releases(event: Event) -> int:
    """The number of plain releases in `event`; those that share a batch count one by one."""
    return sum(
        times * (num_releases(one.event) if isinstance(one, ev.PoissonSampled) else 1)
        for one, times in ev.flat(event).items()
    )


def _amplified(event: ev.PoissonSampled, adjacency: Adjacency) -> Event:
    rate, inner = float(event.sampling_rate), event.event
    if adjacency is Adjacency.REPLACE_ONE and rate < 1:
        raise PrivacyError(
            f"{event} cannot be accounted for under replace-one adjacency: the noise is scaled to "
            "the distance between two records, but sampling amplifies for one. Use add/remove "
            "adjacency, or drop the sampling (sampling_rate=1)."
        )
    if isinstance(inner, ev.Repeated | ev.Together):
        raise PrivacyError(
            f"{event} releases one batch several times, which no accountant here can add up. "
            "Sample again for each release: Repeated(times, PoissonSampled(...))."
        )
    if isinstance(inner, ev.Gaussian):
        return event
    if isinstance(inner, ev.ApproximateDP):
        return ev.ApproximateDP(_smaller(inner.epsilon, rate), rate * inner.delta)
    bound = pure_epsilon(inner)
    if bound is None:
        raise PrivacyError(
            f"{event}: only Gaussian, Laplace, pure, exponential and approximate events are amplified "
            "by sampling here. Record the inner event without sampling: that is valid and costs more."
        )
    return ev.PureDP(_smaller(bound, rate))


def _smaller(epsilon: float, rate: float) -> float:
    """log(1 + rate (e^epsilon - 1)), without overflow."""
    if epsilon < 50:
        return math.log1p(rate * math.expm1(epsilon))
    return epsilon + math.log(rate + (1 - rate) * math.exp(-epsilon))


def pure_epsilon(event: Event) -> float | None:
    """The epsilon of one release at delta 0, or None if it has none."""
    if isinstance(event, ev.PureDP | ev.ExponentialMechanism):
        return float(event.epsilon)
    if isinstance(event, ev.Laplace):
        return 1 / float(event.noise_multiplier)
    return None


def added_up(together: Releases) -> tuple[float, float]:
    """The sums of epsilons and of deltas; infinite epsilon if a release has none."""
    epsilons: list[float] = []
    deltas: list[float] = []
    for event, count in together:
        if isinstance(event, ev.ApproximateDP):
            epsilons.append(count * float(event.epsilon))
            deltas.append(count * float(event.delta))
        else:
            epsilon = pure_epsilon(event)
            epsilons.append(math.inf if epsilon is None else count * epsilon)
    # math.fsum: ten times 0.1 is 1.0, so rounding does not exceed a budget of 1.0.
    return math.fsum(epsilons), math.fsum(deltas)
