"""Basic composition: epsilons add up, and so do deltas."""

import math
from typing import ClassVar

from veilflow.privacy import events as ev
from veilflow.privacy.accounting.accountant import (
    AbstractAccountant,
    Answer,
    Releases,
    added_up,
)
from veilflow.privacy.events import Event


class BasicAccountant(AbstractAccountant):
    """Sums the epsilons and the deltas of pure and (epsilon, delta) releases."""

    name: ClassVar[str] = "basic"
    label: ClassVar[str] = "basic composition"
    kinds: ClassVar[tuple[type[Event], ...]] = (
        ev.Laplace,
        ev.PureDP,
        ev.ExponentialMechanism,
        ev.ApproximateDP,
    )

    def _epsilon(self, together: Releases, delta: float) -> Answer:
        epsilon, needed = added_up(together)
        return Answer(epsilon if needed <= delta else math.inf, self.label)

    def _delta(self, together: Releases, epsilon: float) -> float:
        total, needed = added_up(together)
        return needed if total <= epsilon else 1.0
