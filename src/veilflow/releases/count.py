"""A private count of the records."""

from dataclasses import dataclass
from typing import Any

from veilflow.privacy.budget import Budget
from veilflow.privacy.events import Event, NonPrivate, PureDP
from veilflow.privacy.guarantees import Released, Sensitive
from veilflow.privacy.mechanisms import count_records
from veilflow.releases.release import Release, Tools

_SHARE = 0.02
"""Part of epsilon that a paid count takes."""


@dataclass(frozen=True, kw_only=True)
class Count(Release):
    """How many records there are, with geometric noise.

    Guarantee:
        epsilon-DP for add/remove: one record moves the count by one.

    Attributes:
        epsilon: The price; infinite for the count itself, without privacy.
        at_least: What a smaller count is raised to: divisors and logarithms are made of it.
    """

    purpose: str = "number of records"
    epsilon: float
    at_least: int = 1

    @classmethod
    def within(cls, budget: Budget, **fields: Any) -> "Count":
        """A count for its usual part of a budget."""
        return cls(epsilon=_SHARE * budget.epsilon, **fields)

    @property
    def event(self) -> Event:
        return NonPrivate() if self.epsilon == float("inf") else PureDP(self.epsilon)

    def run(self, records: Sensitive[Any], tools: Tools) -> Released[int]:
        if self.epsilon == float("inf"):
            return Released(len(records.open()), NonPrivate())
        return count_records(records, epsilon=self.epsilon)

    def result(self, value: int) -> int:
        return max(self.at_least, int(value))
