"""Held-out log-likelihood: the mean log density a model gives to rows it was not fitted to.

The result is as private as the rows it is computed on.
"""

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np


class HasLogProb(Protocol):
    """Anything that answers one natural-log density per row."""

    def log_prob(self, rows: Any, /) -> Any:
        """The natural logarithm of the density at each row."""
        ...


@dataclass(frozen=True)
class LogLikelihood:
    """A mean log density. As private as the rows it was computed on.

    Attributes:
        mean: Over all rows; minus infinity if the model rules out a single one of them.
        standard_error: Standard error of the mean; NaN for one row or an infinite mean.
        num_rows: How many rows there were.
        num_impossible: How many of them have density zero. They are in `mean`.
        mean_of_possible: The mean over the other rows; NaN if there are none.
    """

    mean: float
    standard_error: float
    num_rows: int
    num_impossible: int
    mean_of_possible: float


def mean_log_likelihood(model: HasLogProb, rows: Any) -> LogLikelihood:
    """The mean log density of `rows` under `model`, with rows of density zero counted, not hidden.

    Args:
        model: Anything with `log_prob`.
        rows: Held-out rows. The result is as private as they are.

    Raises:
        ValueError: There are no rows, or a log density is NaN or plus infinity: the model is broken.
    """
    scores = np.asarray(model.log_prob(rows), dtype=np.float64)
    if scores.ndim != 1 or scores.size == 0:
        raise ValueError(
            f"log_prob must answer one number for each of at least one row, got shape {scores.shape}."
        )
    if np.isnan(scores).any() or (scores == math.inf).any():
        raise ValueError(
            "log_prob answered NaN or plus infinity for some rows: that is no density. Fit the "
            "model again, with a lower learning rate if training diverged."
        )
    possible = scores[scores > -math.inf]
    whole = len(possible) == len(scores)
    spread = possible.std(ddof=1) if whole and len(scores) > 1 else math.nan
    return LogLikelihood(
        mean=float(scores.mean()) if whole else -math.inf,
        standard_error=float(spread / math.sqrt(len(scores))),
        num_rows=len(scores),
        num_impossible=len(scores) - len(possible),
        mean_of_possible=float(possible.mean()) if possible.size else math.nan,
    )
