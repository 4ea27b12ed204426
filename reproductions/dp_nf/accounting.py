"""What the paper's accountants claim, computed as the paper and its code do. None of it is a promise.

The paper draws batches of fixed size without replacement. Its accountants take the noise relative to
a sensitivity of C, but between data sets in which one record is *replaced*, which is where such
batches can be accounted for, a sum of clipped gradients moves by up to 2C. So the epsilons they claim
are not those spent; `true_epsilon` is, with Poisson batches at half the noise multiplier as stand-in.
"""

import math
from functools import lru_cache

import numpy as np
from scipy.special import gammaln, logsumexp
from scipy.stats import norm

from reproductions.dp_nf import data, paper
from veilflow.privacy.accounting.conversions import epsilon_of_mu
from veilflow.privacy.events import Event, Gaussian, PoissonSampled, Repeated, flat
from veilflow.privacy.ledger import Ledger

PLD, RDP = "PLD, Poisson", "RDP, Poisson"
GDP_POISSON = "GDP-CLT, Poisson (approximation, not a bound)"
GDP_UNIFORM = "GDP-CLT, fixed size (approximation, not a bound; as the paper computed it)"
MA_UNIFORM = "MA, fixed size (as the paper computed it)"

_ORDERS = np.arange(2, 64)
_MOST_STEPS = 10_000_000

Steps = tuple[float, float, int]
"""Sampling rate, noise multiplier and number of steps; a rate of 1 is no sampling."""


def claims(ledger: Ledger, *, delta: float) -> dict[str, float]:
    """What every accountant says of one ledger, by its label; the two first are bounds.

    Accountants that cannot add up what is in the ledger are left out.
    """
    if not ledger.entries:
        return {}
    found = {PLD: ledger.epsilon(delta=delta)}
    steps = [_steps(event, times) for event, times in flat(ledger.event).items()]
    if None in steps:
        return found
    known = [step for step in steps if step is not None]
    found[RDP] = ledger.epsilon(delta=delta, accountant="rdp")
    found[GDP_POISSON] = ledger.epsilon(delta=delta, accountant="gdp")
    found[GDP_UNIFORM] = gdp_uniform(known, delta=delta)
    found[MA_UNIFORM] = ma_uniform(known, delta=delta)
    return found


def _steps(event: Event, times: int) -> Steps | None:
    """The number of Gaussian steps; None for any other release."""
    if isinstance(event, PoissonSampled) and isinstance(event.event, Gaussian):
        return event.sampling_rate, event.event.noise_multiplier, times
    return (1.0, event.noise_multiplier, times) if isinstance(event, Gaussian) else None


def gdp_uniform(steps: list[Steps], *, delta: float) -> float:
    """Epsilon by the paper's GDP accountant for batches of fixed size."""
    mu = math.sqrt(sum(count * _mu(rate, noise) ** 2 for rate, noise, count in steps))
    return epsilon_of_mu(mu, delta)


def _mu(rate: float, noise: float) -> float:
    if rate == 1:
        return 1 / noise
    part = math.exp(noise**-2) * norm.cdf(1.5 / noise) + 3 * norm.cdf(-0.5 / noise) - 2
    return math.sqrt(2) * rate * math.sqrt(float(part))


def ma_uniform(steps: list[Steps], *, delta: float) -> float:
    """Epsilon by the paper's moments accountant for batches of fixed size.

    Renyi divergences after the bound for sampling without replacement (the paper's Theorem 5),
    added up and turned into epsilon the old way, log(1/delta) / (order - 1).
    """
    total = sum(count * _divergence(rate, noise) for rate, noise, count in steps)
    return float(np.min(total + math.log(1 / delta) / (_ORDERS - 1)))


def _divergence(rate: float, noise: float) -> np.ndarray:
    """The bound on the Renyi divergence of one step, at every order."""
    plain = _ORDERS / (2 * noise**2)
    if rate == 1:
        return plain
    found = []
    for order in _ORDERS:
        j = np.arange(2, order + 1)
        moment = j / (2 * noise**2)
        # of a Gaussian the divergence of infinite order is infinite: the inner minima are 2
        terms = (j - 1) * moment + math.log(2)
        terms[0] = min(math.log(4 * math.expm1(moment[0])), moment[0] + math.log(2))
        choose = gammaln(order + 1) - gammaln(j + 1) - gammaln(order - j + 1)
        both = np.logaddexp(0.0, logsumexp(j * math.log(rate) + choose + terms))
        found.append(both / (order - 1))
    return np.minimum(np.array(found), plain)


_CLAIMED = {"GDP": gdp_uniform, "MA": ma_uniform}


@lru_cache
def steps_of_paper(accountant: str, epsilon: float, *, delta: float) -> int:
    """How many steps the authors' settings on Life Science had taken when `epsilon` was claimed."""
    claimed, low, high = _CLAIMED[accountant], 1, _MOST_STEPS
    while high - low > 1:
        middle = (low + high) // 2
        within = claimed([(_rate(), paper.NOISE, middle)], delta=delta) <= epsilon
        low, high = (middle, high) if within else (low, middle)
    return low


@lru_cache
def sound_steps(epsilon: float, *, rate: float, delta: float) -> int:
    """How many steps on Poisson batches the authors' noise multiplier allows by PLD, at least one."""
    step, low, high = PoissonSampled(rate, Gaussian(paper.NOISE)), 1, _MOST_STEPS
    while high - low > 1:
        middle = (low + high) // 2
        ledger = Ledger().spend(Repeated(middle, step), purpose="training")
        within = ledger.epsilon(delta=delta) <= epsilon
        low, high = (middle, high) if within else (low, middle)
    return low


def true_epsilon(accountant: str, epsilon: float, *, delta: float) -> float | None:
    """What the paper's Life Science run had spent when `accountant` claimed `epsilon`, by PLD."""
    if accountant not in _CLAIMED:
        return None
    steps = steps_of_paper(accountant, epsilon, delta=delta)
    return fixed_size(_rate(), paper.NOISE, steps, delta=delta)


def fixed_size(rate: float, noise: float, steps: int, *, delta: float) -> float:
    """A stand-in for what batches of fixed size spend: Poisson batches at half the noise, by PLD."""
    step = PoissonSampled(rate, Gaussian(noise / 2))
    return Ledger().spend(Repeated(steps, step), purpose="training").epsilon(delta=delta)


def _rate() -> float:
    return paper.BATCH / data.FACTS["lifesci"].num_train
