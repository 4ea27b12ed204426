"""Cells, trees, bins and codes: what goes in comes back, shares add up, a row weighs one."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import veilflow as vf
from veilflow.models.table.coder import CodedColumn, Coder, bins_of
from veilflow.releases.table.cells import cells_of
from veilflow.releases.table.estimate import estimate
from veilflow.releases.table.histograms import level_sizes, weighted_counts
from veilflow.tabular.codec import decode, encode
from veilflow.tabular.encoded import from_positions

COLUMNS = {
    "few whole numbers": vf.Numeric(17, 90, integer=True),
    "one whole number": vf.Numeric(3, 3, integer=True),
    "many whole numbers": vf.Numeric(-(2**40), 2**46, integer=True, nullable=True),
    "negative whole numbers": vf.Numeric(-1_000_000, -1, integer=True),
    "cents": vf.Numeric(0, 500, resolution=0.01, nullable=True),
    "steps of seven": vf.Numeric(-70_000, 70_000, integer=True, resolution=7),
    "reals from zero": vf.Numeric(0, 1e6),
    "reals around zero": vf.Numeric(-0.1, 0.2, nullable=True),
    "reals over nine orders": vf.Numeric(-3.7, 1e9),
    "reals far from zero": vf.Numeric(1e9, 1e9 + 8),
    "negative reals": vf.Numeric(-1e12, -1e-3),
    "nearly all negative": vf.Numeric(-1.0, 1e-12),
    "vast reals": vf.Numeric(-(2.0**60), 2.0**60),
    "days": vf.Datetime("1850-01-01", "2100-12-31", resolution="day", nullable=True),
    "seconds": vf.Datetime("1900-01-01", "2100-12-31"),
}


def coded(column: vf.tabular.Column, seed: int, most: int) -> CodedColumn:
    """A column with bins from random counts, some of them heavy, most of them none."""
    rng, cells = np.random.default_rng(seed), cells_of(column)
    counts = rng.gamma(0.05, size=cells.num) * (rng.uniform(size=cells.num) < 0.3)
    bins = bins_of(counts, most=most)
    mass = np.append(0.9 * bins.masses, 0.1) if column.nullable else bins.masses
    return CodedColumn(mass, True, column.nullable, cells, bins)


def single(column: vf.tabular.Column, seed: int = 0, most: int = 8) -> Coder:
    return Coder((coded(column, seed, most),))


@pytest.mark.parametrize("name", COLUMNS)
@settings(max_examples=10)
@given(seed=st.integers(0, 2**31), most=st.integers(1, 40))
def test_drawn_positions_have_the_codes_they_were_drawn_from(name, seed, most):
    column = COLUMNS[name]
    coder, rng = single(column, seed, most), np.random.default_rng(seed)
    codes = np.arange(coder.columns[0].num_codes, dtype=np.int32).repeat(20)[:, None]
    rows = coder.rows(codes, rng)
    assert ((rows.positions >= 0) & (rows.positions < 1)).all()
    np.testing.assert_array_equal(coder.codes(rows), codes)
    # and after they were written down and read again, as numbers and dates are
    schema = vf.Schema(a=column)
    again = encode(decode(rows, schema, like="pyarrow"), schema)
    if column.num_cells is not None:
        np.testing.assert_array_equal(coder.codes(again), codes)
    # reals are read in single precision: they may cross an edge, but not more than that
    np.testing.assert_allclose(again.positions, rows.positions, atol=2e-7)


@pytest.mark.parametrize("name", COLUMNS)
@settings(max_examples=20)
@given(data=st.data())
def test_every_value_is_in_a_cell_and_cells_keep_their_order(name, data):
    column, cells = COLUMNS[name], cells_of(COLUMNS[name])
    at = np.sort(data.draw(st.lists(st.floats(0, 1, exclude_max=True), min_size=1, max_size=30)))
    found = cells.of(at)
    assert (np.diff(found) >= 0).all()
    assert (cells.edges[found] <= at).all()
    assert (at < cells.edges[found + 1]).all()
    assert cells.edges[0] == 0
    assert cells.edges[-1] == 1
    assert cells.num < 20_000
    if column.num_cells is not None and column.num_cells <= 4096:
        np.testing.assert_array_equal(cells.log_size, 0)  # a cell for each value


SPIKES = {
    "zero of reals": (vf.Numeric(0, 1e6), 0.0),
    "zero inside": (vf.Numeric(-3.7, 1e9), 0.0),
    "zero among thirds": (vf.Numeric(-0.1, 0.2), 0.0),
    "zero of many whole numbers": (vf.Numeric(-(2**40), 2**46, integer=True), 0),
    "zero of cents": (vf.Numeric(-500, 10_000, resolution=0.01), 0.0),
    "the upper bound": (vf.Numeric(0.1, 0.7), 0.7),
    "the lower bound": (vf.Numeric(-1e12, -1e-3), -1e12),
    "the largest whole number": (vf.Numeric(0, 10**9, integer=True), 10**9),
}


# a column with a fine grid makes the encoder use double precision for all
BESIDE = {
    "single": (vf.Boolean(), True),
    "double": (vf.Datetime("1900-01-01", "2100-12-31"), "2000-01-01"),
}


@pytest.mark.parametrize(("beside", "cell"), BESIDE.values(), ids=BESIDE.keys())
@pytest.mark.parametrize(("column", "value"), SPIKES.values(), ids=SPIKES.keys())
def test_a_spike_keeps_its_exact_value(column, value, beside, cell):
    table = pa.table({"a": [value], "b": [cell]})
    positions = encode(table, vf.Schema(a=column, b=beside)).positions[:, 0]
    cells = cells_of(column)
    found = cells.of(positions)
    np.testing.assert_array_equal(cells.log_size[found], 0)  # nothing else is in it
    drawn = cells.draw(np.repeat(found, 50), np.linspace(0, 1, 50, endpoint=False))
    np.testing.assert_array_equal(from_positions(column, drawn), value)


def test_cells_are_finest_around_zero_on_either_side():
    for column in (COLUMNS["many whole numbers"], COLUMNS["negative whole numbers"]):
        cells = cells_of(column)
        finest = np.flatnonzero(cells.log_size == 0)
        values = from_positions(column, cells.edges[finest])
        nearest = min(max(0, column.low), column.high)
        assert np.median(np.abs(values - nearest)) < 1000


@pytest.mark.parametrize("name", COLUMNS)
def test_densities_within_a_code_add_up_to_one(name):
    column, coder = COLUMNS[name], single(COLUMNS[name], seed=3)
    own = coder.columns[0]
    cells, bins = own.cells, own.bins
    middles = (cells.edges[:-1] + cells.edges[1:]) / 2
    middles = np.where(np.isnan(cells.points), middles, cells.points)
    if cells.steps is not None:
        middles = cells.draw(np.arange(cells.num), np.full(cells.num, 0.5))
    rows = vf.tabular.EncodedRows(np.zeros((cells.num, 1), np.int32), middles[:, None])
    density = np.exp(coder.log_within(rows) + cells.log_size)
    np.testing.assert_allclose(np.add.reduceat(density, bins.starts[:-1]), 1, rtol=1e-6)
    if column.nullable:
        gap = vf.tabular.EncodedRows(np.ones((1, 1), np.int32), np.zeros((1, 1)))
        assert coder.log_within(gap) == 0
        assert coder.codes(gap) == own.num_codes - 1


@settings(max_examples=30)
@given(
    num=st.integers(1, 6000),
    at=st.lists(st.floats(0, 1, exclude_max=True), max_size=20),
    new=st.floats(0, 1, exclude_max=True),
)
def test_one_row_more_moves_the_counts_of_all_levels_by_one(num, at, new):
    rows = (np.array([*at, new]) * num).astype(np.int64)
    moved = weighted_counts(rows, num) - weighted_counts(rows[:-1], num)
    assert np.linalg.norm(moved) == pytest.approx(1, abs=1e-12)
    assert len(moved) == sum(level_sizes(num))


@settings(max_examples=40)
@given(
    num=st.integers(1, 3000),
    seed=st.integers(0, 999),
    deviation=st.sampled_from([0.0, 1e-3, 1.0, 300.0]),
    total=st.sampled_from([1e-6, 1.0, 5e4]),
)
def test_estimates_are_not_negative_and_sum_to_the_total(num, seed, deviation, total):
    rng = np.random.default_rng(seed)
    counts = weighted_counts(rng.integers(0, num, 500), num)
    noisy = counts + deviation * rng.normal(size=counts.shape)
    found = estimated(noisy, num, deviation=deviation, total=total)
    assert found.shape == (num,)
    assert found.min() >= 0
    assert found.sum() == pytest.approx(total, rel=1e-6)


def estimated(noisy: np.ndarray, num: int, **known: float) -> np.ndarray:
    return estimate(noisy, np.linspace(0, 1, num + 1), **known).counts


def test_an_estimate_without_noise_is_the_histogram():
    rng = np.random.default_rng(0)
    at = np.concatenate([rng.integers(0, 1000, 3000), np.full(5000, 77)])
    counts = np.bincount(at, minlength=1000)
    found = estimated(weighted_counts(at, 1000), 1000, deviation=0.0, total=8000)
    np.testing.assert_allclose(found, counts, atol=1e-3)


def test_a_spike_outlives_noise_that_drowns_single_cells():
    rng = np.random.default_rng(1)
    at = np.concatenate([rng.integers(0, 4000, 2000), np.full(4000, 1234)])
    clean = weighted_counts(at, 4000)
    found = estimated(clean + 20 * rng.normal(size=clean.shape), 4000, deviation=20.0, total=6000)
    assert found[1234] == pytest.approx(4000, abs=250)
    # the rest is spread out: no cell stands out of the noise
    assert np.delete(found, 1234).max() < 120


@pytest.mark.parametrize("most", [1, 2, 7, 64])
def test_bins_are_runs_of_cells_and_heavy_cells_stand_alone(most):
    counts = np.ones(500)
    counts[[0, 250, 499]] = 2000
    bins = bins_of(counts, most=most)
    assert bins.starts[0] == 0
    assert bins.starts[-1] == 500
    assert (np.diff(bins.starts) > 0).all()
    assert bins.masses.sum() == pytest.approx(1)
    if most > 3:
        alone = np.diff(bins.starts) == 1
        for cell in (0, 250, 499):
            assert alone[bins.of(np.array([cell]))[0]]
    assert bins.num <= most + 7
