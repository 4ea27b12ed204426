"""Places within bins: they hang together, keep their bins, and are scored as they are drawn."""

import numpy as np
import pytest

from veilflow.models.table import places
from veilflow.models.table.coder import Bins, CodedColumn, Coder
from veilflow.releases.table.cells import cells_of
from veilflow.tabular.columns import Numeric

COLUMN = Numeric(0, 59, integer=True, nullable=True)


def columns(num: int = 3) -> tuple[CodedColumn, ...]:
    """Sixty cells in five bins, of falling shares."""
    cells = cells_of(COLUMN)
    mass = 0.95 ** np.arange(cells.num)
    bins = Bins(np.array([0, 5, 15, 30, 45, 60]), mass / mass.sum())
    shares = np.append(0.9 * bins.masses, 0.1)
    return (CodedColumn(shares, True, True, cells, bins),) * num


def rows_of(num_rows: int, rho: float, rng: np.random.Generator) -> np.ndarray:
    """Codes of three numbers with normal scores in a chain, some of them missing."""
    own = columns()[0]
    ranks = np.cumsum(own.bins.masses)
    z = rng.normal(size=(num_rows, 3))
    for j in (1, 2):
        z[:, j] = rho * z[:, j - 1] + (1 - rho**2) ** 0.5 * z[:, j]
    uniform = (np.argsort(np.argsort(z, axis=0), axis=0) + 0.5) / num_rows
    codes = np.searchsorted(ranks[:-1], uniform)
    return np.where(rng.uniform(size=codes.shape) < 0.1, 5, codes).astype(np.int32)


@pytest.fixture
def mix() -> np.ndarray:
    return places.mix_of(columns(), rows_of(20_000, 0.95, np.random.default_rng(0)))


def test_numbers_that_rise_together_do_so_within_bins(mix):
    rng = np.random.default_rng(1)
    codes = np.full((20_000, 3), 3, np.int32)  # one bin for all
    apart = places.draw_cells(columns(), np.eye(3), codes, rng)
    together = places.draw_cells(columns(), mix, codes, rng)
    assert abs(np.corrcoef(apart.T)[0, 1]) < 0.05
    assert np.corrcoef(together.T)[0, 1] > 0.2


def test_every_cell_lies_in_its_bin_and_gaps_stay_out(mix):
    codes = rows_of(4000, -0.5, np.random.default_rng(2))  # unlike what the mix expects
    cells = places.draw_cells(columns(), mix, codes, np.random.default_rng(3))
    own = columns()[0].bins.of(cells)
    assert (own == codes)[codes < 5].all()
    scores = places.log_cells(columns(), mix, codes, cells)
    assert np.isfinite(scores).all()
    assert (scores[(codes == 5).all(axis=1)] == 0).all()


def test_the_probabilities_of_all_cells_sum_to_one_given_what_comes_before(mix):
    codes = np.array([[1, 2, 4], [5, 0, 3], [4, 0, 0]], np.int32)
    first = places.draw_cells(columns(), mix, codes, np.random.default_rng(4))
    for row, own in zip(codes, first, strict=True):
        start, end = columns()[0].bins.starts[[row[2], row[2] + 1]]
        cells = np.repeat(own[None], end - start, axis=0)
        cells[:, 2] = np.arange(start, end)
        given = places.log_cells(columns(2), mix[:2, :2], row[None, :2], own[None, :2])
        scores = places.log_cells(columns(), mix, np.repeat(row[None], len(cells), axis=0), cells)
        assert np.exp(scores - given).sum() == pytest.approx(1, abs=1e-9)


def test_cells_are_drawn_as_often_as_they_are_scored(mix):
    codes = np.repeat([[3, 4, 4]], 60_000, axis=0).astype(np.int32)
    cells = places.draw_cells(columns(), mix, codes, np.random.default_rng(5))
    seen, counts = np.unique(cells[:, :2], axis=0, return_counts=True)
    score = places.log_cells(columns(2), mix[:2, :2], codes[: len(seen), :2], seen)
    share = np.exp(score)
    assert 0.5 * np.abs(counts / len(codes) - share).sum() < 0.03


def test_known_cells_stay_and_condition_the_rest(mix):
    codes = np.repeat([[3, 3, 3]], 5000, axis=0).astype(np.int32)
    known = np.repeat([[True, False, False]], len(codes), axis=0)
    means = []
    for cell in (30, 44):
        given = np.repeat([[cell, 0, 0]], len(codes), axis=0)
        cells = places.draw_cells(
            columns(), mix, codes, np.random.default_rng(6), known=known, cells=given
        )
        assert (cells[:, 0] == cell).all()
        means.append(cells[:, 1].mean())
    assert means[1] > means[0] + 1


def test_independent_numbers_have_the_shares_of_their_histogram():
    codes = rows_of(500, 0.0, np.random.default_rng(7))
    cells = places.draw_cells(columns(), np.eye(3), codes, np.random.default_rng(8))
    alone = columns()[0].bins.log_within()[cells] * (codes < 5)
    found = places.log_cells(columns(), np.eye(3), codes, cells)
    np.testing.assert_allclose(found, alone.sum(axis=1), rtol=1e-9)


def test_rows_within_groups_are_drawn_again_as_the_groups_hang_together():
    rng = np.random.default_rng(9)
    real = rows_of(20_000, 0.97, rng)
    flat = real.copy()  # within two groups of bins, rows are as if independent
    for low, high in ((0, 2), (2, 5)):
        for j in range(3):
            own = np.flatnonzero((flat[:, j] >= low) & (flat[:, j] < high))
            flat[own, j] = rng.permutation(flat[own, j])
    sharp = Coder(columns()).sharpened(flat, 2, rng)
    here = (real < 5).all(axis=1)
    same = [np.corrcoef(codes[here].T)[0, 1] for codes in (real, flat, sharp)]
    assert same[1] < same[2]
    assert ((sharp == 5) == (flat == 5)).all()


@pytest.mark.parametrize(
    "mix",
    [
        np.array([[1.0, 0.1], [0.0, 1.0]]),
        np.array([[1.0, 0.0], [0.8, 0.8]]),
        np.array([[1.0, 0.0], [1.0, 0.0]]),
        np.array([[1.0, 0.0], [np.nan, 1.0]]),
    ],
)
def test_a_file_cannot_have_another_kind_of_mix(mix):
    with pytest.raises(ValueError, match="triangular"):
        places.checked(mix)
