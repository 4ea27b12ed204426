"""The generated tables have the structures they are there for, and the measures see them go."""

import numpy as np
import pandas as pd
import pytest
from benchmarks import generated_structures, structures

NINE = {
    "round numbers",
    "codes among numbers",
    "joint gaps",
    "implied gaps",
    "near-equal columns",
    "functions of columns",
    "clock times",
    "heavy tails",
    "long lists",
}
ROWS = 20_000
SOME = {
    "round numbers, a quarter": (0.24, 0.26),
    "joint gaps": (0.0215, 0.0275),
    "near-equal columns": (0.9985, 0.9999),
    "heavy tails": (0.92, 0.98),
}
"""What holds in some rows only; all else holds in each."""


@pytest.fixture(scope="module", params=list(generated_structures.TABLES))
def made(request):
    frame, schema = generated_structures.TABLES[request.param](ROWS, seed=5)
    return request.param, frame, schema


def test_one_table_has_all_nine_structures():
    assert {one.kind for one in structures.STRUCTURES["accounts"]} >= NINE


def test_real_rows_have_the_structures(made):
    name, frame, _ = made
    for one in structures.kept(name, frame, frame):
        low, high = SOME.get(one.kind, (1.0, 1.0))
        assert low <= one.real <= high, one
        assert one.synthetic == one.real


def test_fresh_rows_of_the_same_table_keep_them(made):
    name, frame, _ = made
    fresh, _ = generated_structures.TABLES[name](ROWS, seed=6)
    for one in structures.kept(name, frame, fresh):
        assert one.synthetic == pytest.approx(
            one.real, abs=0.2 if one.kind == "long lists" else 0.03
        )


def test_columns_without_each_other_lose_what_joins_columns(made):
    name, frame, _ = made
    rng = np.random.default_rng(0)
    alone = pd.DataFrame({c: frame[c].to_numpy()[rng.permutation(ROWS)] for c in frame})
    for one in structures.kept(name, frame, alone):
        of_one_column = ("round", "codes", "clock", "long")
        if not one.kind.startswith(of_one_column):
            assert one.synthetic < 0.95 * one.real, one


def test_noise_within_columns_loses_what_is_in_a_column(made):
    name, frame, schema = made
    rng = np.random.default_rng(0)
    numbers = {n: c for n, c in schema.columns.items() if c.kind == "numeric"}
    noisy = frame.assign(**{n: rng.integers(c.low, c.high, ROWS) for n, c in numbers.items()})
    for one in structures.kept(name, frame, noisy):
        if one.kind.startswith(("round", "codes", "clock")):
            assert one.synthetic < 0.7 * one.real, one


def test_rows_are_as_the_schema_says_and_a_seed_repeats_them(made):
    name, frame, schema = made
    assert list(frame) == list(schema.names)
    again, _ = generated_structures.TABLES[name](ROWS, seed=5)
    pd.testing.assert_frame_equal(frame, again)
    for column_name, column in schema.columns.items():
        cells = frame[column_name]
        assert cells.isna().any() <= column.nullable
        if column.kind == "numeric":
            assert cells.dropna().between(column.low, column.high).all()
        else:
            assert set(cells.dropna()) <= set(column.values)
