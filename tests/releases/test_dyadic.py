"""Cells in Z-order, and what denoising may and may not make of counts."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from veilflow.releases.dyadic import cell_corner, cell_index, denoise

shapes = st.tuples(st.integers(1, 4), st.integers(1, 3))
"""Bits along an axis, and axes."""
counts = st.integers(0, 7).flatmap(
    lambda bits: hnp.arrays(np.float64, 2**bits, elements=st.floats(-1e9, 1e9))
)


@given(shape=shapes)
def test_index_and_corner_undo_each_other_on_every_cell(shape):
    bits, dim = shape
    every = np.arange(2 ** (bits * dim))
    corners = cell_corner(every, bits, dim)
    assert corners.min() == 0
    assert corners.max() == 2**bits - 1
    assert len(np.unique(corners, axis=0)) == len(every)
    np.testing.assert_array_equal(cell_index((corners + 0.5) / 2**bits, bits), every)
    np.testing.assert_array_equal(cell_index(corners / 2**bits, bits), every)  # the low edge is in


@given(shape=shapes, data=st.data())
def test_a_point_lies_in_the_cell_of_its_index(shape, data):
    bits, dim = shape
    point = data.draw(hnp.arrays(np.float64, (1, dim), elements=st.floats(0, 1)))
    corner = cell_corner(cell_index(point, bits), bits, dim)
    assert (corner <= point * 2**bits).all()
    assert (point * 2**bits <= corner + 1).all()


def test_points_outside_the_cube_go_to_the_nearest_cell():
    outside = np.array([[-5.0, 0.5], [2.0, 2.0], [1.0, 0.0]])
    inside = np.clip(outside, 0, 1 - 1e-9)
    np.testing.assert_array_equal(cell_index(outside, 3), cell_index(inside, 3))


@given(counts=counts, noise_variance=st.floats(0, 1e12))
def test_masses_are_positive_and_sum_to_one_whatever_the_counts(counts, noise_variance):
    cells = denoise(counts, noise_variance)
    assert cells.mass.shape == cells.leaf.shape == counts.shape
    assert cells.mass.sum() == pytest.approx(1, abs=1e-12)
    assert cells.mass.min() >= 0.005 / len(counts) * (1 - 1e-9)


@given(shape=shapes, seed=st.integers(0, 2**20), size=st.sampled_from([0, 3, 1000]))
def test_joined_cells_are_boxes_of_even_mass(shape, seed, size):
    bits, dim = shape
    rng = np.random.default_rng(seed)
    cells = 2 ** (bits * dim)
    where = rng.integers(0, cells, size=size) // rng.integers(1, 9, size=size)
    cells = denoise(np.bincount(where, minlength=cells) + rng.normal(size=cells), 1.0)
    corner = cell_corner(np.arange(len(cells.mass)), bits, dim)
    for leaf in np.unique(cells.leaf):
        inside = cells.leaf == leaf
        low, high = corner[inside].min(axis=0), corner[inside].max(axis=0) + 1
        # as many cells as the box around them holds: it is full
        assert np.prod(high - low) == inside.sum()
        assert np.ptp(cells.mass[inside]) < 1e-15


def test_leaves_are_numbered_from_zero_without_gaps():
    cells = denoise(np.array([0, 0, 900, 0, 0, 0, 0, 50.0]), 1.0)
    np.testing.assert_array_equal(np.unique(cells.leaf), np.arange(cells.leaf.max() + 1))
    assert len(np.unique(cells.leaf)) > 2


@pytest.mark.parametrize("deviation", [1.0, 30.0])
def test_of_pure_noise_nearly_everything_is_joined(deviation):
    noise = deviation * np.random.default_rng(0).normal(size=2**14)
    cells = denoise(noise, deviation**2)
    assert cells.leaf.max() + 1 < 0.15 * len(noise)
    # and what is not is by far less uneven than the noise itself
    uneven = np.abs(cells.mass - 1 / len(noise)).sum() / 2
    bare = np.maximum(noise, 0) / np.maximum(noise, 0).sum()
    assert uneven < 0.5 * np.abs(bare - 1 / len(noise)).sum() / 2


def test_what_stands_out_of_the_noise_is_kept():
    rng = np.random.default_rng(1)
    counts = 5 * rng.normal(size=2**12)
    counts[1234] += 5000
    cells = denoise(counts, 25.0)
    assert cells.mass[1234] > 0.7
    assert (cells.leaf == cells.leaf[1234]).sum() == 1
    assert np.median(cells.mass) < 1e-3


def test_without_noise_and_with_many_records_masses_are_the_shares():
    counts = np.array([1e6, 3e6, 0, 4e6])
    expected = 0.995 * counts / counts.sum() + 0.005 / 4
    np.testing.assert_allclose(denoise(counts, 0.0).mass, expected, atol=1e-6)


def test_no_record_at_all_gives_an_even_density():
    np.testing.assert_allclose(denoise(np.zeros(64), 0.0).mass, np.full(64, 1 / 64))
    np.testing.assert_array_equal(denoise(np.zeros(64), 0.0).leaf, 0)
    np.testing.assert_allclose(denoise(np.array([-7.0]), 3.0).mass, [1.0])
