"""A function over many rows in chunks: all rows, in their order, and one shape for the compiler."""

import numpy as np
import pytest

from veilflow._core.chunks import apply_in_chunks


def twice(shapes):
    def fn(part):
        shapes.append(part.shape)
        return 2 * part

    return fn


@pytest.mark.parametrize("number", [0, 1, 3, 4, 5, 8, 9])
@pytest.mark.parametrize("width", [(), (2,), (2, 3)])
def test_chunks_put_together_are_the_whole(number, width):
    rows, shapes = np.arange(number * int(np.prod(width)), dtype=np.float32), []
    rows = rows.reshape(number, *width)
    found = apply_in_chunks(twice(shapes), rows, size=4)
    np.testing.assert_array_equal(found, 2 * rows, strict=True)
    assert set(shapes) == {(4, *width)}  # compiled once
    assert len(shapes) == max(1, -(-number // 4))  # of no rows: the shape of what comes out


def test_the_rows_of_a_result_may_have_another_form():
    rows = np.arange(10.0).reshape(5, 2)
    np.testing.assert_array_equal(
        apply_in_chunks(lambda x: x.sum(axis=1), rows, size=3), rows.sum(axis=1)
    )
    assert apply_in_chunks(lambda x: x.sum(axis=1), rows[:0], size=3).shape == (0,)


def test_padding_is_zeros_and_of_the_kind_of_the_rows():
    seen = []
    apply_in_chunks(lambda x: seen.append(x) or x, np.ones((3, 2), np.int16), size=5)
    assert seen[0].dtype == np.int16
    np.testing.assert_array_equal(seen[0][3:], 0)
