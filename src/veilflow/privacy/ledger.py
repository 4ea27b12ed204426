"""The ledger: everything that was released about the records, and its total cost."""

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, cast

from veilflow._core import check
from veilflow._core.errors import ArtifactError
from veilflow.privacy import accounting, assumptions, events
from veilflow.privacy.accounting.accountant import MAX_RELEASES, num_releases
from veilflow.privacy.assumptions import Assumption, check_text
from veilflow.privacy.events import Event, Together
from veilflow.privacy.guarantees import Guarantee
from veilflow.privacy.unit import Adjacency, Unit

FORMAT = 2
"""The version of the JSON format; a reader refuses any other."""

_MAX_ENTRIES = 100_000


@dataclass(frozen=True)
class Entry:
    """One event and its purpose."""

    purpose: str
    event: Event

    def __post_init__(self) -> None:
        check_text(self.purpose, "purpose")
        check.instance(Event, event=self.event)


@dataclass(frozen=True, kw_only=True)
class Ledger:
    """What was spent so far. Immutable: spending returns a longer ledger, nothing is removed."""

    adjacency: Adjacency = Adjacency.ADD_REMOVE
    unit: Unit = Unit.ROW
    entries: tuple[Entry, ...] = ()
    assumptions: tuple[Assumption, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "entries", tuple(self.entries))
        object.__setattr__(self, "assumptions", assumptions.checked(self.assumptions))

    def spend(self, event: Event, *, purpose: str) -> "Ledger":
        """This ledger with one more entry.

        Args:
            event: What was, or is about to be, released.
            purpose: A few words for the reports: "count", "training", "bounds of age".
        """
        return dataclasses.replace(self, entries=(*self.entries, Entry(purpose, event)))

    def assuming(self, *more: Assumption) -> "Ledger":
        """This ledger with further assumptions; none is listed twice."""
        return dataclasses.replace(self, assumptions=(*self.assumptions, *more))

    @property
    def event(self) -> Event | None:
        """All entries as one event; None if nothing was spent, which costs 0."""
        if not self.entries:
            return None
        return Together(tuple(entry.event for entry in self.entries))

    def epsilon(self, *, delta: float, accountant: str = "pld") -> float:
        """The epsilon of all entries together at `delta`; infinite if none is proved."""
        return accounting.get(accountant).epsilon(self.event, delta=delta, adjacency=self.adjacency)

    def delta(self, *, epsilon: float, accountant: str = "pld") -> float:
        """The delta of all entries together at `epsilon`."""
        return accounting.get(accountant).delta(
            self.event, epsilon=epsilon, adjacency=self.adjacency
        )

    def guarantee(self, *, delta: float, accountant: str = "pld") -> Guarantee:
        """The statement to print: epsilon, for which unit, by which accountant, assuming what.

        Guarantee:
            All releases recorded here are together (epsilon, delta)-differentially private for the
            ledger's adjacency and unit, if the assumptions hold. With the "gdp" accountant epsilon
            is an approximation, and the assumptions say so.
        """
        answer = accounting.get(accountant).account(
            self.event, delta=delta, adjacency=self.adjacency
        )
        return Guarantee(
            epsilon=answer.value,
            delta=delta,
            adjacency=self.adjacency,
            unit=self.unit,
            accountant=answer.label,
            assumptions=self.assumptions + answer.assumptions,
        )

    def shares(self, delta: float, *, accountant: str = "pld") -> list[tuple[str, float, float]]:
        """For each purpose, its epsilon at `delta` if it were alone, and its share of their sum.

        This is for reports only: taken alone, the epsilons sum to more than that of the ledger.
        """
        by_purpose: dict[str, list[Event]] = {}
        for entry in self.entries:
            by_purpose.setdefault(entry.purpose, []).append(entry.event)
        one = accounting.get(accountant)
        costs = {
            purpose: one.epsilon(spent, delta=delta, adjacency=self.adjacency)
            for purpose, spent in by_purpose.items()
        }
        total = math.fsum(costs.values())
        return [(p, e, _fraction(e, total, len(costs))) for p, e in costs.items()]

    def to_json(self) -> dict[str, Any]:
        """The ledger as plain JSON values."""
        return {
            "format": FORMAT,
            "adjacency": self.adjacency.value,
            "unit": self.unit.value,
            "entries": [
                {"purpose": entry.purpose, "event": entry.event.to_json()} for entry in self.entries
            ],
            "assumptions": [one.to_json() for one in self.assumptions],
        }

    @classmethod
    def from_json(cls, data: Any) -> "Ledger":
        """The ledger that `to_json` wrote.

        Raises:
            ArtifactError: It is anything else; the message says what is wrong.
        """
        data = _record(data, "ledger", ("format", "adjacency", "unit", "entries", "assumptions"))
        if data["format"] != FORMAT or isinstance(data["format"], bool):
            raise ArtifactError(
                f"ledger does not have format {FORMAT}, the one that this version of veilflow reads."
            )
        try:
            entries: list[Entry] = []
            for item in _items(data["entries"], "entries"):
                item = _record(item, "ledger entry", ("purpose", "event"))
                event = events.from_json(item["event"])
                entries.append(Entry(check_text(item["purpose"], "purpose"), event))
            ledger = cls(
                adjacency=Adjacency(data["adjacency"]),
                unit=Unit(data["unit"]),
                entries=tuple(entries),
                assumptions=tuple(
                    assumptions.from_json(one) for one in _items(data["assumptions"], "assumptions")
                ),
            )
        except (TypeError, ValueError, OverflowError) as error:
            raise ArtifactError(f"ledger is malformed: {error}") from error
        if sum(num_releases(entry.event) for entry in entries) > MAX_RELEASES:
            raise ArtifactError(f"ledger claims more than {MAX_RELEASES:.0e} releases.")
        return ledger


def _fraction(epsilon: float, total: float, parts: int) -> float:
    if total == 0:
        return 1 / parts
    if math.isinf(total):
        return float(math.isinf(epsilon))
    return epsilon / total


def _record(data: object, what: str, names: tuple[str, ...]) -> dict[str, Any]:
    fields = cast("dict[str, Any]", data if isinstance(data, dict) else {})
    if set(fields) != set(names):
        raise ArtifactError(f"{what} must be an object with exactly the fields {list(names)}.")
    return fields


def _items(data: object, what: str) -> list[Any]:
    items = cast("list[Any] | None", data if isinstance(data, list) else None)
    if items is None or len(items) > _MAX_ENTRIES:
        raise ArtifactError(f"ledger {what} must be a list of at most {_MAX_ENTRIES} items.")
    return items
