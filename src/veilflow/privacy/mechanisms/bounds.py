"""Private bounds for a column that nobody declared bounds for."""

import math
from typing import Any

import numpy as np

from veilflow._core import check
from veilflow.privacy.events import PureDP
from veilflow.privacy.guarantees import Released, Sensitive
from veilflow.privacy.mechanisms import _opendp
from veilflow.privacy.mechanisms._records import clamped
from veilflow.privacy.unit import Adjacency


def private_bounds(
    values: Sensitive[Any],
    *,
    epsilon: float,
    smallest: float = 2.0**-20,
    largest: float = 2.0**60,
    failure: float = 1e-6,
    adjacency: Adjacency = Adjacency.ADD_REMOVE,
) -> Released[tuple[float, float]]:
    """Release a lower and an upper bound that hold nearly all records, from a vast public range.

    Guarantee:
        epsilon-DP: a histogram over the powers of two between `smallest` and `largest`, positive
        and negative, with discrete Laplace noise; the rest is post-processing. The bounds are the
        outer edges of the outermost cells whose noisy count stands out of the noise, so they are
        rough (a factor of two) and ignore a few outliers; `quantiles` between them, also paid,
        sharpens them.

    Args:
        values: One number per record. NaN counts as zero, infinities as plus or minus `largest`.
        epsilon: Privacy parameter of both bounds together.
        smallest: Public magnitude below which numbers are as good as zero.
        largest: Public magnitude no honest record exceeds.
        failure: Probability that an empty cell passes for an occupied one and the bounds come
            out too wide. A cell needs about log(cells / failure) / epsilon records to be seen.
        adjacency: The neighboring relation the guarantee is stated for.

    Returns:
        `(lower, upper)` with lower < upper, and their event. Where no cell stands out, which is
        likely with few records, the whole public range.

    Raises:
        ValueError: If a public argument is out of range.
    """
    check.positive(epsilon=epsilon, smallest=smallest, largest=largest)
    check.fraction(failure=failure)
    if not smallest < largest:
        raise ValueError(f"smallest must be below largest, got {smallest} and {largest}.")
    exponents = range(math.floor(math.log2(smallest)), math.ceil(math.log2(largest)) + 1)
    if exponents[0] < -1000 or exponents[-1] > 1000:
        raise ValueError(f"magnitudes must be within 2^-1000 and 2^1000: {smallest}, {largest}.")
    powers = np.ldexp(1.0, np.array(exponents))
    edges = np.concatenate([-powers[::-1], powers])
    cells = edges.size - 1  # the middle one, from -smallest to smallest, holds zero
    numbers = clamped(values, lower=edges[0], upper=edges[-1], default=0.0)
    occupied = np.clip(np.searchsorted(edges, numbers, side="right") - 1, 0, cells - 1)
    noisy, scale = _opendp.add_discrete_laplace(
        np.bincount(occupied, minlength=cells).tolist(),
        sensitivity=2 if adjacency is Adjacency.REPLACE_ONE else 1,
        epsilon=epsilon,
    )
    seen = np.flatnonzero(np.array(noisy) > scale * math.log(cells / failure))
    first, last = (seen[0], seen[-1]) if seen.size else (0, cells - 1)
    return Released((float(edges[first]), float(edges[last + 1])), PureDP(epsilon))
