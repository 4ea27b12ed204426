"""Private quantiles: the exponential mechanism on ranks, over public candidate points."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from veilflow._core import check
from veilflow.privacy.events import Event, ExponentialMechanism, Repeated
from veilflow.privacy.guarantees import Released, Sensitive
from veilflow.privacy.mechanisms import _opendp
from veilflow.privacy.mechanisms._records import check_bounds, clamped
from veilflow.privacy.unit import Adjacency

_RESOLUTION = 2**20  # probabilities are rounded to this many parts, so that utilities are integers


def quantile(
    values: Sensitive[Any],
    *,
    probability: float,
    lower: float,
    upper: float,
    epsilon: float,
    num_candidates: int = 4096,
    default: float | None = None,
    adjacency: Adjacency = Adjacency.ADD_REMOVE,
) -> Released[float]:
    """Release one quantile of a column with public bounds; see `quantiles`.

    Guarantee:
        epsilon-bounded-range, hence epsilon-DP.

    Args:
        values: One number per record.
        probability: Which quantile, from 0 to 1.
        lower: Public lower bound.
        upper: Public upper bound.
        epsilon: Privacy parameter of this one release.
        num_candidates: Points of the even grid between the bounds to choose from.
        default: What a non-number counts as; the middle unless given.
        adjacency: The neighboring relation the guarantee is stated for.

    Returns:
        A candidate point with its event.
    """
    released = quantiles(
        values,
        probabilities=(probability,),
        lower=lower,
        upper=upper,
        epsilon=epsilon,
        num_candidates=num_candidates,
        default=default,
        adjacency=adjacency,
    )
    return released.map(lambda points: float(points[0]))


def quantiles(
    values: Sensitive[Any],
    *,
    probabilities: Sequence[float],
    lower: float,
    upper: float,
    epsilon: float,
    num_candidates: int = 4096,
    default: float | None = None,
    adjacency: Adjacency = Adjacency.ADD_REMOVE,
) -> Released[np.ndarray]:
    """Release several quantiles of a column with public bounds.

    Guarantee:
        epsilon-DP in all: each quantile is an exponential mechanism with an equal share of epsilon,
        drawn exactly on integer utilities. With `m` candidates, a quantile is off by more than
        `2 k (log(m) + t) / epsilon` ranks with probability at most exp(-t), k being the number of
        quantiles.

    Args:
        values: One number per record; values outside the bounds count as the bound.
        probabilities: Which quantiles, each from 0 to 1.
        lower: Public lower bound.
        upper: Public upper bound.
        epsilon: Privacy parameter of all quantiles together.
        num_candidates: Points of the even grid between the bounds to choose from.
        default: What a non-number counts as; the middle unless given.
        adjacency: The neighboring relation the guarantee is stated for.

    Returns:
        Points within the bounds, in the order of `probabilities` and increasing with them.

    Raises:
        ValueError: If a public argument is out of range.
    """
    check_bounds(lower, upper)
    check.count(num_candidates=num_candidates, at_least=2)
    # convex weights cannot leave the bounds through rounding by more than the clip takes back
    candidates = np.clip(np.linspace(lower, upper, num_candidates), lower, upper)
    numbers = clamped(values, lower=lower, upper=upper, default=default)
    return choose_quantiles(
        numbers, candidates, probabilities=probabilities, epsilon=epsilon, adjacency=adjacency
    )


def choose_quantiles(
    numbers: np.ndarray,
    candidates: np.ndarray,
    *,
    probabilities: Sequence[float],
    epsilon: float,
    adjacency: Adjacency,
) -> Released[np.ndarray]:
    """Quantiles of clean numbers among sorted public candidates, epsilon split evenly."""
    check.positive(epsilon=epsilon)
    wanted = [_parts(probability) for probability in probabilities]
    check.count(num_probabilities=len(wanted))
    share = epsilon / len(wanted)
    ordered = np.sort(numbers)
    below = np.searchsorted(ordered, candidates, side="left").astype(np.int64)
    above = ordered.size - np.searchsorted(ordered, candidates, side="right").astype(np.int64)
    points: list[float] = []
    for parts in wanted:
        rest = _RESOLUTION - parts
        # Zero at a point with `probability` of the records below. A record moves it by `rest` or
        # `parts`; one that jumps from below to above, by their sum.
        utility = -np.abs(rest * below - parts * above)
        sensitivity = _RESOLUTION if adjacency is Adjacency.REPLACE_ONE else max(rest, parts)
        scale = _opendp.scale_for(2 * sensitivity / Fraction(share))
        points.append(candidates[_opendp.noisy_argmax(utility.tolist(), scale=scale)])
    # Sorting the answers into the order of the questions is post-processing.
    released = np.empty(len(points))
    released[np.argsort(wanted, kind="stable")] = np.sort(points)
    event: Event = ExponentialMechanism(share)
    return Released(released, Repeated(len(points), event) if len(points) > 1 else event)


def _parts(probability: float) -> int:
    check.nonnegative(probability=probability)
    if probability > 1:
        raise ValueError(f"probability must be at most 1, got {probability}.")
    return round(probability * _RESOLUTION)
