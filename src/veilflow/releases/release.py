"""A release: one question to the records and its price, both made of public numbers.

A plan is a list of releases. What a release asks, what it costs and what its guarantee rests on follow
from its fields, so they are known before any record is read. `run` is the only way to the records, and
its result carries the event that the ledger will show.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from veilflow._core.codec import Tagged
from veilflow._core.errors import PrivacyError
from veilflow._core.keys import Secret
from veilflow.engine.checkpoint import Checkpoint
from veilflow.privacy import calibration
from veilflow.privacy.assumptions import Assumption, FloatSums
from veilflow.privacy.budget import Budget
from veilflow.privacy.events import Event, Gaussian, NonPrivate, PureDP, Together
from veilflow.privacy.guarantees import Released, Sensitive
from veilflow.privacy.ledger import Ledger

Monitor = Callable[[int], object]
"""Called with the number of rounds that are done."""


@dataclass(frozen=True)
class Tools:
    """What a release works with besides the records."""

    secret: Secret
    monitor: Monitor = field(default=lambda done: None)
    checkpoint: Checkpoint | None = None
    """For a release that takes so long that it saves its state while it runs."""


@dataclass(frozen=True)
class Query:
    """The arguments of a release: records, transformed by earlier releases, and released numbers."""

    records: Sensitive[Any] | None
    """None for a step that uses released values alone."""
    known: dict[str, Any] = field(default_factory=dict[str, Any])
    """Arguments of `run`: declared or released, never read from the records."""


@dataclass(frozen=True, kw_only=True)
class Release(Tagged, ABC):
    """One entry of a plan.

    Attributes:
        purpose: A few words for the ledger; unique within the plan.
    """

    purpose: str

    @property
    @abstractmethod
    def event(self) -> Event | None:
        """Its price, whatever the records are; None for `Derived`, which does not read them."""

    @property
    def num_draws(self) -> int:
        """The most numbers that get noise on a grid, each of which is not quite Gaussian."""
        return 0

    @property
    def grids(self) -> tuple[tuple[float, int], ...]:
        """Noise multiplier and number of coordinates of each grid on which noise is drawn."""
        return ()

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """What its price assumes, beyond the sums of an accountant."""
        return (FloatSums(),) if self.num_draws else ()

    @property
    def from_secret(self) -> bool:
        """Whether its randomness comes from the secret of the run, which a seed may determine."""
        return self.num_draws > 0

    @property
    def rounds(self) -> int:
        """The number of rounds that the monitor counts; 1 for a single step."""
        return 1

    def event_after(self, done: int) -> Event | None:
        """An upper bound on the price of the first `done` rounds."""
        return self.event

    def priced(self, budget: Budget, others: Ledger) -> Self:
        """This release, spending all of the budget that `others` leave.

        Raises:
            BudgetError: If nothing is left.
        """
        raise NotImplementedError(f"{type(self).__name__} has a fixed price.")

    def _with_least_noise(self, budget: Budget, others: Ledger, **search: Any) -> Self:
        """This release with the smallest `noise_multiplier` that the budget allows."""

        def price(noise_multiplier: float) -> Event:
            event = replace(self, noise_multiplier=noise_multiplier).event
            assert event is not None
            return event

        search = {"increasing": False, "ledger": others, "what": "noise_multiplier", **search}
        return replace(self, noise_multiplier=calibration.calibrate(price, budget, **search))

    @abstractmethod
    def run(self, *args: Any, **known: Any) -> Released[Any]:
        """Ask the records: `run(records, tools, **known)`, with the fields of a `Query`.

        Returns:
            Plain values: numbers, texts and arrays, alone or in lists and dictionaries, so that a
            checkpoint can store them. `result` turns them into what a model needs.
        """

    def result(self, value: Any) -> Any:
        """The released value as a model needs it: post-processing, repeated after a crash."""
        return value


def gaussians(noise_multipliers: Sequence[float]) -> Event:
    """One Gaussian mechanism for each noise multiplier."""
    return Together(tuple(map(gaussian_event, noise_multipliers)))


def gaussian_event(noise_multiplier: float) -> Event:
    """The event of a Gaussian mechanism; a multiplier of 0 adds no noise, and the event says so."""
    return Gaussian(noise_multiplier) if noise_multiplier else NonPrivate()


def pure_event(epsilon: float) -> Event:
    """The event of an epsilon-DP mechanism; an infinite epsilon adds no noise, and it says so."""
    return NonPrivate() if epsilon == math.inf else PureDP(epsilon)


@dataclass(frozen=True, kw_only=True)
class Derived(Release):
    """A step of a plan that does not read the records and therefore costs nothing.

    Post-processing of a second or two is simply repeated when a run resumes. A step of minutes is an
    entry of the plan: it has a progress bar, and a checkpoint stores its result.

    Guarantee:
        It receives no records, only values that were released before it.

    Attributes:
        steps: The number of rounds that its monitor counts.
    """

    steps: int

    @property
    def event(self) -> None:
        return None

    @property
    def rounds(self) -> int:
        return self.steps

    def run(self, records: None, tools: Tools, *, make: Callable[[Monitor], Any]) -> Any:
        """Call `make`, a function of released values, with a monitor.

        Returns:
            Plain values, as those of a release.
        """
        if records is not None:
            raise PrivacyError(f"{self.purpose} is free, so it must not receive records.")
        return make(tools.monitor)
