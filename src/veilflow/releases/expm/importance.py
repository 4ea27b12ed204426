"""Importance weights of draws from a flow: how far from equal they are, and how heavy their tail is.

A weight is the density of the target over that of the flow, at a draw from the flow. If the flow is the
target, all weights are equal. Plain numbers in, plain numbers out; where the target was made from
records, so are these numbers.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

_LARGE_DISTANCE = 0.1
"""Total variation from which a flow is bad."""
_LARGE_K = 0.7
"""Pareto-k above which means of weights are not to be believed (Vehtari and others, 2024)."""
_LARGE_TAIL = 0.05
"""Share of all weight that may be in a tail with such a k."""
_PULL = 10
"""Weights in the tail that the pull of Pareto-k to 1/2 counts for."""


@dataclass(frozen=True, kw_only=True)
class Importance:
    """What the importance weights of draws from a flow say about it.

    They see where the flow has mass. A part of the target that the flow leaves out altogether shows
    in none of them.

    Attributes:
        total_variation: Estimated distance between flow and target: half the mean distance of weights
            from their mean. It needs no square of a weight, so a few large ones hardly move it.
        effective_share: Effective sample size over the number of draws: 1 for equal weights. It falls
            with the square of the largest weight, and for a thin tail differs much between draws.
        pareto_k: Shape of the tail of the weights: above 0.7 their mean converges too slowly to be
            trusted. It is the same for weights w and 1 + c (w - 1), so alone it says nothing about the
            flow: weights that hardly vary may have any.
        tail_share: How much the largest weights, to which the tail was fitted, exceed the next one, as
            a share of all weight: what a large `pareto_k` concerns.
        log_z: Log mean weight: an estimate of the log of the target's normalizing constant.
        mean_log: Mean log weight. Its distance below the constant is the divergence of the flow.
    """

    total_variation: float
    effective_share: float
    pareto_k: float
    tail_share: float
    log_z: float
    mean_log: float

    @property
    def objections(self) -> tuple[str, ...]:
        """What speaks against the flow. No objection proves nothing."""
        return tuple(self._objections())

    def _objections(self) -> Iterator[str]:
        if not self.total_variation <= _LARGE_DISTANCE:
            yield f"total_variation {self.total_variation:.3f} is above {_LARGE_DISTANCE}"
        if not (self.pareto_k <= _LARGE_K or self.tail_share <= _LARGE_TAIL):
            yield (
                f"pareto_k {self.pareto_k:.2f} is above {_LARGE_K}, in a tail with "
                f"{self.tail_share:.3f} of all weight, above {_LARGE_TAIL}"
            )


def importance(log_weights: Float[np.ndarray, " num"]) -> Importance:
    """Distance, effective sample size, tail and constant from log weights of draws from the flow.

    Args:
        log_weights: Log density of the target, unnormalized, minus that of the flow.
    """
    top = float(log_weights.max())
    weights = np.exp(log_weights - top)
    mean = float(weights.mean())
    shape, share = pareto_tail(weights)
    return Importance(
        total_variation=float(0.5 * np.abs(weights / mean - 1).mean()),
        effective_share=mean**2 / float(np.square(weights).mean()),
        pareto_k=shape,
        tail_share=share,
        log_z=top + math.log(mean),
        mean_log=float(log_weights.mean()),
    )


def pareto_tail(weights: Float[np.ndarray, " num"]) -> tuple[float, float]:
    """Shape of a generalized Pareto distribution fitted to the largest weights, and their excess.

    The fit of Zhang and Stephens (2009): a mean over candidates for the scale, each weighed by its
    profile likelihood; then the shape is drawn to 1/2 as if by ten more weights, as importance sampling
    does.

    Returns:
        The shape; and by how much the largest weights exceed the next one, as a share of all weight.
    """
    ordered = np.sort(weights)
    num = math.ceil(min(0.2 * len(ordered), 3 * math.sqrt(len(ordered))))
    excess = ordered[-num:] - ordered[-num - 1]
    if excess[-1] <= 1e-12 * ordered[-1]:  # all equal: no tail
        return -math.inf, 0.0
    share = float(excess.sum() / ordered.sum())
    excess = np.maximum(excess, 1e-12 * excess[-1])
    many = 30 + int(math.sqrt(num))
    quartile = excess[int(num / 4 + 0.5) - 1]
    steps = np.arange(1, many + 1)
    candidates = 1 / excess[-1] + (1 - np.sqrt(many / (steps - 0.5))) / (3 * quartile)
    shapes = np.mean(np.log1p(-candidates[:, None] * excess), axis=1)
    profile = num * (np.log(-candidates / shapes) - shapes - 1)
    likely = np.exp(profile - profile.max())
    best = float(np.sum(candidates * likely) / likely.sum())
    fitted = float(np.log1p(-best * excess).mean())
    return (num * fitted + 0.5 * _PULL) / (num + _PULL), share
