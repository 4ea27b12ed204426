"""Features at the door: clamped, scaled by declared facts, row by row."""

import numpy as np
import pytest

from veilflow.models import domain as domains
from veilflow.models.expm.inputs import places_of, read_inputs
from veilflow.releases.expm.grud import Series

BOX = domains.declared(bounds=([0, -4], [10, 4]), row_norm=None)


def test_rows_are_clamped_and_scaled_to_one():
    rows = np.array([[0.0, -4], [10, 4], [5, 0], [1e300, -1e300]])
    scaled = read_inputs(rows).scaled(BOX)
    assert scaled.dtype == np.float32
    np.testing.assert_allclose(scaled, [[-1, -1], [1, 1], [0, 0], [1, -1]], atol=1e-6)
    assert np.abs(scaled).max() <= 1


def test_a_ball_is_scaled_to_the_unit_ball():
    ball = domains.declared(bounds=None, row_norm=2.0)
    scaled = read_inputs(np.array([[6.0, 8.0], [0.0, 1.0]])).scaled(ball)
    np.testing.assert_allclose(scaled, [[0.6, 0.8], [0, 0.5]], atol=1e-6)


def test_gaps_of_series_are_zero_and_never_read():
    values = np.array([[[10.0, np.nan], [np.inf, -4.0]]])
    mask = np.array([[[1, 0], [0, 1]]])
    inputs = read_inputs((values, mask, np.full((1, 2, 2), 99.0)))
    assert (len(inputs), inputs.num_features) == (1, 2)
    scaled = inputs.scaled(BOX)
    assert isinstance(scaled, Series)
    np.testing.assert_allclose(scaled.values, [[[1, 0], [0, -1]]], atol=1e-6)
    assert (scaled.mask == mask).all()
    assert (scaled.since == 2).all()  # as long as the series is


SHAPE = (2, 3, 2)


@pytest.mark.parametrize(
    ("series", "match"),
    [
        ((np.zeros(SHAPE), np.zeros(SHAPE)), "got 2 arrays"),
        ((np.zeros(SHAPE), np.zeros((2, 3, 1)), np.zeros(SHAPE)), "one shape"),
        ((np.zeros((2, 3)),) * 3, "one shape"),
        ((np.zeros(SHAPE), np.full(SHAPE, 0.5), np.zeros(SHAPE)), "mask must be 1"),
        ((np.full(SHAPE, np.nan), np.ones(SHAPE), np.zeros(SHAPE)), "finite where mask is 1"),
        ((np.zeros(SHAPE), np.ones(SHAPE), np.full(SHAPE, np.nan)), "since must be finite"),
        ((np.full(SHAPE, "x"),) * 3, "arrays of numbers"),
    ],
)
def test_bad_series(series, match):
    with pytest.raises(ValueError, match=match):
        read_inputs(series)


def test_missing_cells_of_rows_ask_for_masks_and_name_no_cell():
    with pytest.raises(ValueError, match="series with masks") as caught:
        read_inputs(np.array([[1.0, 123.25], [np.nan, 2.0]]))
    assert "123.25" not in str(caught.value)


def test_rows_without_columns_are_refused():
    with pytest.raises(ValueError, match="at least one column"):
        read_inputs(np.zeros((3, 0)))


def test_places_of_labels():
    assert places_of(["b", "a", "b"], ("a", "b"), num=3).tolist() == [1, 0, 1]
    assert places_of(np.array([[1], [0]]), (0, 1), num=2).tolist() == [1, 0]
    assert places_of([True, False], (0, 1), num=2).tolist() == [1, 0]
    assert places_of([], (0, 1), num=0).dtype == np.int32


@pytest.mark.parametrize("labels", [[0, 2], [0, np.nan], ["0", "1"], [0, None]])
def test_labels_beyond_the_classes_are_refused_and_not_shown(labels):
    with pytest.raises(ValueError, match=r"declared classes \(0, 1\)"):
        places_of(labels, (0, 1), num=2)
