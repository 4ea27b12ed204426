"""What a guarantee means for one person: the most that an attacker can gain from a release.

The attacker knows everything except whether one person's record was used, sees all that was released,
and guesses. The bounds come from the accountant's whole curve of delta over epsilon where there is one,
and hold for the claimed pair in any case.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from veilflow._core.errors import PrivacyError
from veilflow.privacy.guarantees import Guarantee
from veilflow.privacy.ledger import Ledger

_FACTORS = (0.0, 0.1, 0.25, 0.4, 0.55, 0.7, 0.85)
"""Where the curve is evaluated, as shares of the claimed epsilon: every point is a bound by itself."""
FALSE_ALARMS = (0.01, 0.001)


@dataclass(frozen=True)
class AttackerBounds:
    """The most that an attacker can do.

    Attributes:
        belief: Starting from even odds, the largest belief that the record was used, unless something
            happens that has a probability of at most delta; None where there is no bound.
        correct: The largest probability that a guess between the two is right; 0.5 is a blind guess.
        found: For each rate of false alarms, the largest probability of detecting that the record was
            used.
        by_curve: Whether the accountant's curve was used, or the claimed pair alone.
    """

    belief: float | None
    correct: float
    found: dict[float, float]
    by_curve: bool


def attacker_bounds(ledger: Ledger, guarantee: Guarantee) -> AttackerBounds:
    """The bounds that a ledger and its guarantee prove."""
    if math.isinf(guarantee.epsilon):
        return AttackerBounds(None, 1.0, dict.fromkeys(FALSE_ALARMS, 1.0), by_curve=False)
    points = [(guarantee.epsilon, guarantee.delta)]
    by_curve = True
    try:
        asked = [part * guarantee.epsilon for part in _FACTORS]
        points += [(epsilon, ledger.delta(epsilon=epsilon)) for epsilon in asked]
    except PrivacyError:  # an event that the default accountant cannot add up
        by_curve = False
    correct = min((math.exp(e) + d) / (1 + math.exp(e)) for e, d in points)
    return AttackerBounds(
        belief=1 / (1 + math.exp(-guarantee.epsilon)),
        correct=min(1.0, correct),
        found={rate: detected(points, rate) for rate in FALSE_ALARMS},
        by_curve=by_curve,
    )


def detected(points: Sequence[tuple[float, float]], false_alarms: float) -> float:
    """The largest true positive rate of any test with this rate of false alarms.

    For every (epsilon, delta) that holds in both directions, the rate of misses is at least
    1 - delta - e^epsilon times that of false alarms, and the other way round.
    """
    best = 1.0
    for epsilon, delta in points:
        best = min(best, delta + math.exp(min(epsilon, 700.0)) * false_alarms)
        best = min(best, 1 - math.exp(-epsilon) * (1 - delta - false_alarms))
    return max(best, false_alarms)
