"""Merged codes: never more groups than allowed, neighbors with neighbors, rare with rare."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from veilflow.releases.marginals.codes import (
    MOST_CODES,
    Merging,
    Query,
    flat_index,
    num_groups,
    without_rare,
)

masses = st.lists(st.floats(0, 1), min_size=1, max_size=30).map(
    lambda numbers: (np.array(numbers) + 1e-12) / np.sum(np.array(numbers) + 1e-12)
)


@given(mass=masses, most=st.integers(1, 40), ordered=st.booleans())
def test_groups_have_no_gaps_and_are_no_more_than_allowed(mass, most, ordered):
    groups = Merging.of([mass], [ordered]).groups_of(0, most)
    assert set(groups) == set(range(num_groups(groups)))
    assert num_groups(groups) <= most
    if ordered:
        assert (np.diff(groups) >= 0).all()
    if most >= len(mass):
        assert num_groups(groups) == len(mass)


def test_a_code_with_most_of_the_mass_is_alone_and_rare_ones_share():
    mass = np.array([0.01, 0.9, 0.01, 0.04, 0.01, 0.03])
    groups = Merging.of([mass], [False]).groups_of(0, 3)
    assert groups[1] == 0  # frequent codes first
    assert (groups == groups[1]).sum() == 1
    assert groups[0] == groups[2] == groups[4]


def test_equal_codes_make_equal_groups():
    groups = Merging.of([np.full(32, 1 / 32)], [True]).groups_of(0, 8)
    assert np.bincount(groups).tolist() == [4] * 8


@pytest.mark.parametrize("ordered", [True, False])
def test_rare_codes_are_merged_until_each_group_stands_out(ordered):
    mass = np.array([100.0, 1, 2, 50, 3, 1, 70, 1])
    groups = without_rare(mass, least=10.0, ordered=ordered)
    merged = np.bincount(groups, mass)
    if ordered:
        assert (np.diff(groups) >= 0).all()
        assert (merged >= 10).all()
    else:
        assert sorted(merged) == [8, 50, 70, 100]


@pytest.mark.parametrize("ordered", [True, False])
def test_nothing_but_rare_codes_is_one_group(ordered):
    assert num_groups(without_rare(np.ones(50), least=1e6, ordered=ordered)) == 1


@pytest.mark.parametrize("ordered", [True, False])
def test_thousands_of_codes_fit_a_byte(ordered):
    groups = without_rare(np.arange(1.0, 5001), least=0.0, ordered=ordered)
    assert num_groups(groups) == MOST_CODES
    assert set(groups) == set(range(MOST_CODES))


@given(sizes=st.lists(st.integers(1, 60), min_size=1, max_size=4), most=st.floats(0.01, 1e6))
def test_a_query_has_about_as_many_cells_as_allowed_and_at_least_two_codes_a_column(sizes, most):
    merging = Merging.of([np.full(size, 1 / size) for size in sizes], [True] * len(sizes))
    query = merging.query(tuple(range(len(sizes))), most_cells=most)
    assert np.prod(query.resolution) <= max(most, 2 ** len(sizes))
    assert all(min(size, 2) <= k <= size for k, size in zip(query.resolution, sizes, strict=True))
    if np.prod([float(size) for size in sizes]) <= most:
        assert query.resolution == tuple(sizes)


def test_the_cells_of_a_merged_table():
    merging = Merging.of([np.array([0.4, 0.4, 0.1, 0.1]), np.array([0.5, 0.5])], [True, True])
    groups = merging.groups(Query((0, 1), (2, 2)))
    assert flat_index(groups).reshape(4, 2).tolist() == [
        [int(2 * groups[0][i] + j) for j in range(2)] for i in range(4)
    ]
