"""Posteriors from several synthetic data sets, combined by the usual rules."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float


def combine_posteriors(
    means: Sequence[Float[np.ndarray, " dim"]],
    covariances: Sequence[Float[np.ndarray, "dim dim"]],
) -> tuple[Float[np.ndarray, " dim"], Float[np.ndarray, "dim dim"]]:
    """Mean and covariance over posteriors that were each computed from a synthetic set.

    Within and between add up, the latter with a correction for how few sets there are: W + (1 + 1/m) B,
    Rubin's rule. It is right where sets are independent draws given the same records, as from
    generators that were each fitted with a part of the budget: B then holds the noise, too. Sets that
    one generator drew share its noise: B knows nothing of that, and the result is too narrow.

    Args:
        means: Of each posterior, at least two.
        covariances: Of each.

    References:
        Rubin, "Multiple imputation for nonresponse in surveys", 1987; Raghunathan, Reiter, Rubin,
        "Multiple imputation for statistical disclosure limitation", 2003.
    """
    if len(means) != len(covariances) or len(means) < 2:
        raise ValueError(
            f"there must be as many means as covariances, at least two, got {len(means)} and "
            f"{len(covariances)}."
        )
    each = np.stack([np.asarray(mean, np.float64) for mean in means])
    between = np.atleast_2d(np.cov(each.T))
    within = np.mean([np.asarray(c, np.float64) for c in covariances], axis=0)
    return each.mean(axis=0), within + (1 + 1 / len(each)) * between
