"""Bounds from noisy counts: as ever where records are plenty, with care where they are few."""

import numpy as np
import pytest

from veilflow.releases.rounds.lengths import read_counts, read_few
from veilflow.releases.rounds.statistics import BINS, SENSITIVITY, bin_tops

SHAPE = np.array([0.01, 0.03, 0.06, 0.1, 0.15, 0.2, 0.2, 0.13, 0.07, 0.03, 0.02])
FIRST = 70


def counts(number, noise, seed=0, silent=0):
    drawn = np.random.default_rng(seed).normal(0, noise * SENSITIVITY, (2, BINS))
    drawn[:, FIRST : FIRST + len(SHAPE)] += number * SHAPE
    drawn[:, 0] += silent
    return drawn


def by_certain_bins(noisy, noise):
    """The rule for plenty of records, in other words: 0.98 of what is in bins above 4.5 deviations."""
    bounds, totals = [], []
    for row in noisy:
        certain = {i: n for i, n in enumerate(row) if n > max(4.5 * noise * SENSITIVITY, 0.5)}
        totals.append(sum(certain.values()))
        inside, whole = 0.0, sum(n for i, n in certain.items() if i)
        for i, n in certain.items():
            inside += n if i else 0.0
            if i and inside >= 0.98 * whole:
                bounds.append(bin_tops()[i])
                break
    return tuple(bounds), np.mean(totals)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize(("number", "noise"), [(6_000, 40.0), (2_000, 5.0), (300, 0.0)])
def test_plenty_of_records_are_bound_by_their_certain_bins(number, noise, seed):
    noisy = counts(number, noise, seed, silent=number)
    found = read_counts(noisy, noise)
    bounds, total = by_certain_bins(noisy, noise)
    assert not found.few
    assert found.bounds == bounds
    assert found.num_records == pytest.approx(total)


@pytest.mark.parametrize("seed", range(10))
def test_few_records_are_found_together_and_are_not_cut(seed):
    noisy = counts(1_500, 40.0, seed)
    found = read_counts(noisy, 40.0)
    assert found.few
    assert found.significant
    longest = bin_tops()[FIRST + len(SHAPE) - 1]
    # nine tenths at least are below the bound of gradients, and it is not far above the longest
    assert bin_tops()[FIRST + 7] <= found.bounds[0] <= 8 * longest
    assert bin_tops()[FIRST + 5] <= found.bounds[1] <= 4 * longest
    assert found.num_records == pytest.approx(1_500, rel=0.4)


def test_counts_that_are_averaged_tell_of_fewer_records():
    several = [counts(400, 40.0, seed) for seed in range(8)]
    assert not any(read_counts(one, 40.0).significant for one in several)
    assert read_few(np.mean(several, axis=0), 40.0 / 8**0.5).significant


def test_noise_alone_tells_nothing():
    found = [read_counts(counts(0, 10.0, seed), 10.0) for seed in range(50)]
    assert sum(one.significant for one in found) == 0
    assert all(one.few for one in found)
    assert not read_counts(np.zeros((2, BINS)), 0.0).significant


def test_one_significant_row_does_not_make_the_other_so():
    noisy = counts(6_000, 40.0)
    noisy[1] = counts(0, 40.0, seed=1)[1]
    found = read_counts(noisy, 40.0)
    assert not found.significant
    assert np.isfinite(found.bounds[0])
