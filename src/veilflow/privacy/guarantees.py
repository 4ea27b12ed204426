"""The types a guarantee lives in: raw data, clipped sums and released values cannot be confused.

`Sensitive` goes into a mechanism, `Released` comes out and carries the event that pays for it. A
forgotten step does not type-check, and nothing here prints a record.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import equinox as eqx

from veilflow._core import check
from veilflow.privacy import assumptions
from veilflow.privacy.assumptions import Assumption
from veilflow.privacy.events import Event
from veilflow.privacy.unit import Adjacency, Unit

T = TypeVar("T")
S = TypeVar("S")


class Sensitive(Generic[T]):
    """Records nobody has paid for yet. Shows neither its rows nor how many there are.

    `open` is the one way in. It is called by mechanisms and by the engine, which answer for what
    they do with the records; a reviewer greps for it.
    """

    __slots__ = ("_records", "description", "unit")

    def __init__(self, records: T, *, description: str = "records", unit: Unit = Unit.ROW):
        self._records = records
        self.description = description
        self.unit = unit

    def open(self) -> T:
        """The records themselves, for a mechanism that will pay for what it says about them."""
        return self._records

    def map(self, fn: Callable[[T], S], *, description: str | None = None) -> "Sensitive[S]":
        """`fn` applied behind the door; row-wise functions of public settings are free."""
        return Sensitive(
            fn(self._records), description=description or self.description, unit=self.unit
        )

    def __repr__(self) -> str:
        return f"Sensitive({self.description}, unit={self.unit.value})"

    def __reduce__(self):
        raise TypeError("Sensitive records are not pickled or copied: pass the object itself.")


class ClippedSum(eqx.Module):
    """A sum over records in which no record moves the L2 norm by more than `clip_norm`."""

    total: Any
    clip_norm: float = eqx.field(static=True)

    def sensitivity(self, adjacency: Adjacency) -> float:
        """How far, in L2, the sum can be from that of a neighbouring data set."""
        return self.clip_norm * (2 if adjacency is Adjacency.REPLACE_ONE else 1)


class Released(eqx.Module, Generic[T]):
    """A value that left a mechanism, with the event that pays for it."""

    value: T
    event: Event = eqx.field(static=True)

    def map(self, fn: Callable[[T], S]) -> "Released[S]":
        """Post-processing: free, and paid for by the same event."""
        return Released(fn(self.value), self.event)


@dataclass(frozen=True, kw_only=True)
class Guarantee:
    """(epsilon, delta)-differential privacy, for whom, by whose sums, and resting on what."""

    epsilon: float
    delta: float
    adjacency: Adjacency = Adjacency.ADD_REMOVE
    unit: Unit = Unit.ROW
    accountant: str = "PLD"
    assumptions: tuple[Assumption, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "assumptions", assumptions.checked(self.assumptions))
        if not (self.epsilon >= 0):
            raise ValueError(f"epsilon must be at least 0, got {self.epsilon}.")
        if self.delta != 0:
            check.fraction(delta=self.delta)

    @property
    def private(self) -> bool:
        """Whether anything is promised at all."""
        return self.epsilon != math.inf

    def __str__(self) -> str:
        whom = f"{self.adjacency.value} one {self.unit.value}, by {self.accountant}"
        claim = f"({self.epsilon:.4g}, {self.delta:.3g})-differential privacy, {whom}"
        if not self.private:
            claim = f"no privacy: epsilon is infinite, {whom}"
        if self.assumptions:
            claim += ", assuming: " + "; ".join(map(str, self.assumptions))
        return claim

    __repr__ = __str__

    def to_json(self) -> dict[str, Any]:
        """The guarantee as plain JSON values, assumptions included."""
        return {
            "epsilon": self.epsilon if self.epsilon != float("inf") else "inf",
            "delta": self.delta,
            "adjacency": self.adjacency.value,
            "unit": self.unit.value,
            "accountant": self.accountant,
            "assumptions": [one.to_json() for one in self.assumptions],
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "Guarantee":
        """The guarantee written by `to_json`."""
        return cls(
            epsilon=float(data["epsilon"]),
            delta=float(data["delta"]),
            adjacency=Adjacency(data["adjacency"]),
            unit=Unit(data["unit"]),
            accountant=str(data["accountant"]),
            assumptions=tuple(assumptions.from_json(one) for one in data["assumptions"]),
        )
