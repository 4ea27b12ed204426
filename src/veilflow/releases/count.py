"""A private count of the records."""

from dataclasses import dataclass
from typing import Any

from veilflow.privacy.budget import Budget
from veilflow.privacy.events import Event, NonPrivate
from veilflow.privacy.guarantees import Released, Sensitive
from veilflow.privacy.mechanisms import count_records
from veilflow.releases.release import Release, Tools, pure_event

_SHARE = 0.02
"""Share of epsilon that a count takes by default."""


@dataclass(frozen=True, kw_only=True)
class Count(Release):
    """The number of records, with geometric noise.

    Guarantee:
        epsilon-DP for add/remove: one record moves the count by one.

    Attributes:
        epsilon: The price; infinite for the exact count, without privacy.
        at_least: A lower bound of the result, which is used in divisors and logarithms.
    """

    purpose: str = "number of records"
    epsilon: float
    at_least: int = 1

    @classmethod
    def within(cls, budget: Budget, **fields: Any) -> "Count":
        """A count for the default share of a budget."""
        return cls(epsilon=_SHARE * budget.epsilon, **fields)

    @property
    def event(self) -> Event:
        return pure_event(self.epsilon)

    def run(self, records: Sensitive[Any], tools: Tools) -> Released[int]:
        if self.epsilon == float("inf"):
            return Released(len(records.open()), NonPrivate())
        return count_records(records, epsilon=self.epsilon)

    def result(self, value: int) -> int:
        return max(self.at_least, int(value))
