"""Private choices by the exponential mechanism: of a candidate by utility, of quantiles by rank."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from veilflow._core import check
from veilflow.privacy.events import Event, ExponentialMechanism, Repeated
from veilflow.privacy.guarantees import Released, Sensitive
from veilflow.privacy.mechanisms import _opendp
from veilflow.privacy.mechanisms._records import check_bounds, clamped
from veilflow.privacy.unit import Adjacency

_LARGEST = 1e300
_RESOLUTION = 2**20  # probabilities are rounded to this many parts, so that utilities are integers


def choose(
    utilities: Sensitive[Any],
    *,
    sensitivity: float,
    epsilon: float,
    utility_fn: Callable[[Any], Any] | None = None,
    monotonic: bool = False,
    lowest: float = -_LARGEST,
    adjacency: Adjacency = Adjacency.ADD_REMOVE,
) -> Released[int]:
    """Choose a candidate, with probability proportional to exp(epsilon utility / (2 sensitivity)).

    Guarantee:
        epsilon-bounded-range, hence epsilon-DP, drawn exactly (Gumbel noise in rational
        arithmetic). Assumes that the declared `sensitivity` holds for the utilities as floats, after
        non-finite ones have been replaced by `lowest`.

    Args:
        utilities: One number per candidate; or the records, together with `utility_fn`.
        sensitivity: The most that adding or removing one record moves any utility. For replace-one,
            twice this is used.
        epsilon: Privacy parameter of this choice.
        utility_fn: Computes the utilities from the records.
        monotonic: Whether a further record moves all utilities in one direction, as it does for
            counts; half the noise is then enough. For add/remove only.
        lowest: The public value that stands for NaN and minus infinity.
        adjacency: The neighboring relation the guarantee is stated for.

    Returns:
        The index of the chosen candidate, with its event.

    Raises:
        ValueError: There is no candidate, or a public argument is out of range.
    """
    check.positive(sensitivity=sensitivity, epsilon=epsilon)
    check.finite(lowest=lowest)
    check.instance(Sensitive, utilities=utilities)
    if monotonic and adjacency is Adjacency.REPLACE_ONE:
        raise ValueError(
            "monotonic holds for add/remove only: replacing a record can raise one utility and "
            "lower another. Leave it out."
        )
    opened = utilities.open()
    scores = np.asarray(opened if utility_fn is None else utility_fn(opened), dtype=np.float64)
    if scores.ndim != 1 or scores.size == 0:
        raise ValueError(f"utilities must be one number per candidate, got shape {scores.shape}.")
    scores = np.nan_to_num(scores, nan=lowest, posinf=_LARGEST, neginf=lowest)
    scores = np.clip(scores, lowest, _LARGEST)
    moved = Fraction(sensitivity) * (2 if adjacency is Adjacency.REPLACE_ONE else 1)
    scale = _opendp.scale_for(moved * (1 if monotonic else 2) / Fraction(epsilon))
    index = _opendp.noisy_argmax(scores.tolist(), scale=scale)
    return Released(index, ExponentialMechanism(epsilon))


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
        probability: The quantile, from 0 to 1.
        lower: Public lower bound.
        upper: Public upper bound.
        epsilon: Privacy parameter of this release.
        num_candidates: The number of evenly spaced points between the bounds to choose from.
        default: The value of records that are not numbers; by default the middle.
        adjacency: The neighboring relation the guarantee is stated for.

    Returns:
        A candidate point, with its event.
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
        epsilon-DP in total: each quantile is an exponential mechanism with an equal share of epsilon,
        drawn exactly on integer utilities. With `m` candidates and `k` quantiles, a quantile is off by
        more than `2 k (log(m) + t) / epsilon` ranks with probability at most exp(-t).

    Args:
        values: One number per record; values outside the bounds count as the bound.
        probabilities: The quantiles, each from 0 to 1.
        lower: Public lower bound.
        upper: Public upper bound.
        epsilon: Privacy parameter of all quantiles together.
        num_candidates: The number of evenly spaced points between the bounds to choose from.
        default: The value of records that are not numbers; by default the middle.
        adjacency: The neighboring relation the guarantee is stated for.

    Returns:
        Points within the bounds, in the order of `probabilities` and increasing with them.

    Raises:
        ValueError: A public argument is out of range.
    """
    check_bounds(lower, upper)
    check.count(num_candidates=num_candidates, at_least=2)
    # clipped, because rounding may carry the outer points beyond the bounds
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
    """Quantiles of clean numbers among sorted public candidates, with epsilon split evenly."""
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
        # Zero at a point with `probability` of the records below it. A record moves the utility by
        # `rest` or `parts`, and one that jumps from below to above by their sum.
        utility = -np.abs(rest * below - parts * above)
        sensitivity = _RESOLUTION if adjacency is Adjacency.REPLACE_ONE else max(rest, parts)
        scale = _opendp.scale_for(2 * sensitivity / Fraction(share))
        points.append(candidates[_opendp.noisy_argmax(utility.tolist(), scale=scale)])
    # Sorting the answers into the order of the probabilities is post-processing.
    released = np.empty(len(points))
    released[np.argsort(wanted, kind="stable")] = np.sort(points)
    event: Event = ExponentialMechanism(share)
    return Released(released, Repeated(len(points), event) if len(points) > 1 else event)


def _parts(probability: float) -> int:
    check.nonnegative(probability=probability)
    if probability > 1:
        raise ValueError(f"probability must be at most 1, got {probability}.")
    return round(probability * _RESOLUTION)
