"""From scores to guesses to a bound: the part that all attacks have in common.

An attack gives every record a score, higher where it thinks that the record was in. Here the highest
are guessed to be in and the lowest to be out, the rest is left open, and the right guesses are counted.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float

from veilflow._core import check
from veilflow.audit import bounds, f_dp
from veilflow.audit.result import AuditResult

BOUNDS = ("one-run", "one-run-f-dp")

COINS = "whether a record was in was decided by a fair coin of its own, apart from everything else"

_SHARES = (0.05, 0.1, 0.2, 0.5)
"""Shares of all records that guesses are made about, if nobody says how many."""


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
        scores: One a record, higher where the attack thinks it was in.
        member: Whether it was.
        method: The name of the attack.
        delta: Of the claim.
        claimed: The epsilon that was claimed.
        confidence: Of the bound.
        guesses: How many records to make a guess about, fixed before `member` is known. None tries a
            few numbers and pays for the choice with a share of the confidence each.
        bound: One of `BOUNDS`.
        internal: Whether private rows were read.
        assumptions: What the bound rests on, besides the coins.
        seed: For the order among records with the same score.
    """
    check.one_of(BOUNDS, bound=bound)
    scores, member = np.asarray(scores, float), np.asarray(member, bool)
    if scores.ndim != 1 or scores.shape != member.shape:
        raise ValueError(
            f"there must be one score and one membership a record, got {scores.shape} and "
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
    found = []
    for count in tries:
        correct = right_guesses(scores, member, count, seed=seed)
        counts = {"correct": correct, "guesses": count, "canaries": number}
        of_counts = bounds.one_run if bound == "one-run" else f_dp.one_run_f_dp
        found.append((of_counts(**counts, delta=delta, confidence=each), counts))
    best, counts = max(found, key=lambda pair: pair[0])
    also = (f_dp.ASSUMPTION,) if bound == "one-run-f-dp" else ()
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
        assumptions=(COINS, *also, *assumptions),
    )


def right_guesses(
    scores: Float[np.ndarray, " records"],
    member: Bool[np.ndarray, " records"],
    guesses: int,
    *,
    seed: int = 0,
) -> int:
    """How many of `guesses` are right: the upper half guessed in, the lower half out."""
    scores = np.nan_to_num(np.asarray(scores, float), nan=-np.inf, posinf=np.inf, neginf=-np.inf)
    # equal scores in random order: the order of the rows may itself tell who was in
    order = np.lexsort((np.random.default_rng(seed).random(len(scores)), scores))
    upper = (guesses + 1) // 2
    inside, outside = order[len(order) - upper :], order[: guesses - upper]
    return int(member[inside].sum() + (~member[outside]).sum())


def auc(scores: Float[np.ndarray, " records"], member: Bool[np.ndarray, " records"]) -> float:
    """The chance that a record that was in has a higher score than one that was not."""
    from scipy.stats import rankdata

    ranks = rankdata(np.nan_to_num(scores, nan=-np.inf, posinf=np.inf, neginf=-np.inf))
    inside, outside = int(member.sum()), int((~member).sum())
    return float((ranks[member].sum() - inside * (inside + 1) / 2) / (inside * outside))
