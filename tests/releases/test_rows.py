"""Rows that no number fits: each start counts one as zero, and keeps its promise about it."""

import jax
import numpy as np
import pytest

from veilflow._core.keys import Secret
from veilflow.flows import maf
from veilflow.privacy.guarantees import Sensitive
from veilflow.releases.grid import Grid
from veilflow.releases.release import Tools
from veilflow.releases.rows import (
    finite,
    from_upper_triangle,
    seen_through,
    upper_triangle,
)

DIM = 3
BORDER = 3**0.5
HOSTILE = {
    "missing": [0.5, np.nan, -0.5],
    "infinite": [np.inf, 0.5, 0.5],
    "both ways": [np.inf, -np.inf, np.nan],
    "largest": [3.4e38, -3.4e38, 3.4e38],
}


def usual() -> np.ndarray:
    return np.random.default_rng(0).uniform(-1, 1, size=(200, DIM)).astype(np.float32)


@pytest.mark.parametrize("hostile", HOSTILE.values(), ids=HOSTILE)
def test_a_row_that_is_no_number_is_in_one_cell_of_a_grid(hostile):
    release = Grid(dim=DIM, bits=2, border=BORDER, epsilon=np.inf)

    def counts(rows) -> np.ndarray:
        return release.run(Sensitive(np.float32(rows)), Tools(Secret.from_seed(0))).value

    moved = counts([*usual(), hostile]) - counts(usual())
    assert sorted(moved) == [0] * (4**DIM - 1) + [1]


def test_only_rows_that_are_no_numbers_are_changed_and_all_of_such_a_row():
    rows = np.float32([*usual()[:3], *list(HOSTILE.values())[:3]])
    found = finite(rows)
    np.testing.assert_array_equal(found[:3], usual()[:3])
    np.testing.assert_array_equal(found[3:], 0)
    assert found.dtype == np.float32
    assert finite(np.empty((0, 2))).shape == (0, 2)


def test_rows_in_pieces_are_seen_as_rows_at_once():
    bijection = maf(2, key=jax.random.key(0), blocks=1, hidden=(4,)).bijection
    rows = np.random.default_rng(1).normal(size=(20_000, 2)).astype(np.float32)
    at_once = jax.vmap(lambda x: bijection.inverse_and_log_det(x)[0])(rows)
    np.testing.assert_allclose(seen_through(bijection, rows), at_once, atol=1e-5)
    assert seen_through(bijection, rows[:0]).shape == (0, 2)


def test_triangles_have_the_norm_of_their_matrices_and_give_them_back():
    roots = np.random.default_rng(0).normal(size=(4, 3, 3))
    matrices = roots + np.swapaxes(roots, 1, 2)
    triangles = upper_triangle(matrices)
    np.testing.assert_allclose(
        np.linalg.norm(triangles, axis=1), np.linalg.norm(matrices, axis=(1, 2))
    )
    np.testing.assert_allclose(from_upper_triangle(triangles, 3), matrices, rtol=1e-12)
