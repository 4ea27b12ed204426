"""Measures with answers that are known beforehand."""

import math

import numpy as np
import pytest
from reproductions.metrics.log_likelihood import mean_log_likelihood
from reproductions.metrics.marginals import compare_marginals
from reproductions.metrics.projection import principal_axes
from reproductions.metrics.regression import knn_mse, knn_regression
from reproductions.metrics.roc import anomalies


class Scores:
    """A model that answers what it was told to."""

    def __init__(self, *scores):
        self.scores = scores

    def log_prob(self, rows):
        return np.array(self.scores)


def normal(*size, seed=0):
    return np.random.default_rng(seed).standard_normal(size)


def test_the_mean_comes_with_its_standard_error():
    found = mean_log_likelihood(Scores(1.0, 2.0, 3.0, 6.0), None)
    assert found.mean == found.mean_of_possible == 3.0
    assert found.standard_error == pytest.approx(np.std([1, 2, 3, 6], ddof=1) / 2)
    assert (found.num_rows, found.num_impossible) == (4, 0)


def test_rows_of_density_zero_are_counted_and_not_hidden():
    found = mean_log_likelihood(Scores(-math.inf, 1.0, 2.0), None)
    assert found.mean == -math.inf
    assert found.mean_of_possible == 1.5
    assert found.num_impossible == 1
    assert math.isnan(found.standard_error)


def test_a_single_row_has_no_standard_error():
    assert math.isnan(mean_log_likelihood(Scores(1.0), None).standard_error)


@pytest.mark.parametrize(
    "scores", [(math.nan, 1.0), (math.inf, 1.0), ()], ids=["nan", "plus infinity", "no rows"]
)
def test_what_is_no_density_is_an_error(scores):
    with pytest.raises(ValueError, match="log_prob"):
        mean_log_likelihood(Scores(*scores), None)


def line(n, seed):
    x = normal(n, 2, seed=seed)
    return np.column_stack([x, x @ [1.0, -2.0]])


def test_neighbors_among_good_synthetic_rows_do_as_well_as_among_real_ones():
    train, test = line(2000, 0), line(200, 1)
    good = knn_regression(line(2000, 2), real_train=train, real_test=test)
    assert good.synthetic == pytest.approx(good.real, rel=0.3)
    assert good.real < 0.05 * good.constant
    shuffled = train.copy()
    np.random.default_rng(3).shuffle(shuffled[:, -1])
    bad = knn_regression(shuffled, real_train=train, real_test=test)
    assert bad.real == good.real
    assert bad.synthetic > 0.8 * bad.constant


def test_the_nearest_rows_are_averaged():
    train = np.array([[0.0, 1.0], [1.0, 3.0], [10.0, 100.0]])
    assert knn_mse(train, [[0.4, 0.0]], neighbors=2) == pytest.approx(4.0)
    assert knn_mse(train[:, ::-1], [[0.0, 0.4]], neighbors=1, target=0) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"test": [[1.0, 2.0, 3.0]]}, "train has 2, test has 3"),
        ({"test": [[1.0, math.nan]]}, "test must hold finite numbers"),
        ({"test": [1.0, 2.0]}, r"test must be a table .* shape \(2,\)"),
    ],
)
def test_rows_that_cannot_be_compared_are_refused_without_showing_them(settings, message):
    given = {"test": [[0.123456, 1.0]], **settings}
    with pytest.raises(ValueError, match=message) as error:
        knn_mse(np.zeros((3, 2)), **given)
    assert "0.123456" not in str(error.value)


def test_equal_marginals_have_distance_zero_and_disjoint_ones_one():
    rows = normal(500, 2)
    same, moved = compare_marginals(rows, rows + np.array([0.0, 100.0]), bins=20)
    assert same.total_variation == 0
    assert moved.total_variation == 1
    assert same.real.sum() == pytest.approx(1)


def test_cells_beyond_declared_bounds_count_in_the_outermost_bins():
    (found,) = compare_marginals([[-5.0], [0.5]], [[0.25], [9.0]], bins=2, bounds=(0, 1))
    np.testing.assert_allclose(found.edges, [0, 0.5, 1])
    np.testing.assert_allclose(found.real, [0.5, 0.5])
    np.testing.assert_allclose(found.synthetic, [0.5, 0.5])


def test_a_constant_column_has_a_marginal_too():
    (found,) = compare_marginals([[2.0], [2.0]], [[2.0]], bins=4)
    assert found.total_variation == 0


def test_bounds_that_fall_are_refused():
    with pytest.raises(ValueError, match="bounds must rise"):
        compare_marginals([[0.0]], [[0.0]], bounds=(1, 0))


def test_principal_axes_find_the_widest_directions():
    turn = np.linalg.qr(normal(4, 4, seed=1))[0]
    rows = normal(4000, 4) * [5.0, 2.0, 0.1, 0.1] @ turn.T + 7.0
    view = principal_axes(rows)
    np.testing.assert_allclose(np.abs(view.axes @ turn[:, :2]), np.eye(2), atol=0.05)
    seen = view(rows)
    np.testing.assert_allclose(seen.mean(axis=0), 0, atol=1e-9)
    np.testing.assert_allclose(seen.std(axis=0), [5, 2], rtol=0.05)


def test_axes_of_mirrored_rows_point_the_same_way():
    rows = normal(50, 3) * [3.0, 2.0, 1.0]
    np.testing.assert_allclose(principal_axes(rows).axes, principal_axes(-rows).axes)


def test_the_histogram_of_a_view_is_a_density_with_y_first():
    rows = np.array([[0.5, -0.5], [0.5, -0.5], [-0.5, 0.5], [9.0, 9.0]])
    flat = principal_axes(normal(50, 2))
    flat = type(flat)(np.zeros(2), np.eye(2))
    grid = flat.histogram(rows, low=-1, high=1, bins=2)
    np.testing.assert_allclose(grid, [[0, 0.5], [0.25, 0]])


@pytest.mark.parametrize("rows", [np.zeros((1, 3)), np.zeros((5, 1))])
def test_axes_need_two_rows_and_two_columns(rows):
    with pytest.raises(ValueError, match="rows must"):
        principal_axes(rows)


def test_anomalies_lie_between_the_percentiles_of_both_tails_in_every_column():
    rows = normal(3000, 3) * [1.0, 5.0, 0.1]
    found = anomalies(rows, 2000, seed=1)
    assert found.shape == (2000, 3)
    assert anomalies(rows).shape == rows.shape
    low, left, right, high = np.percentile(rows, [5, 30, 70, 95], axis=0)
    lower, upper = (low <= found) & (found <= left), (right <= found) & (found <= high)
    assert (lower | upper).all()
    # 6 standard deviations of a coin tossed 2000 times
    assert np.abs(lower.mean(axis=0) - 0.5).max() < 0.07
    both = lower[:, 0] & lower[:, 1]
    assert abs(both.mean() - 0.25) < 0.06
    np.testing.assert_array_equal(found, anomalies(rows, 2000, seed=1))
