"""The sparse vector technique: many threshold queries, of which only answers "above" are paid for."""

import math
from fractions import Fraction
from typing import Any

from veilflow._core import check
from veilflow._core.errors import PrivacyError
from veilflow.privacy.events import PureDP
from veilflow.privacy.guarantees import Sensitive
from veilflow.privacy.mechanisms import _opendp
from veilflow.privacy.unit import Adjacency

_UNIT_BITS = 20  # at least 2^20 grid units in one sensitivity
_FARTHEST = 2**62


class SparseVector:
    """Answers "is this above the threshold?" for a stream of queries, epsilon-DP in total.

    Guarantee:
        All answers together are epsilon-DP, however many queries there are and however adaptively
        they are chosen, until `max_positives` of them were answered "above"; then it refuses. Queries
        are rounded to an integer grid, for which a unit is added to the sensitivity, and the noise is
        discrete Laplace, so comparisons are exact. Append `event` to the ledger once, at the start.

    The threshold gets noise once, of scale sensitivity / epsilon_1. Every query gets fresh noise of
    scale 2 max_positives sensitivity / epsilon_2, where epsilon_1 + epsilon_2 = epsilon are in the
    ratio 1 : (2 max_positives)^(2/3). The noise of an answer is never reused, and no noisy value of a
    query is released.

    Args:
        threshold: The public threshold.
        sensitivity: The most that adding or removing one record moves any query. For replace-one,
            twice this is used.
        epsilon: Privacy parameter of all answers together.
        max_positives: The number of answers "above" that are paid for.
        adjacency: The neighboring relation the guarantee is stated for.

    References:
        Lyu, Su, Li, "Understanding the Sparse Vector Technique for Differential Privacy",
        Algorithm 7 and Theorem 4, without its optional numeric answers.
    """

    __slots__ = (
        "_noisy_threshold",
        "_positives",
        "_query_scale",
        "_unit",
        "event",
        "max_positives",
    )

    def __init__(
        self,
        *,
        threshold: float,
        sensitivity: float,
        epsilon: float,
        max_positives: int = 1,
        adjacency: Adjacency = Adjacency.ADD_REMOVE,
    ):
        check.finite(threshold=threshold)
        check.positive(sensitivity=sensitivity, epsilon=epsilon)
        check.count(max_positives=max_positives)
        moved = sensitivity * (2 if adjacency is Adjacency.REPLACE_ONE else 1)
        # A power of two, so that dividing by it is exact; rounding adds one unit.
        self._unit = math.ldexp(1.0, math.frexp(moved)[1] - 1 - _UNIT_BITS)
        check.positive(grid_unit=self._unit, hint="Rescale the queries.")
        grid_sensitivity = math.ceil(Fraction(moved) / Fraction(self._unit)) + 1
        # Hundredths of a percent are precise enough for the share; as fractions, the two parts add up
        # to epsilon exactly.
        share = Fraction(1 / (1 + (2 * max_positives) ** (2 / 3))).limit_denominator(10_000)
        first, second = Fraction(epsilon) * share, Fraction(epsilon) * (1 - share)
        threshold_scale = _opendp.scale_for(grid_sensitivity / first)
        self._query_scale = _opendp.scale_for(2 * max_positives * grid_sensitivity / second)
        self._noisy_threshold = _on_grid(threshold, self._unit) + _opendp.discrete_laplace_noise(
            scale=threshold_scale
        )
        self._positives = 0
        self.max_positives = max_positives
        self.event = PureDP(epsilon)

    def __repr__(self) -> str:
        return f"SparseVector(max_positives={self.max_positives}, left={self.left})"

    def __reduce__(self):
        raise TypeError("a SparseVector is not copied: its noisy threshold is secret.")

    @property
    def left(self) -> int:
        """The number of answers "above" that are left."""
        return self.max_positives - self._positives

    def above(self, query: Sensitive[Any]) -> bool:
        """Whether the query, with fresh noise, reaches the noisy threshold.

        Args:
            query: A number computed from the records. NaN counts as minus infinity, and values
                far beyond the threshold saturate.

        Returns:
            The answer, already paid for by `event`.

        Raises:
            PrivacyError: `max_positives` answers "above" have been given.
        """
        check.instance(Sensitive, query=query)
        if self.left == 0:
            raise PrivacyError(
                f"all {self.max_positives} positive answers are spent; another answer would not be "
                "private. Create a new SparseVector, at a new price."
            )
        noise = _opendp.discrete_laplace_noise(scale=self._query_scale)
        answer = _on_grid(query.open(), self._unit) + noise >= self._noisy_threshold
        self._positives += answer
        return answer


def _on_grid(value: Any, unit: float) -> int:
    """`value` as an integer of grid units, saturating; never raises."""
    try:
        number = float(value)
    except Exception:
        number = math.nan
    if math.isnan(number):
        return -_FARTHEST
    # Beyond 2^62 units, and if the division overflows, all values are equal.
    return round(max(-_FARTHEST, min(_FARTHEST, number / unit)))
