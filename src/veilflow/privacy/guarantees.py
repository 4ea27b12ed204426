"""The types that carry a guarantee: raw records, clipped sums and released values.

`Sensitive` goes into a mechanism; `Released` comes out with the event that pays for it. A program that
forgets a step does not type-check, and nothing here prints a record.
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
    """Records that nobody has paid for yet. Shows neither the rows nor how many there are.

    `open` is the only access. Mechanisms, the engine and releases call it and are responsible for what
    they do with the records, so a reviewer only has to search for `open`.
    """

    __slots__ = ("_records", "description", "unit")

    def __init__(self, records: T, *, description: str = "records", unit: Unit = Unit.ROW):
        self._records = records
        self.description = description
        self.unit = unit

    def open(self) -> T:
        """The records themselves, for a mechanism that pays for what it releases about them."""
        return self._records

    def map(self, fn: Callable[[T], S], *, description: str | None = None) -> "Sensitive[S]":
        """`fn` of the records, still sensitive; functions of one row and public settings are free."""
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
        """The largest L2 distance between this sum and that of a neighboring data set."""
        return self.clip_norm * (2 if adjacency is Adjacency.REPLACE_ONE else 1)


class Released(eqx.Module, Generic[T]):
    """A value that left a mechanism, with the event that pays for it."""

    value: T
    event: Event = eqx.field(static=True)

    def map(self, fn: Callable[[T], S]) -> "Released[S]":
        """Post-processing, which costs nothing: the same event pays for the result."""
        return Released(fn(self.value), self.event)


@dataclass(frozen=True, kw_only=True)
class Guarantee:
    """(epsilon, delta)-differential privacy: for which unit, by which accountant, assuming what."""

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
        """Whether epsilon is finite, so that anything is promised at all."""
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
            "epsilon": self.epsilon if self.private else "inf",
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
