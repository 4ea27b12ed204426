"""Round numbers: which values have which level, and weights that make a density of them."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import veilflow as vf
from veilflow.releases.table.cells import cells_of
from veilflow.releases.table.units import has_units, most_shape, units_of

COLUMNS = {
    "amounts": vf.Numeric(0, 2_000_000, integer=True),
    "both signs": vf.Numeric(-30_000, 70_000, integer=True),
    "far from zero": vf.Numeric(123, 4567, integer=True),
    "cents": vf.Numeric(0, 500, resolution=0.01),
    "steps of seven": vf.Numeric(-70_000, 70_000, integer=True, resolution=7),
    "dozens": vf.Numeric(0, 50_000, integer=True, spikes=12),
    "quarters": vf.Numeric(0, 1e6, integer=True, spikes=2500),
}


def weights_of(column: vf.Numeric, seed: int) -> np.ndarray:
    return np.exp(3 * np.random.default_rng(seed).normal(size=units_of(column).shape))


def positions(units, values: np.ndarray) -> np.ndarray:
    return (values - units.first + 0.5) / units.steps


@pytest.mark.parametrize("name", COLUMNS)
@settings(max_examples=8)
@given(seed=st.integers(0, 2**31))
def test_the_shares_of_all_values_of_a_cell_sum_to_one(name, seed):
    units, weights = units_of(COLUMNS[name]), weights_of(COLUMNS[name], seed)
    for cell in np.random.default_rng(seed).integers(0, len(units.low), 20):
        values = np.arange(units.low[cell], units.high[cell] + 1)
        at = np.full(len(values), cell)
        share = np.exp(units.log_share(weights, positions(units, values), at))
        assert share.sum() == pytest.approx(1, rel=1e-9)
        if 0 not in values:
            levels = np.bincount(units.levels(values), minlength=len(units.chain))
            np.testing.assert_array_equal(levels, units.exact[cell])


@pytest.mark.parametrize("name", COLUMNS)
def test_values_are_drawn_as_often_as_they_are_scored(name):
    units, weights = units_of(COLUMNS[name]), weights_of(COLUMNS[name], 1)
    rng = np.random.default_rng(2)
    several = np.flatnonzero(units.high - units.low > 3)
    for cell in rng.choice(several, 4):
        at = np.full(40_000, cell)
        drawn = units.values(units.draw(weights, at, rng.uniform(size=(2, len(at)))))
        assert drawn.min() >= units.low[cell]
        assert drawn.max() <= units.high[cell]
        values = np.arange(units.low[cell], units.high[cell] + 1)
        share = np.exp(units.log_share(weights, positions(units, values), at[: len(values)]))
        seen = np.bincount(drawn - units.low[cell], minlength=len(values)) / len(at)
        # six standard deviations, over all values together
        assert 0.5 * np.abs(seen - share).sum() < 3 * np.sqrt(len(values) / len(at))
        assert np.abs(seen - share).max() < 6 * np.sqrt(0.25 / len(at))


def test_the_chain_is_nested_and_has_what_was_declared():
    for column in COLUMNS.values():
        chain = units_of(column).chain
        assert chain[0] == 1
        assert all(b % a == 0 for a, b in pairwise(chain))
        assert column.spikes is None or column.spikes in chain
        magnitudes, levels = most_shape(column)
        assert units_of(column).shape[0] <= magnitudes
        assert len(chain) <= levels


def test_a_row_is_in_one_level_and_zero_in_none():
    units, cells = units_of(COLUMNS["both signs"]), cells_of(COLUMNS["both signs"])
    values = np.array([0, 1, -5, 10_000, 69_999])
    for value in values:
        at = positions(units, np.array([value]))
        assert units.counts(at, cells.of(at)).sum() == (value != 0)


def test_frequent_round_numbers_are_noticed_and_noise_is_not():
    column = COLUMNS["amounts"]
    units, cells, rng = units_of(column), cells_of(column), np.random.default_rng(3)
    rough = np.exp(rng.normal(9, 1, 40_000)).astype(int)
    round_ = np.where(rng.uniform(size=len(rough)) < 0.3, (rough // 1000 + 1) * 1000, rough)
    for values, heaped in ((rough, False), (round_, True)):
        at = positions(units, values)
        own = cells.of(at)
        counts = np.bincount(own, minlength=cells.num).astype(float)
        noisy = units.counts(at, own) + 80 * rng.normal(size=units.shape[0] * units.shape[1])
        weights = units.weights(noisy, counts, deviation=80)
        fitted = units.fitted(weights, counts, counts)
        drawn = units.values(units.draw(fitted, own, rng.uniform(size=(2, len(own)))))
        assert (weights != 1).any() == heaped
        real, kept = ((x % 1000 == 0).mean() for x in (values, drawn))
        assert kept == pytest.approx(real, rel=0.1) if heaped else kept < 0.01


def test_columns_without_a_grid_or_with_few_values_have_no_units():
    for column in (
        vf.Numeric(0, 1e6),
        vf.Numeric(0, 99, integer=True),
        vf.Numeric(0.5, 1e6, resolution=1),
        vf.Datetime("1900-01-01", "2100-01-01"),
        vf.Boolean(),
    ):
        assert units_of(column) is None
        assert not has_units(column)


@pytest.mark.parametrize(
    "facts",
    [
        {"spikes": 10},
        {"spikes": 2.5, "integer": True},
        {"spikes": 1, "integer": True},
        {"spikes": -5, "integer": True},
        {"spikes": 10, "resolution": 3},
    ],
)
def test_spikes_that_do_not_lie_on_the_grid_are_refused(facts):
    with pytest.raises(ValueError, match="spikes"):
        vf.Numeric(0, 1000, **facts)


def test_declared_spikes_survive_files(tmp_path):
    schema = vf.Schema(loan=vf.Numeric(0, 1e6, integer=True, spikes=10_000))
    schema.to_file(tmp_path / "schema.toml")
    assert vf.Schema.from_file(tmp_path / "schema.toml") == schema
    assert "spikes=10000" in repr(schema)
