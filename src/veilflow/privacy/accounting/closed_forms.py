"""Accountants in closed form: pure and basic composition, zCDP, and the GDP approximation."""

import math
from typing import ClassVar

from veilflow.privacy import events as ev
from veilflow.privacy.accounting.accountant import (
    PURE,
    AbstractAccountant,
    Answer,
    Releases,
    added_up,
    pure_epsilon,
)
from veilflow.privacy.accounting.conversions import (
    epsilon_of_mu,
    epsilon_of_rho,
    log_delta_of_mu,
    log_delta_of_rho,
)
from veilflow.privacy.assumptions import Approximate, Assumption
from veilflow.privacy.events import Event


class PureAccountant(AbstractAccountant):
    """Sums the epsilons of releases that need no delta."""

    name: ClassVar[str] = "pure"
    label: ClassVar[str] = "pure composition"
    kinds: ClassVar[tuple[type[Event], ...]] = PURE

    def _epsilon(self, together: Releases, delta: float) -> Answer:
        return Answer(added_up(together)[0], self.label)

    def _delta(self, together: Releases, epsilon: float) -> float:
        return 0.0 if added_up(together)[0] <= epsilon else 1.0


class BasicAccountant(AbstractAccountant):
    """Sums the epsilons and the deltas of pure and (epsilon, delta) releases."""

    name: ClassVar[str] = "basic"
    label: ClassVar[str] = "basic composition"
    kinds: ClassVar[tuple[type[Event], ...]] = (*PURE, ev.ApproximateDP)

    def _epsilon(self, together: Releases, delta: float) -> Answer:
        epsilon, needed = added_up(together)
        return Answer(epsilon if needed <= delta else math.inf, self.label)

    def _delta(self, together: Releases, epsilon: float) -> float:
        total, needed = added_up(together)
        return needed if total <= epsilon else 1.0


class ZCDPAccountant(AbstractAccountant):
    """Sums rho over Gaussian, zCDP and pure releases, then converts it with the numeric bound."""

    name: ClassVar[str] = "zcdp"
    label: ClassVar[str] = "zCDP"
    kinds: ClassVar[tuple[type[Event], ...]] = (*PURE, ev.Gaussian, ev.ZeroConcentrated)

    def _epsilon(self, together: Releases, delta: float) -> Answer:
        return Answer(epsilon_of_rho(_rho(together), delta), self.label)

    def _delta(self, together: Releases, epsilon: float) -> float:
        rho = _rho(together)
        return math.exp(float(log_delta_of_rho(rho, epsilon)))


def _rho(together: Releases) -> float:
    """The sum of rho: epsilon^2 / 2 for pure releases, epsilon^2 / 8 for bounded-range ones."""
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


class GDPAccountant(AbstractAccountant):
    """Gaussian DP by the central limit theorem, to compare with published numbers.

    mu = q sqrt(T (e^(1/sigma^2) - 1)) for T sampled Gaussians; exact only without sampling. This is not
    a bound: with little noise and few, rarely sampled steps it understates epsilon several times over.
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
