"""Clipping bounds from noisy counts of lengths: above the longest, with few records and with many."""

import numpy as np
import pytest

from veilflow.releases.rounds.lengths import nearly_longest, read_counts
from veilflow.releases.rounds.statistics import BINS, SENSITIVITY, bin_tops

SHAPE = np.array([0.01, 0.03, 0.06, 0.1, 0.15, 0.2, 0.2, 0.13, 0.07, 0.03, 0.02])
FIRST = 70


def counts(number, noise, seed=0, silent=0):
    drawn = np.random.default_rng(seed).normal(0, noise * SENSITIVITY, (2, BINS))
    drawn[:, FIRST : FIRST + len(SHAPE)] += number * SHAPE
    drawn[:, 0] += silent
    return drawn


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize(("number", "noise"), [(6_000, 40.0), (2_000, 5.0), (300, 0.0)])
def test_plenty_of_records_are_not_cut_either(number, noise, seed):
    noisy = counts(number, noise, seed, silent=number)
    found = read_counts(noisy, noise)
    assert not found.few
    top = bin_tops()[FIRST + len(SHAPE) - 1]
    # a share of two percent would be a bias of many deviations: gradients are below the bound, all of
    # them, and the noise is not that of some bin far off
    assert top <= found.bounds[0] <= 4 * top
    assert bin_tops()[FIRST + 6] <= found.bounds[1] <= 2 * top
    assert found.num_records == pytest.approx(2 * number, rel=0.15)


def test_without_noise_the_bounds_are_above_the_longest_lengths():
    found = read_counts(counts(300, 0.0), 0.0)
    top = bin_tops()[FIRST + len(SHAPE) - 1]
    assert found.bounds == (2 * top, top)
    # 0.98 of the lengths, which leaves out the last of the bins
    assert found.rough == (top / 2**0.5, top / 2**0.5)


@pytest.mark.parametrize("seed", range(10))
def test_few_records_are_found_together_and_are_not_cut(seed):
    noisy = counts(1_500, 40.0, seed)
    found = read_counts(noisy, 40.0)
    assert found.few
    assert found.significant
    top = bin_tops()[FIRST + len(SHAPE) - 1]
    # nine tenths at least are below the bound of gradients, and it is not far above the longest
    assert bin_tops()[FIRST + 7] <= found.bounds[0] <= 8 * top
    assert bin_tops()[FIRST + 5] <= found.bounds[1] <= 4 * top
    assert found.num_records == pytest.approx(1_500, rel=0.4)


def test_counts_that_are_averaged_tell_of_fewer_records():
    several = [counts(400, 40.0, seed) for seed in range(8)]
    assert not any(read_counts(one, 40.0).significant for one in several)
    assert read_counts(np.mean(several, axis=0), 40.0 / 8**0.5).significant


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


def test_a_count_of_one_part_is_read_with_the_noise_of_one_part():
    row = np.zeros(BINS)
    row[90] = 4.5 * 10.0 + 1
    assert nearly_longest(row, 10.0) == bin_tops()[90]
    assert nearly_longest(row, 20.0) == np.inf
