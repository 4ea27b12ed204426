"""The central-limit approximation of Gaussian differential privacy, to compare with papers."""

import math
from typing import ClassVar

from veilflow.privacy import events as ev
from veilflow.privacy.accounting.accountant import AbstractAccountant, Answer, Releases
from veilflow.privacy.accounting.conversions import epsilon_of_mu, log_delta_of_mu
from veilflow.privacy.assumptions import Approximate, Assumption
from veilflow.privacy.events import Event


class GDPAccountant(AbstractAccountant):
    """mu = q sqrt(T (e^(1/sigma^2) - 1)) for T sampled Gaussians, exact only for plain ones.

    Not a bound: with little noise and few, rarely sampled steps it understates epsilon several
    times over. It is here because published numbers were computed with it.
    """

    name: ClassVar[str] = "gdp"
    label: ClassVar[str] = "GDP-CLT, approximation, not a bound"
    assumptions: ClassVar[tuple[Assumption, ...]] = (Approximate("GDP-CLT"),)
    kinds: ClassVar[tuple[type[Event], ...]] = (ev.Gaussian, ev.PoissonSampled)

    def _epsilon(self, together: Releases, delta: float) -> Answer:
        return Answer(epsilon_of_mu(_mu(together), delta), self.label, self.assumptions)

    def _delta(self, together: Releases, epsilon: float) -> float:
        mu = _mu(together)
        return math.exp(log_delta_of_mu(mu, epsilon)) if math.isfinite(mu) else 1.0


def _mu(together: Releases) -> float:
    total = 0.0
    for event, count in together:
        if isinstance(event, ev.Gaussian):
            total += count * float(event.noise_multiplier) ** -2
        elif isinstance(event, ev.PoissonSampled) and isinstance(event.event, ev.Gaussian):
            precision = float(event.event.noise_multiplier) ** -2
            spread = math.expm1(precision) if precision < 700 else math.inf
            total += count * float(event.sampling_rate) ** 2 * spread
    return math.sqrt(total)
