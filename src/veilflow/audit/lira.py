"""Membership inference with shadow models: the likelihood ratio of a row's score with and without it.

After Carlini et al., "Membership inference attacks from first principles" (2022). The attacker fits
models of the same kind on other data, half of them with a given row and half without, and compares how
likely the released model's score is under either. It is the strongest black-box attack, and the most
expensive: every shadow model is a fit.
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
    """The scores of rows under shadow models."""

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

    All halves have the same length, or one of two lengths if the number of rows is odd, so code that is
    compiled for a number of rows is compiled at most twice.

    Args:
        fit: Fits a model with `log_prob` to rows with a seed, by the settings of the release.
        rows: The rows to attack, as an array. Every row is in half of the shadows.
        num_shadows: Number of shadow models, even.
        seed: Seed of the halves and fits.
    """
    check.count(num_shadows=num_shadows, at_least=4)
    if num_shadows % 2:
        raise ValueError(f"num_shadows must be even, got {num_shadows}.")
    rng = np.random.default_rng(seed)
    # complementary halves: each row is in as often as out
    first = np.arange(len(rows)) < (len(rows) + 1) // 2
    halves = np.stack([rng.permutation(first) for _ in range(num_shadows // 2)])
    inside = np.stack([halves, ~halves], axis=1).reshape(num_shadows, len(rows))
    seeds = rng.integers(2**31, size=num_shadows)
    fitted = [fit(rows[mask], int(number)) for mask, number in zip(inside, seeds, strict=True)]
    return Shadows(np.stack([log_prob(model, rows) for model in fitted]), inside)


def lira_scores(
    released: Float[np.ndarray, " rows"], shadows: Shadows
) -> Float[np.ndarray, " rows"]:
    """Log-likelihood ratio of the released model's score of each row: with the row over without it."""
    scores = np.clip(shadows.scores, -1e6, 1e6)
    released = np.clip(released, -1e6, 1e6)
    log_likelihoods = []
    for inside in (True, False):
        mask = shadows.inside == inside
        number = np.maximum(mask.sum(axis=0), 1)
        mean = np.where(mask, scores, 0).sum(axis=0) / number
        deviations = np.where(mask, scores - mean, 0)
        # few shadows determine the spread of one row badly: it is pooled over all rows
        spread = max(float(np.sqrt(np.mean(np.sum(deviations**2, axis=0) / number))), _LEAST_SPREAD)
        log_likelihoods.append(-0.5 * ((released - mean) / spread) ** 2 - np.log(spread))
    return log_likelihoods[0] - log_likelihoods[1]


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
        rows: The rows of the shadows, in the same order.
        member: Which of them the released model was fitted on, each by a fair coin.
        shadows: From `fit_shadows`.
        guesses: As for `membership.audit`.
        confidence: Confidence of the bound.
        seed: Seed of the order among equal scores.
    """
    scores = lira_scores(log_prob(model, rows), shadows)
    settings = {"guesses": guesses, "confidence": confidence, "seed": seed}
    return from_guarantee(model, scores, member, method="shadow model", **settings)
