"""The one-run bound for mechanisms with the privacy curve of a Gaussian. Needs jax-privacy.

The only file that touches `jax_privacy.auditing`, whose interface is moving.
"""

from functools import lru_cache

import numpy as np

from veilflow._core import check

ASSUMPTION = (
    "the claim is the whole privacy curve of a Gaussian mechanism with this epsilon and delta, not the "
    "one point alone: exact for full batches, close for many small ones"
)


@lru_cache(maxsize=1024)  # a tenth of a second each, and many audits of a plan have the same counts
def one_run_f_dp(
    *, correct: int, guesses: int, canaries: int, delta: float, confidence: float = 0.95
) -> float:
    """The bound from one run, tighter than `bounds.one_run` and for a stronger claim.

    After Mahloujifar, Melis and Chaudhuri, "Auditing f-differential privacy in one run" (2024). What
    it refutes is that the mechanism is as private as a Gaussian one, at every delta at once; see
    `ASSUMPTION`.

    Args:
        correct: Guesses that were right.
        guesses: Canaries of which it was guessed whether they were in.
        canaries: All of them, also those nobody made a guess about.
        delta: At which the bound is stated; positive.
        confidence: Of the bound.

    Raises:
        ImportError: jax-privacy is not installed.
    """
    check.fraction(delta=delta, confidence=confidence)
    auditing = _auditing()
    if correct == 0:
        return 0.0
    # its auditor takes scores: those of right guesses on one side, those of wrong ones on the other,
    # and below the threshold those of canaries that nobody made a guess about
    inside, outside = np.ones(correct), np.zeros(canaries - correct)
    outside[: guesses - correct] = 1
    if not outside.size:  # it wants scores on both sides; one silent canary more changes little
        outside = np.zeros(1)
    found = auditing.CanaryScoreAuditor(inside, outside).epsilon_one_run_fdp(
        1 - confidence, delta, threshold_strategy=auditing.Explicit(0.5)
    )
    return float(found)


def available() -> bool:
    """Whether jax-privacy is installed."""
    from importlib.util import find_spec

    return find_spec("jax_privacy") is not None


def _auditing():
    try:
        from jax_privacy import auditing
    except ImportError as error:
        raise ImportError(
            "the bound 'one-run-f-dp' needs jax-privacy: pip install 'veilflow[audit]'. "
            "The bound 'one-run' needs nothing."
        ) from error
    return auditing
