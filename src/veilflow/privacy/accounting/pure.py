"""Pure differential privacy: epsilons add up, delta stays 0."""

from typing import ClassVar

from veilflow.privacy import events as ev
from veilflow.privacy.accounting.accountant import (
    AbstractAccountant,
    Answer,
    Releases,
    added_up,
)
from veilflow.privacy.events import Event


class PureAccountant(AbstractAccountant):
    """The sum of epsilons of releases that need no delta."""

    name: ClassVar[str] = "pure"
    label: ClassVar[str] = "pure composition"
    kinds: ClassVar[tuple[type[Event], ...]] = (ev.Laplace, ev.PureDP, ev.ExponentialMechanism)

    def _epsilon(self, together: Releases, delta: float) -> Answer:
        return Answer(added_up(together)[0], self.label)

    def _delta(self, together: Releases, epsilon: float) -> float:
        return 0.0 if added_up(together)[0] <= epsilon else 1.0
