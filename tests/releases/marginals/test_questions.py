"""Questions: one row moves the answers by no more than is declared, whatever row it is."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from veilflow.releases.marginals.codes import Merging
from veilflow.releases.marginals.questions import (
    MISFIT,
    Tally,
    histograms,
    misfit_sensitivity,
    misfits,
    tables,
)

SIZES = (3, 7, 2, 11)
rows = st.lists(st.tuples(*(st.integers(0, size - 1) for size in SIZES)), max_size=12).map(
    lambda listed: np.array(listed, np.int32).reshape(-1, len(SIZES))
)
row = st.tuples(*(st.integers(0, size - 1) for size in SIZES))
seeds = st.integers(0, 100)


def merging(seed: int) -> Merging:
    rng = np.random.default_rng(seed)
    return Merging.of([rng.dirichlet(np.ones(size)) for size in SIZES], [True, False] * 2)


def queries(merged: Merging, cells: float):
    sets = [(0, 1), (1, 3), (0, 2, 3), (3, 1), (2,)]
    return [merged.query(columns, most_cells=cells) for columns in sets]


def neighbors(codes, new):
    return codes, np.concatenate([codes, np.array([new], np.int32)])


def replaced(codes, new):
    return np.concatenate([codes, codes[:1] * 0]), np.concatenate(
        [codes, np.array([new], np.int32)]
    )


@given(codes=rows, new=row)
@pytest.mark.parametrize(("pair", "times"), [(neighbors, 1), (replaced, 2)])
def test_histograms_move_by_their_clip_norm_at_most(pair, times, codes, new):
    one, two = (histograms(some, SIZES) for some in pair(codes, new))
    assert np.linalg.norm(one.total - two.total) <= times * one.clip_norm


@given(codes=rows, new=row, seed=seeds, cells=st.floats(1, 100))
@pytest.mark.parametrize(("pair", "times"), [(neighbors, 1), (replaced, 2)])
def test_tables_move_by_their_clip_norm_at_most(pair, times, codes, new, seed, cells):
    merged = merging(seed)
    asked = queries(merged, cells)
    one, two = (tables(Tally(some, merged), asked) for some in pair(codes, new))
    moved = np.linalg.norm(one.total - two.total)
    assert moved <= times * one.clip_norm
    if pair is neighbors:  # and the norm is not larger than it has to be
        assert moved > 0.999 * one.clip_norm


@given(codes=rows, new=row, seed=seeds, cells=st.floats(1, 100), scale=st.floats(0, 1e8))
@pytest.mark.parametrize(("pair", "times"), [(neighbors, 1), (replaced, 2)])
def test_misfits_move_by_their_sensitivity_at_most(pair, times, codes, new, seed, cells, scale):
    merged, rng = merging(seed), np.random.default_rng(seed)
    asked = queries(merged, cells)
    expected = [
        scale * rng.dirichlet(np.ones(Tally(codes, merged).counts(query).size)) for query in asked
    ]
    shaped = [
        e.reshape(Tally(codes, merged).counts(q).shape)
        for e, q in zip(expected, asked, strict=True)
    ]
    one, two = (misfits(Tally(some, merged), asked, shaped) for some in pair(codes, new))
    assert np.abs(one - two).max() <= times * MISFIT


@pytest.mark.parametrize("total", [1e3, 1e9, 1e15, 1e18])
def test_misfits_keep_their_sensitivity_where_far_too_many_rows_are_expected(total):
    merged, rng = merging(0), np.random.default_rng(0)
    query = merged.query((1, 3), most_cells=77)
    assert misfit_sensitivity(1e6) == MISFIT
    for _ in range(50):
        codes = rng.integers(0, SIZES, (30, len(SIZES)), np.int32)
        one, two = (Tally(some, merged) for some in (codes[:-1], codes))
        expected = total * rng.dirichlet(np.ones(one.counts(query).size))
        expected = expected.reshape(one.counts(query).shape)
        moved = misfits(two, [query], [expected]) - misfits(one, [query], [expected])
        assert abs(moved[0]) <= misfit_sensitivity(total)


def test_counts_are_those_of_merged_codes():
    codes = np.array([[0, 6, 1, 10], [0, 6, 1, 10], [2, 0, 0, 3]], np.int32)
    merged = merging(0)
    query = merged.query((0, 3), most_cells=6)
    first, second = merged.groups(query)
    counts = Tally(codes, merged).counts(query)
    assert counts.sum() == 3
    assert counts[first[0], second[10]] >= 2


def test_counts_asked_for_again_are_the_same():
    merged = merging(3)
    codes = np.array([[0, 6, 1, 10], [2, 0, 0, 3], [1, 1, 1, 1]], np.int32)
    tally = Tally(codes, merged)
    for query in queries(merged, 6) * 2 + queries(merged, 1e9) * 2:
        np.testing.assert_array_equal(tally.counts(query), Tally(codes, merged).counts(query))


def test_full_codes_are_merged_on_the_way_in():
    merged = Merging.of([np.array([0.6, 0.4])], [True])
    tally = Tally.of_codes(np.array([[0], [4], [2]]), [np.array([0, 1, 1, 0, 1])], merged)
    assert tally.counts(merged.query((0,), most_cells=9)).tolist() == [1, 2]
