"""From counts of guesses to the smallest epsilon that could explain them.

Differential privacy bounds how well anybody can tell who was in the data. Whoever does better has shown
that epsilon is larger. A mechanism that keeps its claim exceeds each of these bounds with a probability
of at most one minus the confidence.
"""

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from veilflow._core import check

_MOST = 64.0
"""The largest bound: no feasible number of guesses shows more."""


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
        true_positives: Runs with the record that were recognized.
        positives: Runs with the record.
        false_positives: Runs without the record that were mistaken for runs with it.
        negatives: Runs without the record.
        delta: Delta of the claim.
        confidence: Confidence of the bound.
    """
    _check(delta, confidence)
    _check_share(true_positives=true_positives, positives=positives)
    _check_share(false_positives=false_positives, negatives=negatives)
    from scipy.stats import beta

    # half of the risk for each rate; both inequalities hold if both rates are within their bounds
    risk = (1 - confidence) / 2
    hits, misses = true_positives, positives - true_positives
    low = float(beta.ppf(risk, hits, misses + 1)) if hits else 0.0
    mistakes, rest = false_positives, negatives - false_positives
    high = float(beta.ppf(1 - risk, mistakes + 1, rest)) if rest else 1.0
    return max(0.0, _log_ratio(low - delta, high), _log_ratio(1 - high - delta, 1 - low))


def one_run(
    *, correct: int, guesses: int, canaries: int, delta: float, confidence: float = 0.95
) -> float:
    """The bound from one run with many canaries, each included by its own fair coin.

    After Steinke, Nasr and Jagielski, "Privacy auditing with one (1) training run" (2023). Holds for
    every mechanism. The number of guesses must be fixed before the coins are seen.

    Args:
        correct: Correct guesses.
        guesses: Canaries whose membership was guessed.
        canaries: All canaries, including those without a guess.
        delta: Delta of the claim.
        confidence: Confidence of the bound.
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
    """The largest probability of this many correct guesses under (epsilon, delta)-privacy.

    With delta 0 the number of correct guesses is dominated by a binomial with probability
    e^epsilon / (1 + e^epsilon). A positive delta may fail once for each canary: a shift of the binomial
    by i guesses has a probability of at most 2 canaries delta / i, and the worst shift counts.
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
    """The largest epsilon that is refuted, rounded down; 0 if none is."""
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
    (name, count), (name_of_all, total) = counts.items()
    check.count(at_least=0, **{name: count})
    check.count(**{name_of_all: total})
    if count > total:
        raise ValueError(f"{name} must be at most {name_of_all}, got {count} of {total}.")


CURVE = (
    "the claim is the whole privacy curve of a Gaussian mechanism with this epsilon and delta, not the "
    "one point alone: exact for full batches, close for many small ones"
)


@lru_cache(maxsize=1024)  # a tenth of a second each, and many audits have the same counts
def one_run_f_dp(
    *, correct: int, guesses: int, canaries: int, delta: float, confidence: float = 0.95
) -> float:
    """The bound from one run, tighter than `one_run` and for a stronger claim; needs jax-privacy.

    After Mahloujifar, Melis and Chaudhuri, "Auditing f-differential privacy in one run" (2024). It
    refutes that the mechanism is as private as a Gaussian one at every delta at once; see
    `CURVE`.

    The arguments are those of `one_run`; delta must be positive.

    Raises:
        ImportError: If jax-privacy is not installed.
    """
    check.fraction(delta=delta, confidence=confidence)
    auditing = _auditing()
    if correct == 0:
        return 0.0
    # the auditor takes scores: those of correct guesses on one side, those of wrong ones on the other,
    # and below the threshold those of canaries without a guess
    inside, outside = np.ones(correct), np.zeros(canaries - correct)
    outside[: guesses - correct] = 1
    if (
        not outside.size
    ):  # it needs scores on both sides; one canary without a guess more changes little
        outside = np.zeros(1)
    epsilon = auditing.CanaryScoreAuditor(inside, outside).epsilon_one_run_fdp(
        1 - confidence, delta, threshold_strategy=auditing.Explicit(0.5)
    )
    return float(epsilon)


def available() -> bool:
    """Whether `one_run_f_dp` is available: jax-privacy is installed."""
    from importlib.util import find_spec

    return find_spec("jax_privacy") is not None


def _auditing() -> Any:
    try:
        from jax_privacy import auditing
    except ImportError as error:
        raise ImportError(
            "the bound 'one-run-f-dp' needs jax-privacy: pip install 'veilflow[audit]'. "
            "The bound 'one-run' needs nothing."
        ) from error
    return auditing
