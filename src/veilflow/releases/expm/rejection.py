"""Exact draws from the exponential mechanism, by rejection from the prior.

A candidate from the prior is accepted with probability exp(-epsilon L / (factor s)), where L is its
exact sum of losses; the first accepted one has exactly the density of the target. Candidates use
entropy of the operating system, and so do the coins, which are exact for rational exponents. No seed
determines them, because the proof needs secret candidates: whoever knew them would learn from the
accepted one which were rejected.

Trials. A candidate is accepted with probability at least exp(-epsilon n / factor) for n records, so the
expected number of trials is at most exp(epsilon n / factor). L is clipped at n s, so that this
holds even if there are more than n records, and one record still moves it by 0 to s.

A cap. Let Z be the probability that a candidate is accepted, and T the cap. A set S of parameters comes
out of the first T trials with probability f(Z) times the integral over S of prior times coin, where
f(Z) = (1 - (1 - Z)^T) / Z falls as Z rises. One more record multiplies every coin, and hence Z, by
e^-epsilon to 1. Where it lowers Z it raises f, by at most the factor by which Z fell. So an accepted
candidate is epsilon-private in both directions, cap or not. If none was accepted, the result is a draw
from the prior. That happens with probability (1 - Z)^T, at most
delta = (1 - exp(-epsilon n / factor))^T: with a cap a draw is (epsilon, delta)-private. All T trials
are then made, whichever was accepted.

Coins. A coin with probability exp(-x), for rational x, compares a uniform number with exp(-x). Both are
written bit by bit, the uniform one by the operating system, and the first bits nearly always decide. So
the comparison is made with 64 bits in double precision, for many coins at once. Where that is too close
to call, more bits are drawn and exp(-x) is enclosed by whole numbers until it is not. Reading bits only
when they matter changes no probability, and no rounding enters the result.

Time. Without a cap the time of a draw depends on Z, which depends on the records. Whoever can
measure it learns something that no epsilon here pays for. A cap closes this channel, except for what
the evaluation of losses itself may reveal.
"""

import math
import os
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Bool, Float, Int

from veilflow._core.fields import convert, count, optional, positive
from veilflow._core.keys import Secret
from veilflow.privacy.events import ApproximateDP, Event, ExponentialMechanism
from veilflow.privacy.guarantees import Released, Sensitive
from veilflow.releases.expm.loss import in_units
from veilflow.releases.expm.sampler import CountingSampler
from veilflow.releases.expm.target import BITS, Target

_BLOCK = 4096
_NUMBERS = 2**22
"""The most parameters of all candidates of a block."""
_SMALLEST = 1e-300
"""A delta that underflows in double precision is rounded up to this."""
_DOUBT = 2.0**-30
"""Relative error of exp in double precision: a generous bound."""
_WORD = 64


@dataclass(frozen=True, kw_only=True)
class RejectionSampler(CountingSampler):
    """Draws candidates from the prior until one is accepted.

    Guarantee:
        Pure epsilon, unconditionally, without a cap. With one, delta as at the top of this file.

    Args:
        max_trials: The cap on trials, which costs a delta; by default there is none.
        reach: A draw that may need more expected trials is refused.
    """

    max_trials: int | None = None
    reach: float = 1e7

    name: ClassVar[str] = "rejection"

    def __post_init__(self) -> None:
        super().__post_init__()
        convert(self, reach=positive, max_trials=optional(count()))

    def settled(self, target: Target) -> "RejectionSampler":
        """These settings, if the target is within reach."""
        if self.num_records is None:
            raise ValueError(
                "rejection needs num_records, which bounds the trials. Declare it: if epsilon is small "
                "enough for rejection, the error of a private count exceeds the count itself."
            )
        nats = target.epsilon * self.num_records / target.factor
        if self.max_trials is None and nats > math.log(self.reach):
            raise ValueError(
                f"rejection from the prior may take e^{nats:.4g} trials for {self.num_records} "
                f"records at epsilon={target.epsilon:.4g}, and {self.reach:.3g} are within reach. Use "
                f"epsilon below {math.log(self.reach) * target.factor / self.num_records:.3g}, fewer "
                "records, or sampler='zoom'."
            )
        return self

    def event(self, epsilon: float) -> Event:
        # for adding or removing a record, which costs more than replacing one
        if self.max_trials is None:
            return ExponentialMechanism(epsilon)
        return ApproximateDP(epsilon, self.delta(epsilon))

    def delta(self, epsilon: float) -> float:
        """The largest probability that no candidate is accepted, rounded up; 0 without a cap."""
        if self.max_trials is None:
            return 0.0
        accepted = math.exp(-epsilon * self._counted())
        missed = math.exp(self.max_trials * math.log1p(-accepted)) if accepted < 1 else 0.0
        return min(max(missed * (1 + 1e-9), _SMALLEST), 1 - 1e-12)

    def draw(
        self, target: Target, records: Sensitive[Any], *, secret: Secret
    ) -> Released[Float[np.ndarray, " dim"]]:
        del secret  # see the top of this file
        self.settled(target)
        data = records.open()
        most = self._counted() * in_units(target.loss.sensitivity, bits=BITS)
        unit = Fraction(target.epsilon) / (
            target.factor * Fraction(target.loss.sensitivity) * 2**BITS
        )
        block = max(1, min(_BLOCK, _NUMBERS // target.dim))
        theta, accepted, tried = np.empty(0), False, 0
        while self.max_trials is None or tried < self.max_trials:
            num = block if self.max_trials is None else min(block, self.max_trials - tried)
            thetas = target.prior.from_entropy(num, target.dim)
            losses = np.minimum(target.whole_losses(thetas, data), most)
            up = np.flatnonzero(exp_coins(losses, unit=unit))
            if up.size and not accepted:
                theta, accepted = thetas[up[0]], True
            tried += num
            if accepted and self.max_trials is None:
                break
        if not accepted:
            theta = target.prior.from_entropy(1, target.dim)[0]
        return Released(theta, self.event(target.epsilon))


def exp_coins(exponents: Int[np.ndarray, " num"], *, unit: Fraction) -> Bool[np.ndarray, " num"]:
    """Independent coins that are True with probability exp(-exponent * unit).

    Args:
        exponents: Nonnegative integers.
        unit: A positive factor.
    """
    words = np.frombuffer(os.urandom(8 * len(exponents)), dtype=np.uint64)
    return decide(words, exponents, unit=unit)


def decide(
    words: np.ndarray, exponents: Int[np.ndarray, " num"], *, unit: Fraction
) -> Bool[np.ndarray, " num"]:
    """The coins for uniform 64-bit `words`; further bits are drawn where they are needed."""
    with np.errstate(under="ignore"):
        chance = np.exp(-exponents.astype(np.float64) * float(unit))
    low = words.astype(np.float64) * 2.0**-_WORD
    up = (words.astype(np.float64) + 1.0) * 2.0**-_WORD <= chance * (1 - _DOUBT)
    up |= exponents == 0
    down = low > chance * (1 + _DOUBT)
    for place in np.flatnonzero(~(up | down)):
        up[place] = _exactly(int(words[place]), int(exponents[place]) * unit)
    return up


def _exactly(word: int, exponent: Fraction) -> bool:
    """Whether a uniform number whose first bits are `word` is below exp(-exponent)."""
    bits = _WORD
    while True:
        low, high = exp_bounds(exponent, bits=bits)
        if word + 1 <= low:
            return True
        if word >= high:
            return False
        word = word << _WORD | int.from_bytes(os.urandom(_WORD // 8), "big")
        bits += _WORD


def exp_bounds(exponent: Fraction, *, bits: int) -> tuple[int, int]:
    """Integers that enclose 2^bits exp(-exponent), at most a few apart."""
    # exp(-x) is the square of exp(-x/2): halve until the series is short, then square back
    halvings = max(0, (exponent.numerator // exponent.denominator).bit_length() + 1)
    small = exponent / 2**halvings
    guard = bits + 32 + 2 * halvings
    one = 1 << guard
    low, high = 0, 0
    low_term, high_term, k = one, one, 0
    while high_term > 1 or k % 2:
        # terms alternate in sign: subtracted terms are rounded up for the lower bound, and down
        # for the upper one
        if k % 2 == 0:
            low, high = low + low_term, high + high_term
        else:
            low, high = low - high_term, high - low_term
        k += 1
        low_term = low_term * small.numerator // (small.denominator * k)
        high_term = -(-high_term * small.numerator // (small.denominator * k))
    # the last term was subtracted, so the rest of the series is between 0 and the next term
    high += high_term
    low = max(low, 0)
    for _ in range(halvings):
        low, high = low * low >> guard, -(-(high * high) >> guard)
    shift = guard - bits
    return low >> shift, -(-high >> shift)
