"""Whatever is in a cell: decoding what was encoded gives the cell, and rows don't meet."""

import datetime as dt

import numpy as np
import pandas as pd
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

import veilflow as vf
from veilflow.tabular import decode, encode

words = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8).map(str.strip)
words = words.filter(lambda word: word and word != "(other)")


def there_and_back(column, cells, kind=None, **vocabularies):
    """The cells of one column after encoding and decoding, in pyarrow."""
    schema = vf.Schema(a=column)
    table = pa.table({"a": pa.array(cells, kind)})
    rows = encode(table, schema, vocabularies=vocabularies)
    assert rows.positions.min(initial=0) >= 0
    assert rows.positions.max(initial=0) < 1
    assert rows.codes.max(initial=0) < column.num_codes(vocabularies.get("a"))
    back = decode(rows, schema, like="pyarrow", vocabularies=vocabularies)["a"]
    # a second trip changes nothing more
    again = encode(pa.table({"a": back}), schema, vocabularies=vocabularies)
    np.testing.assert_array_equal(again.codes, rows.codes)
    np.testing.assert_allclose(again.positions, rows.positions, atol=2e-7)
    return back.to_pylist()


@given(data=st.data(), low=st.integers(-(2**52), 2**52), size=st.integers(0, 2**47))
def test_whole_numbers_in_range_come_back_exactly(data, low, size):
    high = min(low + size, 2**52)
    cells = data.draw(st.lists(st.none() | st.integers(low, high), max_size=20))
    column = vf.Numeric(low, high, integer=True, nullable=True)
    assert there_and_back(column, cells, pa.int64()) == cells


@given(
    data=st.data(),
    low=st.decimals(-1000, 1000, places=2),
    digits=st.integers(0, 4),
    num_cells=st.integers(2, 100_000),
)
def test_numbers_on_a_grid_come_back_exactly(data, low, digits, num_cells):
    step = 10.0**-digits
    high = round(float(low) + (num_cells - 1) * step, max(2, digits))
    column = vf.Numeric(float(low), high, resolution=step)
    cells = data.draw(st.lists(st.integers(0, num_cells - 1), max_size=20))
    values = [round(float(low) + cell * step, max(2, digits)) for cell in cells]
    assert there_and_back(column, values, pa.float64()) == values


@given(
    data=st.data(),
    ends=st.tuples(st.floats(-1e12, 1e12), st.floats(-1e12, 1e12)).filter(
        lambda ends: ends[1] - ends[0] > 1e-3 * max(1, abs(ends[0]), abs(ends[1]))
    ),
)
def test_reals_come_back_to_single_precision_of_their_range(data, ends):
    low, high = ends
    cells = data.draw(st.lists(st.none() | st.floats(low, high), max_size=20))
    found = there_and_back(vf.Numeric(low, high, nullable=True), cells, pa.float64())
    assert [cell is None for cell in found] == [cell is None for cell in cells]
    for cell, back in zip(cells, found, strict=True):
        if cell is not None:
            assert low <= back <= high
            assert abs(back - cell) <= 1.3e-7 * (high - low)


@given(data=st.data(), values=st.lists(words, min_size=1, max_size=10, unique=True))
def test_listed_text_comes_back(data, values):
    cells = data.draw(st.lists(st.none() | st.sampled_from(values), max_size=20))
    for kind in (vf.Categorical, vf.Ordinal):
        assert there_and_back(kind(*values, nullable=True), cells, pa.string()) == cells


@given(data=st.data(), values=st.lists(st.integers(-(2**53), 2**53), min_size=1, unique=True))
def test_listed_numbers_come_back(data, values):
    cells = data.draw(st.lists(st.none() | st.sampled_from(values), max_size=20))
    assert there_and_back(vf.Ordinal(*values, nullable=True), cells, pa.int64()) == cells


@given(data=st.data(), values=st.lists(words, max_size=10, unique=True))
def test_open_text_comes_back_where_it_was_discovered(data, values):
    cells = data.draw(st.lists(st.none() | words, max_size=20))
    found = there_and_back(vf.OpenCategorical(nullable=True), cells, pa.string(), a=values)
    for cell, back in zip(cells, found, strict=True):
        assert back == cell if cell in values or cell is None else back in ("(other)", None)


@given(cells=st.lists(st.none() | st.booleans(), max_size=20))
def test_truths_come_back(cells):
    assert there_and_back(vf.Boolean(nullable=True), cells, pa.bool_()) == cells


@given(
    cells=st.lists(st.none() | st.datetimes(), max_size=20),
    word=st.sampled_from(["second", "minute", "hour", "day"]),
)
def test_moments_come_back_at_the_beginning_of_their_step(cells, word):
    column = vf.Datetime(dt.date.min, dt.date.max, resolution=word, nullable=True)
    found = there_and_back(column, cells, pa.timestamp("us"))
    first = dt.datetime.min
    for cell, back in zip(cells, found, strict=True):
        expected = cell and first + (cell - first) // column.step * column.step
        assert back == (expected.date() if expected and word == "day" else expected)


HOSTILE = vf.Schema(
    a=vf.Numeric(0, 9, integer=True),
    b=vf.Numeric(0, 1, nullable=True),
    c=vf.Categorical("x", "NA"),
    d=vf.Ordinal(1, 2, nullable=True),
    e=vf.Boolean(),
    f=vf.Datetime("1900-01-01", "2000-01-01"),
    g=vf.OpenCategorical(),
)
hostile = (
    st.none()
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
    | st.sampled_from(["x", "NA", "1", "1.0", "0x1", "1_0", "2020-02-31", "nan", "-inf", "\u0661"])
    | st.floats()
    | st.integers(-(2**80), 2**80)
    | st.booleans()
    | st.datetimes()
    | st.dates()
    | st.decimals()
    | st.binary(max_size=2)
)
rows = st.lists(st.tuples(*[hostile] * len(HOSTILE.columns)), max_size=6)


def frame(cells):
    series = [pd.Series([row[i] for row in cells], dtype=object) for i in range(len(HOSTILE.names))]
    return pd.DataFrame(dict(zip(HOSTILE.names, series, strict=True)))


@given(first=rows, second=rows)
def test_with_replacement_no_cell_is_an_error_and_no_row_changes_how_another_is_read(first, second):
    def encoded(cells):
        return encode(frame(cells), HOSTILE, vocabularies={"g": ("x",)}, invalid="replace")

    together, one, other = encoded([*first, *second]), encoded(first), encoded(second)
    np.testing.assert_array_equal(together.codes, np.concatenate([one.codes, other.codes]))
    np.testing.assert_array_equal(
        together.positions, np.concatenate([one.positions, other.positions])
    )
    assert np.isfinite(together.positions).all()
    decode(together, HOSTILE, vocabularies={"g": ("x",)})
