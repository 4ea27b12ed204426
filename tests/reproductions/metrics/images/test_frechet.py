"""The Frechet distance against closed forms."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reproductions.metrics.images import frechet_distance


def rows(num_rows=60, dim=4, seed=0):
    return np.random.default_rng(seed).standard_normal((num_rows, dim))


def test_equal_sets_are_at_distance_0():
    assert frechet_distance(rows(), rows()[::-1]) == pytest.approx(0, abs=1e-12)


def test_a_shift_counts_its_squared_length():
    shift = np.array([3.0, 0, -4, 0])
    assert frechet_distance(rows(), rows() + shift) == pytest.approx(25)


def test_in_one_dimension_it_is_the_difference_of_means_and_deviations():
    a, b = rows(50, 1), 3 * rows(80, 1, seed=1) + 2
    expected = (a.mean() - b.mean()) ** 2 + (a.std(ddof=1) - b.std(ddof=1)) ** 2
    assert frechet_distance(a, b) == pytest.approx(expected)


@given(st.integers(0, 50), st.sampled_from([2, 3, 5, 8]), st.sampled_from([3, 6, 40]))
def test_a_symmetric_positive_map_costs_what_it_moves(seed, dim, num_rows):
    """The gradient of a convex function is the cheapest map: the closed form for any covariances.

    With 3 rows of 8 features the covariances have rank 2, and do not commute.
    """
    a = rows(num_rows, dim, seed)
    factor = rows(dim, dim, seed + 1)
    linear = factor @ factor.T / dim
    moved = a @ linear
    spread = np.atleast_2d(np.cov(a - moved, rowvar=False))
    expected = np.square((a - moved).mean(axis=0)).sum() + np.trace(spread)
    assert frechet_distance(a, moved) == pytest.approx(expected, rel=1e-6, abs=1e-9)


def test_tiny_and_huge_features_in_one_set():
    scales = np.array([1e-6, 1.0, 1e6])
    a = rows(30, 3) * scales
    expected = np.square(scales * rows(30, 3).std(axis=0, ddof=1)).sum()
    expected += np.square(scales * rows(30, 3).mean(axis=0)).sum()
    assert frechet_distance(a, 2 * a) == pytest.approx(expected)


def test_it_does_not_matter_which_set_comes_first():
    a, b = rows(20, 6), rows(30, 6, seed=1) * 2
    assert frechet_distance(a, b) == pytest.approx(frechet_distance(b, a))
    assert frechet_distance(a, b) > 1


def test_orthogonal_subspaces_share_nothing():
    flat = np.zeros((10, 4))
    a, b = flat.copy(), flat.copy()
    a[:, :2], b[:, 2:] = rows(10, 2), rows(10, 2, seed=1)
    a, b = a - a.mean(axis=0), b - b.mean(axis=0)
    expected = (np.square(a).sum() + np.square(b).sum()) / 9
    assert frechet_distance(a, b) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        (rows(1), rows(), "features_a must have at least 2 rows"),
        (rows(), rows(dim=3), "the same columns"),
        (rows() * math.nan, rows(), "finite"),
        (rows()[0], rows(), "must be a table"),
    ],
)
def test_what_has_no_distance_is_an_error(a, b, message):
    with pytest.raises(ValueError, match=message):
        frechet_distance(a, b)
