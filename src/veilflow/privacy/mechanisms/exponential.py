"""The exponential mechanism: a private choice of the candidate with the highest utility."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from veilflow._core import check
from veilflow.privacy.events import ExponentialMechanism
from veilflow.privacy.guarantees import Released, Sensitive
from veilflow.privacy.mechanisms import _opendp
from veilflow.privacy.unit import Adjacency

_LARGEST = 1e300


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
        arithmetic). Rests on the declared `sensitivity`, which must hold for the utilities as
        floats, after non-finite ones were replaced by `lowest`.

    Args:
        utilities: One number per candidate; or records, together with `utility_fn`.
        sensitivity: How far adding or removing one record moves any utility, at most. For
            replace-one, twice this is used.
        epsilon: Privacy parameter of this one choice.
        utility_fn: Computes the utilities from the records, behind the door.
        monotonic: A further record moves all utilities in one direction (counts do): half the noise
            is enough. For add/remove only.
        lowest: Public value that NaN and minus infinity count as.
        adjacency: The neighboring relation the guarantee is stated for.

    Returns:
        The index of the chosen candidate with its event.

    Raises:
        ValueError: If there is no candidate or a public argument is out of range.
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
