"""What histograms of single columns settle: how many records, which codes are told apart.

Everything here is post-processing of one release.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from veilflow.releases.marginals.codes import Merging, num_groups, without_rare
from veilflow.releases.marginals.inference import Table
from veilflow.releases.marginals.model import Spread

_RARE = 3.0
"""Codes with fewer records than so many standard deviations of noise are not told apart."""
_WIDE = 2.0
"""Prior standard deviation of a histogram's weights: hardly a limit."""

Counts = Float[np.ndarray, " codes"]


class Settled(NamedTuple):
    """What is known about single columns."""

    num_records: float
    spreads: tuple[Spread, ...]
    merging: Merging
    tables: tuple[Table, ...]


def settled(
    noisy: Sequence[Counts],
    noise_stddevs: Sequence[float],
    *,
    ordered: Sequence[bool],
    num_records: int | None,
) -> Settled:
    """What noisy histograms say, each with its own noise; `num_records` if it was declared."""
    total = float(num_records or _estimated(noisy, noise_stddevs))
    spreads, masses, tables = [], [], []
    for column, (counts, noise) in enumerate(zip(noisy, noise_stddevs, strict=True)):
        mass = nearest_masses(counts, total)
        groups = without_rare(mass, least=_RARE * noise, ordered=ordered[column])
        spreads.append(Spread.of(groups, mass))
        merged = np.bincount(groups, mass)
        masses.append(merged / merged.sum())
        variance = noise**2 * np.bincount(groups) + 1.0
        summed = np.bincount(groups, counts)
        held = variance / np.maximum(summed, np.sqrt(variance)) / _WIDE**2
        tables.append(Table((column,), (np.arange(num_groups(groups)),), summed, held))
    return Settled(total, tuple(spreads), Merging.of(masses, ordered), tuple(tables))


def nearest_masses(counts: Counts, total: float) -> Counts:
    """The nearest vector, in L2, of numbers of at least 0 that sum to `total`."""
    falling = np.sort(counts)[::-1]
    excess = (np.cumsum(falling) - total) / np.arange(1, len(counts) + 1)
    last = np.flatnonzero(falling > excess)[-1]
    return np.maximum(counts - excess[last], 0.0)


def _estimated(noisy: Sequence[Counts], noise_stddevs: Sequence[float]) -> float:
    """The number of records that all histograms together speak for; at least 1."""
    sums = np.array([counts.sum() for counts in noisy])
    variances = [noise**2 * len(c) + 1e-9 for noise, c in zip(noise_stddevs, noisy, strict=True)]
    return max(1.0, float(np.average(sums, weights=1 / np.array(variances))))
