"""Privacy events: one frozen class for each kind of release, to and from JSON.

An event says what an accountant has to know about a release and nothing else. Once published, a kind
keeps its name and its meaning forever: a ledger written today must add up to the same number in ten
years. Noise is always measured against the L2 (Gaussian) or L1 (Laplace) sensitivity of the query for
the ledger's adjacency, so an event holds no sensitivity of its own.
"""

import dataclasses
import numbers
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, cast

from veilflow._core import check
from veilflow._core.errors import ArtifactError


@dataclass(frozen=True)
class Event:
    """Base of all events; `kind` is the name of the class in JSON."""

    kind: ClassVar[str] = ""

    def to_json(self) -> dict[str, Any]:
        """The event as plain JSON values."""
        fields = {f.name: _plain(getattr(self, f.name)) for f in dataclasses.fields(self)}
        return {"kind": self.kind, **fields}


@dataclass(frozen=True)
class Gaussian(Event):
    """Gaussian noise with standard deviation `noise_multiplier` times the L2 sensitivity."""

    noise_multiplier: float
    kind: ClassVar[str] = "gaussian"

    def __post_init__(self) -> None:
        check.positive(noise_multiplier=self.noise_multiplier, hint=_NON_PRIVATE)


@dataclass(frozen=True)
class Laplace(Event):
    """Continuous Laplace noise, or noise proved at least as private, of scale `noise_multiplier`.

    The scale is in multiples of the L1 sensitivity. Integer-valued (geometric) noise of the same
    scale is *not* covered: at sensitivity 1 it is exactly randomized response, a `PureDP` event.
    """

    noise_multiplier: float
    kind: ClassVar[str] = "laplace"

    def __post_init__(self) -> None:
        check.positive(noise_multiplier=self.noise_multiplier, hint=_NON_PRIVATE)


@dataclass(frozen=True)
class ZeroConcentrated(Event):
    """Any release proved `rho`-zCDP; discrete Gaussian noise has rho = 1 / (2 multiplier^2)."""

    rho: float
    kind: ClassVar[str] = "zcdp"

    def __post_init__(self) -> None:
        check.positive(rho=self.rho)


@dataclass(frozen=True)
class PureDP(Event):
    """Any release proved `epsilon`-DP: sparse vector, permute-and-flip, exact rejection."""

    epsilon: float
    kind: ClassVar[str] = "pure"

    def __post_init__(self) -> None:
        check.positive(epsilon=self.epsilon)


@dataclass(frozen=True)
class ExponentialMechanism(Event):
    """A choice with probability proportional to exp(epsilon u / (2 sensitivity)).

    It is epsilon-bounded-range, which is stronger than pure DP of the same epsilon and composes
    better: hence not a `PureDP` event.
    """

    epsilon: float
    kind: ClassVar[str] = "exponential"

    def __post_init__(self) -> None:
        check.positive(epsilon=self.epsilon)


@dataclass(frozen=True)
class ApproximateDP(Event):
    """Any release proved (`epsilon`, `delta`)-DP; epsilon may be 0, delta may not."""

    epsilon: float
    delta: float
    kind: ClassVar[str] = "approximate"

    def __post_init__(self) -> None:
        check.nonnegative(epsilon=self.epsilon)
        check.fraction(delta=self.delta)


@dataclass(frozen=True)
class TotalVariation(Event):
    """The real run is this close to the run that the other events of the ledger describe.

    `distance` bounds the total variation between the two, whatever the records are. If the described
    run is (epsilon, delta)-DP, the real one is (epsilon, delta + (1 + e^epsilon) `distance`)-DP. The
    price depends on the epsilon in question, so the event holds the distance and accountants compute
    the price.
    """

    distance: float
    kind: ClassVar[str] = "total-variation"

    def __post_init__(self) -> None:
        check.fraction(distance=self.distance)


@dataclass(frozen=True)
class PoissonSampled(Event):
    """`event` on a batch that each record enters independently with probability `sampling_rate`."""

    sampling_rate: float
    event: Event
    kind: ClassVar[str] = "poisson-sampled"

    def __post_init__(self) -> None:
        check.rate(sampling_rate=self.sampling_rate)


@dataclass(frozen=True)
class Repeated(Event):
    """`event` released `times` times, each time with fresh noise, possibly adaptively."""

    times: int
    event: Event
    kind: ClassVar[str] = "repeated"

    def __post_init__(self) -> None:
        check.count(times=self.times)


@dataclass(frozen=True)
class Together(Event):
    """All of `events` released, in any adaptive order."""

    events: tuple[Event, ...]
    kind: ClassVar[str] = "together"

    def __post_init__(self) -> None:
        object.__setattr__(self, "events", tuple(self.events))
        check.count(events=len(self.events))


@dataclass(frozen=True)
class NonPrivate(Event):
    """Data was used without protection: epsilon is infinite for every accountant."""

    kind: ClassVar[str] = "non-private"


_NON_PRIVATE = "For a run without privacy use NonPrivate(), which the ledger records as such."

_KINDS: dict[str, type[Event]] = {
    cls.kind: cls
    for cls in (
        Gaussian,
        Laplace,
        ZeroConcentrated,
        PureDP,
        ExponentialMechanism,
        ApproximateDP,
        TotalVariation,
        PoissonSampled,
        Repeated,
        Together,
        NonPrivate,
    )
}


def flat(event: Event | Iterable[Event] | None) -> dict[Event, int]:
    """All releases in `event` and how often each one happens, in the order of first occurrence.

    `Repeated` and `Together` are resolved, except inside a `PoissonSampled`: releasing one batch
    twice is not the same as sampling twice, so such an event stays as it is. Sampling is simplified
    where that changes nothing: a rate of 1 is no sampling, sampling twice multiplies the rates, and a
    batch of which anything is released without privacy counts as non-private.

    Args:
        event: One event, several that were all released, or None for nothing.
    """
    counts: dict[Event, int] = {}
    parts = () if event is None else (event,) if isinstance(event, Event) else event
    for part in parts:
        for release, times in _flat(part):
            counts[release] = counts.get(release, 0) + times
    return counts


def _flat(event: Event) -> Iterator[tuple[Event, int]]:
    match event:
        case Repeated(times=times, event=inner):
            yield from ((release, times * often) for release, often in flat(inner).items())
        case Together(events=parts):
            yield from flat(parts).items()
        case PoissonSampled():
            yield _sampled(event), 1
        case _:
            check.instance(Event, event=event)
            yield event, 1


def _sampled(event: PoissonSampled) -> Event:
    rate, inner = float(event.sampling_rate), event.event
    while isinstance(inner, PoissonSampled):
        # a product that underflows is raised to the smallest float, which costs more
        rate, inner = max(rate * inner.sampling_rate, sys.float_info.min), inner.event
    if any(isinstance(release, NonPrivate) for release in flat(inner)):
        return NonPrivate()
    shared = isinstance(inner, Repeated | Together)
    return inner if rate == 1 and not shared else PoissonSampled(rate, inner)


def from_json(data: Any, *, depth: int = 0) -> Event:
    """The event that `Event.to_json` wrote; anything else is refused."""
    if depth > 16:
        raise ArtifactError("ledger events are nested more than 16 deep: not written by veilflow.")
    fields = cast("dict[str, Any]", data if isinstance(data, dict) else {})
    kind = fields.get("kind")
    if not isinstance(kind, str) or kind not in _KINDS:
        value = cast(object, data if kind is None else kind)
        shown = kind[:40] if isinstance(kind, str) else type(value).__name__
        raise ArtifactError(
            f"ledger holds an event of unknown kind {shown!r}; known: {', '.join(_KINDS)}. "
            "It may come from a newer version of veilflow."
        )
    cls = _KINDS[kind]
    names = {f.name for f in dataclasses.fields(cls)}
    if set(fields) != names | {"kind"}:
        raise ArtifactError(f"event {cls.kind!r} must have the fields {sorted(names)}.")
    values = {name: fields[name] for name in names}
    if "event" in names:
        values["event"] = from_json(values["event"], depth=depth + 1)
    if "events" in names:
        if not isinstance(values["events"], list):
            raise ArtifactError("event 'together' must hold a list of events.")
        parts = cast("list[Any]", values["events"])
        values["events"] = tuple(from_json(part, depth=depth + 1) for part in parts)
    try:
        return cls(**values)
    except (TypeError, ValueError, OverflowError) as error:
        raise ArtifactError(f"event {cls.kind!r} is malformed: {error}") from error


def _plain(value: Any) -> Any:
    if isinstance(value, Event):
        return value.to_json()
    if isinstance(value, tuple):
        return [part.to_json() for part in cast("tuple[Event, ...]", value)]
    # JSON knows no NumPy scalars
    return int(value) if isinstance(value, numbers.Integral) else float(value)
