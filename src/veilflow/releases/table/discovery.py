"""Values and bounds of columns for which none were declared."""

import math
from collections import Counter
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float, Shaped

from veilflow.privacy.events import ApproximateDP, Event, NonPrivate
from veilflow.privacy.guarantees import Released, Sensitive
from veilflow.privacy.mechanisms import discover_categories, private_bounds
from veilflow.releases.release import Release, Tools, pure_event
from veilflow.tabular.columns import Numeric

_SMALLEST, _LARGEST = 2.0**-20, 2.0**60
"""Range of magnitudes that is searched for bounds."""
_MOST_STEPS = 2.0**45
"""The most grid steps between zero and the largest bound."""


@dataclass(frozen=True, kw_only=True)
class ColumnBounds(Release):
    """Powers of two between which nearly all numbers of a column lie.

    Guarantee:
        epsilon-DP for add/remove: a record counts towards one magnitude. A missing number counts as
        zero, and an infinite one as the largest magnitude.

    Attributes:
        column: Name of the column.
        step: The distance between neighboring values, if they lie on a grid.
        epsilon: The price; infinite for the exact minimum and maximum, without privacy.
    """

    column: str
    step: float | None
    epsilon: float

    @property
    def event(self) -> Event:
        return pure_event(self.epsilon)

    def run(
        self, records: Sensitive[Float[np.ndarray, " rows"]], tools: Tools
    ) -> Released[list[float]]:
        """Estimate the bounds of one number per record; NaN is a missing number."""
        largest = _largest(self.step)
        if self.epsilon == float("inf"):
            return Released(list(_extremes(records.open(), largest)), NonPrivate())
        smallest = min(_SMALLEST, largest / _MOST_STEPS)
        released = private_bounds(records, epsilon=self.epsilon, smallest=smallest, largest=largest)
        return released.map(lambda both: [float(bound) for bound in both])

    def result(self, value: list[float]) -> tuple[float, float]:
        """The bounds, on the grid of the column if it has one."""
        low, high = value
        return _on_grid(low, high, self.step)


def widest(column: Numeric) -> Numeric:
    """The column with the widest bounds that could be released: a public fact."""
    # bounds are powers of two, and the last of them covers the largest magnitude
    reach = 2.0 ** math.ceil(math.log2(_largest(column.step)))
    low, high = _on_grid(-reach, reach, column.step)
    return replace(column, low=low, high=high)


def _largest(step: float | None) -> float:
    """The largest magnitude: a grid must not have more values than a double distinguishes."""
    return _LARGEST if step is None else min(_LARGEST, step * _MOST_STEPS)


def _on_grid(low: float, high: float, step: float | None) -> tuple[float, float]:
    if step is None:
        return low, high
    return math.floor(low / step) * step, math.ceil(high / step) * step


def _extremes(values: np.ndarray, largest: float) -> tuple[float, float]:
    numbers = np.clip(values[np.isfinite(values)], -largest, largest)
    low, high = (float(numbers.min()), float(numbers.max())) if numbers.size else (0.0, 1.0)
    return low, high if low < high else low + 1.0


@dataclass(frozen=True, kw_only=True)
class ColumnValues(Release):
    """The values of a text column that many records share.

    Guarantee:
        (epsilon, delta)-DP for add/remove: a record votes for at most one value. A value is released
        if its noisy count exceeds a threshold, which a value held by a single record does with
        probability at most delta.

    Attributes:
        column: Name of the column.
        max_values: The most values that are kept: those with the largest counts.
        epsilon: The price; infinite for all values, without privacy.
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
        """Discover the values of one text per record; None is a missing value."""
        if self.epsilon == float("inf"):
            counts = Counter(word for word in records.open() if word is not None)
            return Released(self._kept(counts), NonPrivate())
        # records without a value vote for None, which is not a text
        released = discover_categories(records, epsilon=self.epsilon, delta=self.delta)
        return released.map(
            lambda pairs: self._kept({word: n for word, n in pairs if isinstance(word, str)})
        )

    def _kept(self, counts: dict[str, int]) -> list[str]:
        return sorted(sorted(counts, key=lambda word: (-counts[word], word))[: self.max_values])

    def result(self, value: list[str]) -> tuple[str, ...]:
        """The values in the order of their codes."""
        return tuple(value)
