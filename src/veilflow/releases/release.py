"""A release: one question to the records and its price, both made of public numbers.

A plan is a list of releases. What a release asks, what it costs and what its guarantee rests on follow
from its fields, so they are known before any record is read. `run` is the only way to the records, and
its result carries the event that the ledger will show.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from veilflow._core.codec import Tagged
from veilflow._core.errors import PrivacyError
from veilflow._core.keys import Secret
from veilflow.engine.checkpoint import Checkpoint
from veilflow.privacy.assumptions import Assumption, FloatSums
from veilflow.privacy.budget import Budget
from veilflow.privacy.events import Event, Gaussian, NonPrivate, Together
from veilflow.privacy.guarantees import Released, Sensitive
from veilflow.privacy.ledger import Ledger

Monitor = Callable[[int], object]
"""Called with how much of a release is done."""


@dataclass(frozen=True)
class Tools:
    """What a release works with, beside the records."""

    secret: Secret
    monitor: Monitor = field(default=lambda done: None)
    checkpoint: Checkpoint | None = None
    """For a release that takes long enough to keep its state while it runs."""


@dataclass(frozen=True)
class Query:
    """What a release is run on: records, seen through earlier releases, and numbers from these."""

    records: Sensitive[Any] | None
    """None for what is made of released values alone."""
    known: dict[str, Any] = field(default_factory=dict)
    """Arguments of `run`: declared or released, never read from the records."""


@dataclass(frozen=True, kw_only=True)
class Release(Tagged, ABC):
    """One entry of a plan.

    Attributes:
        purpose: A few words for the ledger; no other release of the plan has the same.
    """

    purpose: str

    @property
    @abstractmethod
    def event(self) -> Event | None:
        """What it costs, whatever the records are; None for `Derived`, which asks them nothing."""

    @property
    def num_draws(self) -> int:
        """Numbers that get noise on a grid, at most: what the distance from Gaussian is paid for."""
        return 0

    @property
    def grids(self) -> tuple[tuple[float, int], ...]:
        """Noise multiplier and coordinates of each grid that the noise is drawn on."""
        return ()

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """What its price rests on beyond the sums of an accountant."""
        return (FloatSums(),) if self.num_draws else ()

    @property
    def from_secret(self) -> bool:
        """Whether its randomness comes from the secret of the run, which a seed decides."""
        return self.num_draws > 0

    @property
    def rounds(self) -> int:
        """How far the monitor counts; 1 for what is over at once."""
        return 1

    def event_after(self, done: int) -> Event | None:
        """What the first `done` rounds cost, at most."""
        return self.event

    def priced(self, budget: Budget, others: Ledger) -> Self:
        """This release with all of the budget that `others` leave.

        Raises:
            BudgetError: Nothing is left.
        """
        raise NotImplementedError(f"{type(self).__name__} has a fixed price.")

    @abstractmethod
    def run(self, *args: Any, **known: Any) -> Released[Any]:
        """Ask the records: `run(records, tools, **known)`, with the fields of a `Query`.

        Returns:
            Plain values: numbers, texts and arrays, alone or in lists and dictionaries, so that a
            checkpoint can keep them. `result` makes of them what a model needs.
        """

    def result(self, value: Any) -> Any:
        """What the released value stands for: post-processing, done again after a crash."""
        return value


def gaussians(noise_multipliers: Sequence[float]) -> Event:
    """One Gaussian mechanism for each noise multiplier; 0 is no noise, and the event says so."""
    events = (Gaussian(noise) if noise else NonPrivate() for noise in noise_multipliers)
    return Together(tuple(events))


@dataclass(frozen=True, kw_only=True)
class Derived(Release):
    """A step of a plan that asks nothing of the records, so that it costs nothing.

    Post-processing of a second or two is simply done again when a run goes on. A step of minutes is
    an entry of the plan: it has a progress bar, and a checkpoint keeps what it made.

    Guarantee:
        It is handed no records, only values that were released before it.

    Attributes:
        steps: How far its monitor counts.
    """

    steps: int

    @property
    def event(self) -> None:
        return None

    @property
    def rounds(self) -> int:
        return self.steps

    def run(self, records: None, tools: Tools, *, make: Callable[[Monitor], Any]) -> Any:
        """Do the work.

        Args:
            records: None: there are none.
            tools: Of the run.
            make: The work, a function of released values; called with a monitor.

        Returns:
            Plain values, as those of a release.
        """
        if records is not None:
            raise PrivacyError(f"{self.purpose} is free, and was handed records.")
        return make(tools.monitor)
