"""Renyi differential privacy: looser than PLD, and computed by another library."""

# SciPy and dp-accounting have no type stubs
# pyright: reportMissingTypeStubs=false

import logging
import math
from collections.abc import Generator
from contextlib import contextmanager
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from veilflow.privacy import events as ev
from veilflow.privacy.accounting.accountant import EVERY, AbstractAccountant, Answer, Releases
from veilflow.privacy.events import Event

Array = NDArray[np.float64]


class RDPAccountant(AbstractAccountant):
    """Sums Renyi divergences at many orders (dp-accounting), an independent check on PLD."""

    name: ClassVar[str] = "rdp"
    label: ClassVar[str] = "RDP"
    kinds: ClassVar[tuple[type[Event], ...]] = EVERY

    def _epsilon(self, together: Releases, delta: float) -> Answer:
        return Answer(epsilon_of(together, delta), self.label)

    def _delta(self, together: Releases, epsilon: float) -> float:
        return delta_of(together, epsilon)


def epsilon_of(together: Releases, delta: float) -> float:
    """The epsilon of releases at `delta`, at the best order."""
    from dp_accounting.rdp.rdp_privacy_accountant import compute_epsilon

    left = delta - _failure(together)
    if left <= 0:
        return math.inf
    orders, curve = _curve(together)
    return float(compute_epsilon(orders.tolist(), curve.tolist(), left)[0])


def delta_of(together: Releases, epsilon: float) -> float:
    """The delta of releases at `epsilon`, at the best order."""
    from dp_accounting.rdp.rdp_privacy_accountant import compute_delta

    orders, curve = _curve(together)
    return _failure(together) + float(compute_delta(orders.tolist(), curve.tolist(), epsilon)[0])


def _failure(together: Releases) -> float:
    """An (epsilon, delta)-DP release is dominated by a pure one that fails with probability delta."""
    return math.fsum(n * e.delta for e, n in together if isinstance(e, ev.ApproximateDP))


@lru_cache(maxsize=256)
def _curve(together: Releases) -> tuple[Array, Array]:
    orders, total = _step_curve(None)
    total = total.copy()
    for event, count in together:
        total += float(count) * _step_curve(event)[1]
    # The conversion would take a sum that rounds to 0 for perfect privacy.
    return orders, np.maximum(total, 1e-14)


@lru_cache(maxsize=1024)
def _step_curve(event: Event | None) -> tuple[Array, Array]:
    """Orders, and the Renyi divergence of one release at each."""
    import dp_accounting as dp
    from dp_accounting.rdp import RdpAccountant

    accountant = RdpAccountant()
    orders = accountant.orders
    match event:
        case ev.Gaussian():
            accountant.compose(dp.GaussianDpEvent(event.noise_multiplier))
        case ev.Laplace():
            accountant.compose(dp.LaplaceDpEvent(event.noise_multiplier))
        case ev.ZeroConcentrated():
            accountant.compose(dp.ZCDpEvent(event.rho, 0.0))
        case ev.PoissonSampled(sampling_rate=rate, event=ev.Gaussian(noise_multiplier=noise)):
            with _quiet():
                accountant.compose(dp.PoissonSampledDpEvent(rate, dp.GaussianDpEvent(noise)))
        case ev.PureDP() | ev.ApproximateDP():
            return orders, _randomized_response(float(event.epsilon), orders)
        case ev.ExponentialMechanism():
            # Bounded range epsilon is epsilon^2 / 8 - zCDP (Cesar and Rogers 2021), and epsilon-DP.
            epsilon = float(event.epsilon)
            return orders, np.minimum(
                orders * epsilon**2 / 8, _randomized_response(epsilon, orders)
            )
        case _:  # nothing was released: no divergence
            pass
    return orders, np.asarray(accountant.rdp, dtype=np.float64)


@contextmanager
def _quiet() -> Generator[None, None, None]:
    """Silences the library's messages about orders that it skips, which is valid."""
    logger = logging.getLogger("absl")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def _randomized_response(epsilon: float, orders: Array) -> Array:
    """The divergence of the worst pure mechanism: randomized response."""
    if epsilon == 0:
        return np.zeros_like(orders)
    honest = -math.log1p(math.exp(-epsilon))
    lie = honest - epsilon
    power = np.logaddexp(orders * honest + (1 - orders) * lie, orders * lie + (1 - orders) * honest)
    return np.maximum(power, 0.0) / (orders - 1)
