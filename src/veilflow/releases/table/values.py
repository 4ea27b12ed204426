"""The values of a column that nobody declared: those that many records share."""

from collections import Counter
from dataclasses import dataclass

import numpy as np
from jaxtyping import Shaped

from veilflow.privacy.events import ApproximateDP, Event, NonPrivate
from veilflow.privacy.guarantees import Released, Sensitive
from veilflow.privacy.mechanisms import discover_categories
from veilflow.releases.release import Release, Tools


@dataclass(frozen=True, kw_only=True)
class ColumnValues(Release):
    """Values of a column, as texts.

    Guarantee:
        (epsilon, delta)-DP for add/remove: a record votes for at most one value. A value is released
        if its noisy count is above a threshold, which one that a single record holds passes with
        probability at most delta.

    Attributes:
        column: Its name.
        max_values: The most values that are kept, those with the largest counts.
        epsilon: The price; infinite for all values as they are, without privacy.
        delta: Likewise; 0 without privacy.
    """

    column: str
    max_values: int
    epsilon: float
    delta: float

    @property
    def event(self) -> Event:
        private = self.epsilon != float("inf")
        return ApproximateDP(self.epsilon, self.delta) if private else NonPrivate()

    def run(
        self, records: Sensitive[Shaped[np.ndarray, " rows"]], tools: Tools
    ) -> Released[list[str]]:
        """Ask.

        Args:
            records: The value of each record, None for a record without one.
            tools: Of the run.
        """
        if self.epsilon == float("inf"):
            counts = Counter(word for word in records.open() if word is not None)
            return Released(self._kept(counts), NonPrivate())
        # who says nothing votes for None, which is no word
        released = discover_categories(records, epsilon=self.epsilon, delta=self.delta)
        return released.map(
            lambda found: self._kept({word: n for word, n in found if isinstance(word, str)})
        )

    def _kept(self, counts: dict[str, int]) -> list[str]:
        return sorted(sorted(counts, key=lambda word: (-counts[word], word))[: self.max_values])

    def result(self, value: list[str]) -> tuple[str, ...]:
        """The values in the order of their codes."""
        return tuple(value)
