"""One release for the histograms of all columns: how far a record moves it, and what comes of it."""

import numpy as np
import pandas as pd
import pytest

import veilflow as vf
from tests.models.table import small
from veilflow._core.keys import Secret
from veilflow.models.table.coder import Coder, coder_of, shares
from veilflow.privacy.guarantees import Released, Sensitive
from veilflow.privacy.mechanisms import gaussian_once
from veilflow.releases.release import Tools
from veilflow.releases.table import histograms
from veilflow.releases.table.cells import cells_of
from veilflow.releases.table.histograms import ColumnHistograms, level_sizes
from veilflow.tabular.codec import EncodedRows, encode

WORDS = {"city": ("oslo", "paris", "rome")}
COLUMNS = tuple(small.SCHEMA.columns.values())
SIZES = [column.num_codes(WORDS.get(name)) for name, column in small.SCHEMA.columns.items()]


def encoded(table: pd.DataFrame) -> EncodedRows:
    return encode(table, small.SCHEMA, vocabularies=WORDS)


def release_of(num_columns: int, noise_multiplier: float) -> ColumnHistograms:
    return ColumnHistograms(
        num_columns=num_columns,
        most_numbers=10**6,
        most_touched=100,
        noise_multiplier=noise_multiplier,
    )


def counted(rows: EncodedRows, noise_multiplier: float = 3.0, seed: int = 0) -> Released:
    release, tools = release_of(len(COLUMNS), noise_multiplier), Tools(Secret.from_seed(seed))
    return release.run(Sensitive(rows), tools, columns=COLUMNS, sizes=SIZES)


def coded(rows: EncodedRows, noise_multiplier: float = 3.0, seed: int = 0) -> Coder:
    return coder_of(
        counted(rows, noise_multiplier, seed).value,
        COLUMNS,
        deviation=release_of(len(COLUMNS), noise_multiplier).deviation,
        most_bins=8,
        num_records=len(rows),
    )


@pytest.fixture
def asked(monkeypatch):
    """What is asked of the records, before the noise."""
    seen = []

    def spy(query, **settings):
        seen.append(query)
        return gaussian_once(query, **settings)

    monkeypatch.setattr(histograms, "gaussian_once", spy)
    return seen


def test_a_missing_cell_is_counted_as_missing_and_nowhere_else(asked):
    table = small.frame(40)
    for age in (20.0, 80.0):  # what a record would have said says nothing
        table["age"] = age
        table.loc[:, "age"] = np.nan
        counted(encoded(table))
    first, second = asked
    np.testing.assert_array_equal(first.total, second.total)
    gone = len(first.total) - sum(SIZES[2:5]) - 2 - _nodes("gain") - _nodes("seen")
    assert first.total[:gone][:-1].sum() == 0
    assert first.total[gone - 1] == 40


def _nodes(name: str) -> int:
    return sum(level_sizes(cells_of(small.SCHEMA.columns[name]).num))


def test_a_constant_column_is_not_copied_out():
    table = small.frame(300).assign(
        sex="F", age=33.0, gain=12.5, city="rome", grade=None, smoker=True
    )
    coders = [coded(encoded(table), seed=seed) for seed in range(8)]
    for j in range(len(COLUMNS)):
        own = [coder.columns[j] for coder in coders]
        for column in own:
            assert column.mass.min() > 0  # every code that is declared stays possible
            assert column.mass.sum() == pytest.approx(1)
        masses = [column.mass if column.bins is None else column.bins.mass for column in own]
        assert min(mass.min() for mass in masses) > 0
        # noise that falls below zero is cut off there, but not eight times
        assert len({mass.tobytes() for mass in masses}) > 1


def test_shares_follow_the_counts_where_noise_is_small():
    counts = np.array([700.0, 250.0, 50.0, 0.0])
    found = shares(counts + np.array([1, -1, 2, -3]), deviation=2.0, total=1000)
    np.testing.assert_allclose(found, counts / 1000, atol=0.004)
    assert found.min() > 0


@pytest.mark.parametrize(
    "counts",
    [np.zeros(1), np.full(5, -1e9), np.array([1e12, -1e12]), np.zeros(5000), np.array([3.0, 1e-9])],
    ids=["one code", "all negative", "far apart", "many codes", "tiny"],
)
def test_shares_are_positive_and_sum_to_one_whatever_the_noise(counts):
    found = shares(counts, deviation=10.0, total=100)
    assert found.min() > 0
    assert found.sum() == pytest.approx(1)


def test_without_noise_masses_are_the_shares_of_the_rows():
    table = small.frame(400)
    coder = coded(encoded(table), noise_multiplier=0.0)
    sex, smoker = coder.columns[3], coder.columns[6]
    np.testing.assert_allclose(sex.mass[0], (table.sex == "F").mean(), atol=2e-3)
    np.testing.assert_allclose(smoker.mass[1], table.smoker.mean(), atol=2e-3)
    assert coder.columns[0].mass[-1] == pytest.approx(table.age.isna().mean())
    gain = coder.columns[1]
    zero = gain.cells.of(np.float32([50 / 1050]))  # its position from -50 to 1000
    assert gain.bins.mass[zero][0] == pytest.approx((table.gain == 0).mean(), abs=2e-3)
    assert np.diff(gain.bins.starts)[gain.bins.of(zero)] == 1  # a bin for itself


def test_schema_without_positions_has_no_cells():
    schema = vf.Schema(a=vf.Boolean(), b=vf.Categorical("x", "y"))
    rows = encode(pd.DataFrame({"a": [True, False], "b": ["x", "x"]}), schema)
    columns, tools = tuple(schema.columns.values()), Tools(Secret.from_seed(0))
    counts = release_of(2, 0.0).run(Sensitive(rows), tools, columns=columns, sizes=[2, 2]).value
    coder = coder_of(counts, columns, deviation=0.0, most_bins=4, num_records=2)
    np.testing.assert_array_equal(coder.codes(rows), rows.codes)
    assert all(column.cells is None for column in coder.columns)
