"""Zero-concentrated differential privacy: one number, rho, that simply adds up."""

import math
from typing import ClassVar

from veilflow.privacy import events as ev
from veilflow.privacy.accounting.accountant import (
    AbstractAccountant,
    Answer,
    Releases,
    pure_epsilon,
)
from veilflow.privacy.accounting.conversions import epsilon_of_rho, log_delta_of_rho
from veilflow.privacy.events import Event


class ZCDPAccountant(AbstractAccountant):
    """Sums rho over Gaussian, zCDP and pure releases, then converts with the numeric bound."""

    name: ClassVar[str] = "zcdp"
    label: ClassVar[str] = "zCDP"
    kinds: ClassVar[tuple[type[Event], ...]] = (
        ev.Gaussian,
        ev.Laplace,
        ev.ZeroConcentrated,
        ev.PureDP,
        ev.ExponentialMechanism,
    )

    def _epsilon(self, together: Releases, delta: float) -> Answer:
        return Answer(epsilon_of_rho(_rho(together), delta), self.label)

    def _delta(self, together: Releases, epsilon: float) -> float:
        rho = _rho(together)
        return math.exp(float(log_delta_of_rho(rho, epsilon)))


def _rho(together: Releases) -> float:
    """The sum of rho: epsilon^2 / 2 for pure releases, an eighth for bounded range."""
    total = 0.0
    for event, count in together:
        if isinstance(event, ev.Gaussian):
            rho = 0.5 * float(event.noise_multiplier) ** -2
        elif isinstance(event, ev.ZeroConcentrated):
            rho = float(event.rho)
        else:
            epsilon = pure_epsilon(event)
            assert epsilon is not None, "supports() lets only pure releases through"
            rho = epsilon**2 / (8 if isinstance(event, ev.ExponentialMechanism) else 2)
        total += count * rho
    return total
