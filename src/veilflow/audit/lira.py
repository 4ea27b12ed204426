"""Membership inference with shadow models: how does this row's score look with it, and without?

After Carlini et al., "Membership inference attacks from first principles" (2022). The attacker fits
models of the same kind on data of their own, half of them with a row in question and half without, and
compares how likely the released model's score is under either. The strongest attack from outside, and
the dearest: every shadow is a fit.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from veilflow._core import check
from veilflow.audit.membership import from_guarantee, log_prob
from veilflow.audit.result import AuditResult

_LEAST_SPREAD = 1e-6


@dataclass(frozen=True)
class Shadows:
    """The scores of some rows under shadow models."""

    scores: Float[np.ndarray, "shadows rows"]
    inside: Bool[np.ndarray, "shadows rows"]
    """Whether the shadow was fitted on the row."""


def fit_shadows(
    fit: Callable[[Float[np.ndarray, "some dim"], int], Any],
    rows: Float[np.ndarray, "rows dim"],
    *,
    num_shadows: int = 16,
    seed: int = 0,
) -> Shadows:
    """Fit shadow models, each on a random half of the rows.

    All halves are of one length, or of two where the number of rows is odd: whatever is compiled for
    a number of rows is compiled once or twice, and not for every shadow.

    Args:
        fit: From rows and a seed to a fitted model with `log_prob`, by the settings of the release.
        rows: The rows to attack, as an array. Every row is in half of the shadows.
        num_shadows: How many; an even number.
        seed: Of the halves and fits.
    """
    check.count(num_shadows=num_shadows, at_least=4)
    if num_shadows % 2:
        raise ValueError(f"num_shadows must be even, got {num_shadows}.")
    rng = np.random.default_rng(seed)
    # a half and its other half: each row is in as often as out
    first = np.arange(len(rows)) < (len(rows) + 1) // 2
    halves = np.stack([rng.permutation(first) for _ in range(num_shadows // 2)])
    inside = np.stack([halves, ~halves], axis=1).reshape(num_shadows, len(rows))
    seeds = rng.integers(2**31, size=num_shadows)
    fitted = [fit(rows[mask], int(number)) for mask, number in zip(inside, seeds, strict=True)]
    return Shadows(np.stack([log_prob(model, rows) for model in fitted]), inside)


def lira_scores(
    released: Float[np.ndarray, " rows"], shadows: Shadows
) -> Float[np.ndarray, " rows"]:
    """How much likelier the released model's score of each row is with the row than without."""
    scores = np.clip(shadows.scores, -1e6, 1e6)
    released = np.clip(released, -1e6, 1e6)
    found = []
    for inside in (True, False):
        mask = shadows.inside == inside
        number = np.maximum(mask.sum(axis=0), 1)
        mean = np.where(mask, scores, 0).sum(axis=0) / number
        off = np.where(mask, scores - mean, 0)
        # a few shadows say little about the spread of one row: all rows have it in common
        spread = max(float(np.sqrt(np.mean(np.sum(off**2, axis=0) / number))), _LEAST_SPREAD)
        found.append(-0.5 * ((released - mean) / spread) ** 2 - np.log(spread))
    return found[0] - found[1]


def audit_with_shadows(
    model: Any,
    rows: Float[np.ndarray, "rows dim"],
    member: Bool[np.ndarray, " rows"],
    shadows: Shadows,
    *,
    guesses: int | None = None,
    confidence: float = 0.95,
    seed: int = 0,
) -> AuditResult:
    """Attack a released model with shadow models.

    Args:
        model: The released model.
        rows: The rows that the shadows were fitted for, in that order.
        member: Which of them the released model was fitted on: each by a fair coin.
        shadows: From `fit_shadows`.
        guesses: As for `membership.audit`.
        confidence: Of the bound.
        seed: For the order among equal scores.
    """
    scores = lira_scores(log_prob(model, rows), shadows)
    return from_guarantee(
        model,
        scores,
        member,
        method="shadow model",
        guesses=guesses,
        confidence=confidence,
        seed=seed,
    )
