"""From scores to guesses to a bound: what all attacks share.

An attack gives every record a score that is higher if the record seems to be a member. The records with
the highest scores are guessed to be members and those with the lowest not to be, no guess is made about
the others, and the correct guesses are counted.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float

from veilflow._core import check
from veilflow.audit import bounds
from veilflow.audit.result import AuditResult

BOUNDS = ("one-run", "one-run-f-dp")

COINS = "whether a record was in was decided by a fair coin of its own, apart from everything else"

_SHARES = (0.05, 0.1, 0.2, 0.5)
"""Shares of the records about which guesses are made by default."""


def from_scores(
    scores: Float[np.ndarray, " records"],
    member: Bool[np.ndarray, " records"],
    *,
    method: str,
    delta: float,
    claimed: float,
    confidence: float = 0.95,
    guesses: int | None = None,
    bound: str = "one-run",
    internal: bool,
    assumptions: Sequence[str] = (),
    seed: int = 0,
) -> AuditResult:
    """What the scores of one run say about epsilon.

    Args:
        scores: One per record, higher if it seems to be a member.
        member: Whether it is a member.
        method: The name of the attack.
        delta: Delta of the claim.
        claimed: The epsilon that was claimed.
        confidence: Confidence of the bound.
        guesses: Number of records to make a guess about, fixed before `member` is known. None tries a
            few numbers, each with its share of the allowed error probability.
        bound: One of `BOUNDS`.
        internal: Whether private rows were read.
        assumptions: Further assumptions of the bound, besides the coins.
        seed: For the order among records with the same score.
    """
    check.one_of(BOUNDS, bound=bound)
    scores, member = np.asarray(scores, float), np.asarray(member, bool)
    if scores.ndim != 1 or scores.shape != member.shape:
        raise ValueError(
            f"there must be one score and one membership per record, got {scores.shape} and "
            f"{member.shape}."
        )
    if not member.any() or member.all():
        raise ValueError("an audit needs records that were in and records that were not.")
    number = len(scores)
    tries = [guesses] if guesses is not None else [max(1, round(s * number)) for s in _SHARES]
    check.count(guesses=min(tries))
    if max(tries) > number:
        raise ValueError(f"guesses must be at most the {number} records, got {max(tries)}.")
    each = 1 - (1 - confidence) / len(tries)
    results = []
    for count in tries:
        correct = correct_guesses(scores, member, count, seed=seed)
        counts = {"correct": correct, "guesses": count, "canaries": number}
        bound_of = bounds.one_run if bound == "one-run" else bounds.one_run_f_dp
        results.append((bound_of(**counts, delta=delta, confidence=each), counts))
    best, counts = max(results, key=lambda pair: pair[0])
    curve = (bounds.CURVE,) if bound == "one-run-f-dp" else ()
    return AuditResult(
        method=method,
        bound=bound,
        lower_bound=best,
        confidence=confidence,
        delta=delta,
        claimed=claimed,
        counts={**counts, "members": int(member.sum())},
        scores={"auc": auc(scores, member)},
        internal=internal,
        assumptions=(COINS, *curve, *assumptions),
    )


def correct_guesses(
    scores: Float[np.ndarray, " records"],
    member: Bool[np.ndarray, " records"],
    guesses: int,
    *,
    seed: int = 0,
) -> int:
    """Number of correct guesses, if the upper half is guessed to be in and the lower half out."""
    scores = np.nan_to_num(np.asarray(scores, float), nan=-np.inf, posinf=np.inf, neginf=-np.inf)
    # equal scores in random order: the order of the rows may itself reveal members
    order = np.lexsort((np.random.default_rng(seed).random(len(scores)), scores))
    upper = (guesses + 1) // 2
    inside, outside = order[len(order) - upper :], order[: guesses - upper]
    return int(member[inside].sum() + (~member[outside]).sum())


def auc(scores: Float[np.ndarray, " records"], member: Bool[np.ndarray, " records"]) -> float:
    """The probability that a member has a higher score than a non-member."""
    from scipy.stats import rankdata

    ranks = rankdata(np.nan_to_num(scores, nan=-np.inf, posinf=np.inf, neginf=-np.inf))
    inside, outside = int(member.sum()), int((~member).sum())
    return float((ranks[member].sum() - inside * (inside + 1) / 2) / (inside * outside))
