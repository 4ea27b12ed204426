"""The tables of DP-HFlow fit what is declared of them, and measures find what was found before."""

import itertools
from typing import Any

import numpy as np
import pandas as pd
import pytest
from reproductions.dp_hflow.data import load

import veilflow as vf
from veilflow.evaluation import (
    compare_classifiers,
    compare_rank_correlations,
    compare_table_marginals,
    compare_value_shares,
)

pytestmark = pytest.mark.data


def shuffled(frame):
    """Each column by itself in another order."""
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {name: frame[name].array.take(rng.permutation(len(frame))) for name in frame}
    )


def test_adult_reaches_the_distances_that_were_measured_before():
    train, test, columns = load("adult")
    apart = shuffled(train)
    marginals = [compare_table_marginals(train, other, columns) for other in (test, apart)]
    assert marginals[0].mean_one_way == pytest.approx(0.008, abs=5e-4)
    assert marginals[0].mean_two_way == pytest.approx(0.021, abs=5e-4)
    assert marginals[1].mean_one_way == 0
    assert marginals[1].mean_two_way == pytest.approx(0.079, abs=1e-3)
    held_out, broken = (compare_rank_correlations(train, f, columns) for f in (test, apart))
    assert (held_out.rmse, held_out.mae) == pytest.approx((0.007, 0.006), abs=1e-3)
    assert (broken.rmse, broken.mae) == pytest.approx((0.072, 0.061), abs=3e-3)
    zeros = compare_value_shares(train, test, columns)
    assert zeros["capital_gain"].real == pytest.approx(0.917, abs=5e-4)
    assert zeros["capital_loss"].real == pytest.approx(0.953, abs=5e-4)


@pytest.mark.slow
def test_nine_classifiers_reach_on_adult_what_was_measured_before():
    train, test, columns = load("adult")
    found = compare_classifiers(test, train, columns).mean
    assert found.auroc == pytest.approx(0.883, abs=0.005)
    assert found.macro_f1 == pytest.approx(0.774, abs=0.005)
    assert found.average_precision == pytest.approx(0.717, abs=0.005)


@pytest.mark.parametrize(
    ("name", "rows", "width", "classes"),
    [
        ("adult", (32_561, 16_281), 15, 2),
        ("covertype", (200_000, 50_000), 11, 7),
        ("census", (199_523, 99_762), 41, 2),
        ("intrusion", (395_216, 98_805), 42, 5),
    ],
)
def test_real_tables_fit_their_schemas(name, rows, width, classes):
    train, test, columns = load(name)
    assert (len(train), len(test)) == rows
    assert len(columns.names) == width
    declared: Any = columns.columns
    assert len(declared[columns.label].values) == classes
    for frame, column in itertools.product((train, test), columns.names):
        cells: Any = frame[column]
        assert declared[column].nullable or not cells.isna().any(), column
        if isinstance(declared[column], vf.Numeric):
            assert declared[column].low <= cells.min(), column
            assert cells.max() <= declared[column].high, column
        else:
            assert set(cells.dropna().unique()) <= set(declared[column].values), column
