"""From counts of guesses to the smallest epsilon that could explain them.

Differential privacy bounds how well anybody can tell who was in. Whoever does better has shown that
epsilon is larger. Each bound here is one that a mechanism which keeps its claim exceeds with a
probability of at most one minus the confidence.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from veilflow._core import check

_MOST = 64.0
"""The search ends here: no number of guesses that fits a computer says more."""


def many_runs(
    *,
    true_positives: int,
    positives: int,
    false_positives: int,
    negatives: int,
    delta: float,
    confidence: float = 0.95,
) -> float:
    """The bound from independent runs, some with a record and some without (Clopper and Pearson).

    Args:
        true_positives: Runs with the record that were recognized as such.
        positives: Runs with the record.
        false_positives: Runs without it that were mistaken for runs with it.
        negatives: Runs without it.
        delta: Of the claim.
        confidence: Of the bound.
    """
    _check(delta, confidence)
    _check_share(true_positives=true_positives, positives=positives)
    _check_share(false_positives=false_positives, negatives=negatives)
    from scipy.stats import beta

    # one half of the risk for each rate; within both, both inequalities hold at once
    risk = (1 - confidence) / 2
    hits, misses = true_positives, positives - true_positives
    low = float(beta.ppf(risk, hits, misses + 1)) if hits else 0.0
    mistakes, rest = false_positives, negatives - false_positives
    high = float(beta.ppf(1 - risk, mistakes + 1, rest)) if rest else 1.0
    found = [_log_ratio(low - delta, high), _log_ratio(1 - high - delta, 1 - low)]
    return max(0.0, *found)


def one_run(
    *, correct: int, guesses: int, canaries: int, delta: float, confidence: float = 0.95
) -> float:
    """The bound from one run with many canaries, each in by a fair coin of its own.

    After Steinke, Nasr and Jagielski, "Privacy auditing with one (1) training run" (2023). Holds for
    every mechanism. The number of guesses must be fixed before the coins are seen.

    Args:
        correct: Guesses that were right.
        guesses: Canaries of which it was guessed whether they were in.
        canaries: All of them, also those nobody made a guess about.
        delta: Of the claim.
        confidence: Of the bound.
    """
    _check(delta, confidence)
    _check_share(correct=correct, guesses=guesses)
    _check_share(guesses=guesses, canaries=canaries)

    def refuted(epsilon: float) -> bool:
        counts = {"correct": correct, "guesses": guesses, "canaries": canaries}
        return one_run_p_value(**counts, epsilon=epsilon, delta=delta) <= 1 - confidence

    return _largest(refuted)


def one_run_p_value(
    *, correct: int, guesses: int, canaries: int, epsilon: float, delta: float
) -> float:
    """The chance of so many right guesses, at most, under (epsilon, delta)-differential privacy.

    With delta 0 the number of right guesses is dominated by a binomial of e^epsilon / (1 + e^epsilon).
    With delta it may, for each canary, fail once: a shift of the binomial by i guesses happens with a
    chance of at most 2 canaries delta / i, and the worst shift counts.
    """
    from scipy.special import expit
    from scipy.stats import binom

    share = float(expit(epsilon))
    tail = float(binom.sf(correct - 1, guesses, share))
    if delta == 0 or correct == 0:
        return tail
    shifts = np.arange(1, correct + 1)
    gained = binom.sf(correct - shifts - 1, guesses, share) - tail
    return min(1.0, tail + 2 * canaries * delta * float(np.max(gained / shifts)))


def _largest(refuted: Callable[[float], bool]) -> float:
    """The largest epsilon that is refuted, from below; 0 if none is."""
    if not refuted(0.0):
        return 0.0
    low, high = 0.0, 1.0
    while high < _MOST and refuted(high):
        low, high = high, 2 * high
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low


def _log_ratio(above: float, below: float) -> float:
    if above <= 0:
        return 0.0
    return math.log(above / below) if below > 0 else _MOST


def _check(delta: float, confidence: float) -> None:
    check.fraction(confidence=confidence)
    if delta != 0:
        check.fraction(delta=delta)


def _check_share(**counts: Any) -> None:
    """Raise unless the first count is at most the second, and both are counts."""
    (part, few), (whole, many) = counts.items()
    check.count(at_least=0, **{part: few})
    check.count(**{whole: many})
    if few > many:
        raise ValueError(f"{part} must be at most {whole}, got {few} of {many}.")
