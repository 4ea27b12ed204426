"""A kernelized Stein discrepancy: do draws fit the gradient of a target's log-density?

Plain numbers in, plain numbers out. Where the target was made from records, so are these numbers.
"""

import numpy as np
from jaxtyping import Float

_BOOTSTRAPS = 500


def stein_discrepancy(
    thetas: Float[np.ndarray, "num dim"],
    scores: Float[np.ndarray, "num dim"],
    *,
    rng: np.random.Generator,
) -> tuple[float, float]:
    """Discrepancy by an inverse multiquadric kernel on rescaled coordinates, with a bootstrap.

    Args:
        thetas: Independent draws.
        scores: Gradients of the target's log-density at them.
        rng: Generator of the bootstrap.

    Returns:
        The squared discrepancy, unbiased, and the share of bootstrapped ones that are larger.

    References:
        Liu, Lee, Jordan, "A kernelized Stein discrepancy for goodness-of-fit tests", 2016. Gorham,
        Mackey, "Measuring sample quality with kernels", 2017.
    """
    num, dim = thetas.shape
    # the law of large numbers holds for any fixed scales; these make all coordinates count
    scales = np.maximum(thetas.std(axis=0), 1e-12)
    x, s = thetas / scales, scores * scales
    norms = np.square(x).sum(axis=1)
    squared = np.maximum(norms[:, None] + norms - 2 * x @ x.T, 0)
    apart = ~np.eye(num, dtype=bool)
    q = squared + np.median(squared[apart])
    sx = s @ x.T
    along = np.diag(sx)[:, None] - sx - sx.T + np.diag(sx)
    kernel = (s @ s.T) * q**-0.5 + along * q**-1.5 + dim * q**-1.5 - 3 * squared * q**-2.5
    kernel = np.where(apart, kernel, 0)
    found = kernel.sum() / (num * (num - 1))
    shares = rng.multinomial(num, np.full(num, 1 / num), size=_BOOTSTRAPS) / num - 1 / num
    nulls = np.einsum("bi,ij,bj->b", shares, kernel, shares, optimize=True)
    p_value = (1 + int(np.sum(nulls >= found))) / (1 + _BOOTSTRAPS)
    return float(found), p_value
