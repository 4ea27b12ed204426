import datetime as dt
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import ipc, parquet

import veilflow as vf
from veilflow.tabular import EncodedRows, decode, encode, iter_encoded, open_values, write_encoded

SCHEMA = vf.Schema(
    age=vf.Numeric(17, 90, integer=True),
    gain=vf.Numeric(0, 100, nullable=True),
    sex=vf.Categorical("F", "M"),
    grade=vf.Ordinal(1, 2, 3, nullable=True),
    smoker=vf.Boolean(nullable=True),
    born=vf.Datetime("1850-01-01", "2020-12-31", resolution="day"),
)
FRAME = pd.DataFrame(
    {
        "age": [17, 40, 90],
        "gain": [0.0, np.nan, 75.0],
        "sex": ["F", "M", "F"],
        "grade": pd.array([3, None, 1], "Int64"),
        "smoker": pd.array([True, False, None], "boolean"),
        "born": pd.to_datetime(["1850-01-01", "1999-12-31", "2020-12-31"]),
    }
)
CODES = [[0, 0, 0, 2, 1, 0], [0, 1, 1, 3, 0, 0], [0, 0, 0, 0, 2, 0]]


def test_cells_become_codes_and_positions_in_the_order_of_the_schema():
    rows = encode(FRAME[FRAME.columns[::-1]], SCHEMA)
    assert rows.codes.dtype == np.int32
    assert rows.positions.dtype == np.float32
    np.testing.assert_array_equal(rows.codes, CODES)
    np.testing.assert_allclose(rows.positions[:, 0], (np.array([0, 23, 73]) + 0.5) / 74, 1e-6)
    np.testing.assert_allclose(rows.positions[:, 1], [0, 0, 0.75])
    np.testing.assert_array_equal(rows.positions[:, 2:5], 0)
    num_days = SCHEMA.columns["born"].num_cells
    assert num_days is not None
    np.testing.assert_allclose(rows.positions[[0, 2], 5], [0.5 / num_days, 1 - 0.5 / num_days])


def test_decoding_gives_the_frame_back_in_types_that_may_have_gaps_where_declared():
    like = FRAME[FRAME.columns[::-1]]
    found = decode(encode(like, SCHEMA), SCHEMA, like=like)
    assert list(found.columns) == list(like.columns)
    assert found["born"].dtype.kind == "M"
    pd.testing.assert_frame_equal(
        found.astype({"born": like["born"].dtype}), like, check_dtype=True
    )
    # the types are those of the schema, whatever happens to be in the rows
    one = decode(encode(FRAME.head(1), SCHEMA), SCHEMA, like=FRAME)
    assert (one.dtypes == found[FRAME.columns].dtypes).all()


def polars_frame():
    return pytest.importorskip("polars").from_arrow(pa.Table.from_pandas(FRAME))


LIKE = {
    "pandas": lambda: FRAME,
    "pyarrow": lambda: pa.Table.from_pandas(FRAME, preserve_index=False),
    "polars": polars_frame,
}


@pytest.mark.parametrize("make", LIKE.values(), ids=LIKE.keys())
def test_a_frame_comes_back_as_the_kind_it_came_as(make):
    frame = make()
    rows = encode(frame, SCHEMA)
    np.testing.assert_array_equal(rows.codes, CODES)
    found = decode(rows, SCHEMA, like=frame)
    assert type(found) is type(frame)
    np.testing.assert_array_equal(encode(found, SCHEMA).codes, rows.codes)
    np.testing.assert_allclose(encode(found, SCHEMA).positions, rows.positions, atol=1e-7)


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet", ".arrow"])
def test_files_come_back_with_the_same_columns_types_and_gaps(suffix, tmp_path):
    path = tmp_path / f"t{suffix}"
    rows = encode(FRAME, SCHEMA)
    write_encoded([rows.take(slice(0, 2)), rows.take(slice(2, None))], path, SCHEMA)
    for chunk in (1, 2, 100):
        parts = list(iter_encoded(path, SCHEMA, chunk=chunk))
        assert max(map(len, parts)) <= chunk
        found = EncodedRows.concatenate(parts)
        np.testing.assert_array_equal(found.codes, rows.codes)
        np.testing.assert_allclose(found.positions, rows.positions, atol=1e-7)
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_text_is_written_as_people_write_it(tmp_path):
    schema = vf.Schema(
        a=vf.Numeric(0, 9, integer=True, nullable=True),
        b=vf.Datetime("2000-01-01", "2001-01-01", resolution="day"),
        c=vf.Datetime("2000-01-01", "2001-01-01", resolution="minute"),
        d=vf.Numeric(0, 1, resolution=0.01),
        e=vf.Boolean(),
    )
    frame = pd.DataFrame(
        {"a": [3, None], "b": ["2000-02-03"] * 2, "c": ["2000-02-03T04:05"] * 2, "d": 0.07}
    ).assign(e=True)
    write_encoded([encode(frame, schema)], tmp_path / "t.csv", schema)
    lines = (tmp_path / "t.csv").read_text().splitlines()
    assert lines[0] == "a,b,c,d,e"
    assert lines[1] == "3,2000-02-03,2000-02-03 04:05:00,0.07,true"
    assert lines[2].startswith(",2000-02-03,")


def test_neither_rows_nor_their_number_are_shown():
    assert repr(encode(FRAME, SCHEMA)) == "EncodedRows(columns=6)"


def test_tables_with_no_row_and_with_one_row_are_tables(tmp_path):
    for num_rows in (0, 1):
        rows = encode(FRAME.head(num_rows), SCHEMA)
        assert rows.codes.shape == rows.positions.shape == (num_rows, 6)
        found = decode(rows, SCHEMA)
        assert len(found) == num_rows
        assert list(found.columns) == list(SCHEMA.names)
        for suffix in (".csv", ".parquet", ".arrow"):
            write_encoded([rows], tmp_path / f"t{suffix}", SCHEMA)
            assert len(encode(tmp_path / f"t{suffix}", SCHEMA)) == num_rows
    (tmp_path / "h.csv").write_text(",".join(SCHEMA.names))
    assert len(encode(tmp_path / "h.csv", SCHEMA)) == 0


def test_values_out_of_range_are_moved_to_the_nearer_bound():
    schema = vf.Schema(
        a=vf.Numeric(0, 10, integer=True),
        b=vf.Numeric(-1, 1),
        c=vf.Datetime("1900-01-01", "1900-12-31", resolution="day"),
    )
    hostile = [-np.inf, -1e308, np.inf, 1e308]
    days = ["0001-01-01", "1752-09-14", "9999-12-31", "2400-02-29"]
    found = decode(encode(pd.DataFrame({"a": hostile, "b": hostile, "c": days}), schema), schema)
    assert found["a"].tolist() == [0, 0, 10, 10]
    np.testing.assert_allclose(found["b"], [-1, -1, 1, 1], atol=1e-6)
    assert [str(day)[:10] for day in found["c"]] == ["1900-01-01"] * 2 + ["1900-12-31"] * 2


def test_moments_beyond_any_calendar_are_moved_into_range():
    schema = vf.Schema(a=vf.Datetime("1900-01-01", "1900-12-31", resolution="day"))
    table = pa.table({"a": pa.array([-(2**62), 2**62], pa.timestamp("s"))})
    found = decode(encode(table, schema), schema, like="pyarrow")["a"].to_pylist()
    assert found == [dt.date(1900, 1, 1), dt.date(1900, 12, 31)]


def test_decoded_values_stay_in_range_whatever_the_positions():
    rows = encode(FRAME, SCHEMA)
    for position in (-np.inf, -1.0, 1.0, np.inf):
        positions = np.full_like(rows.positions, position)
        found = decode(EncodedRows(rows.codes, positions), SCHEMA)
        assert found["age"].between(17, 90).all()
        assert found["gain"].dropna().between(0, 100).all()
        assert found["born"].between(pd.Timestamp("1850-01-01"), pd.Timestamp("2020-12-31")).all()
    with pytest.raises(ValueError, match="NaN"):
        decode(EncodedRows(rows.codes, np.full_like(rows.positions, np.nan)), SCHEMA)
    with pytest.raises(ValueError, match="codes of column 'age'"):
        decode(EncodedRows(rows.codes + 9, rows.positions), SCHEMA)
    with pytest.raises(ValueError, match="6 columns"):
        decode(EncodedRows(rows.codes[:, :2], rows.positions[:, :2]), SCHEMA)


READS_AS_NUMBER = {
    "text": (["1", " 2.5 ", "+3", "1e1"], [1, 2.5, 3, 10]),
    "text and numbers": ([1, "2", 2.5, Decimal("3")], [1, 2, 2.5, 3]),
    "truths": ([True, False], [1, 0]),
    "infinite": (["-inf", "Infinity", "1e400"], [0, 100, 100]),
    "decimals": ([Decimal("1.25"), Decimal("7")], [1.25, 7]),
    "gaps": (["", "NA", "?", None, "null", float("nan")], [None] * 6),
    "huge": ([2**70, 1], [100, 1]),
}


@pytest.mark.parametrize(("given", "expected"), READS_AS_NUMBER.values(), ids=READS_AS_NUMBER)
def test_numbers_are_read_from_whatever_says_them(given, expected):
    schema = vf.Schema(a=vf.Numeric(0, 100, nullable=True))
    found = decode(encode(pd.DataFrame({"a": pd.Series(given, dtype=object)}), schema), schema)
    np.testing.assert_allclose(found["a"], np.array(expected, float), atol=1e-4, equal_nan=True)


LISTED = {
    "text": (("1", "b"), ["1", " b ", "?", 1, 1.0], [0, 1, 2, 0, 0]),
    "floats": (("1", "2.5"), [1.0, 2.5, float("nan")], [0, 1, 2]),
    "whole numbers": ((3, 1), ["3", 1, 1.0, "1.0", None], [0, 1, 1, 1, 2]),
    "declared gaps": (("?", "NA"), ["?", "NA", "null"], [0, 1, 2]),
    "categories": (("a", "b"), pd.Categorical(["b", None, "a"]), [1, 2, 0]),
    "dates": (("2000-01-31", "x"), [dt.date(2000, 1, 31), "x"], [0, 1]),
    "truths": (("True", "False"), [True, False], [0, 1]),
}


@pytest.mark.parametrize(("values", "given", "expected"), LISTED.values(), ids=LISTED.keys())
def test_listed_values_are_found_whatever_type_the_cells_have(values, given, expected):
    schema = vf.Schema(a=vf.Categorical(*values, nullable=True))
    cells = given if isinstance(given, pd.Categorical) else pd.Series(given, dtype=object)
    assert encode(pd.DataFrame({"a": cells}), schema).codes[:, 0].tolist() == expected


def test_truths_and_moments_are_read_from_words():
    schema = vf.Schema(a=vf.Boolean(), b=vf.Datetime("1500-01-01", "2100-01-01"))
    frame = pd.DataFrame(
        {
            "a": ["TRUE", "yes", "1", "f", "No", "0.0"],
            "b": [
                "1500-06-01",
                " 1999-12-31 23:59:59 ",
                "1999-12-31T23:59",
                "2000-01-01T01:00:00+01:00",
                "2000-01-01T00:00:00Z",
                "20000101",
            ],
        }
    )
    found = decode(encode(frame, schema), schema, like="pyarrow")
    assert found["a"].to_pylist() == [True, True, True, False, False, False]
    new_year = dt.datetime(2000, 1, 1)
    assert found["b"].to_pylist() == [
        dt.datetime(1500, 6, 1),
        dt.datetime(1999, 12, 31, 23, 59, 59),
        dt.datetime(1999, 12, 31, 23, 59),
        new_year,
        new_year,
        new_year,
    ]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_moments_of_every_unit_and_zone_are_read_alike(unit):
    schema = vf.Schema(a=vf.Datetime("1700-01-01", "2200-01-01"))
    times = pd.to_datetime(["1705-03-04 05:06:07"]).tz_localize("UTC")
    table = pa.table(
        {"a": pa.array(times.tz_convert("Asia/Tokyo")).cast(pa.timestamp(unit, "UTC"))}
    )
    found = decode(encode(table, schema), schema, like="pyarrow")["a"].to_pylist()
    assert found == [dt.datetime(1705, 3, 4, 5, 6, 7)]


def test_a_grid_of_many_values_keeps_every_one_of_them():
    schema = vf.Schema(
        a=vf.Numeric(0, 9_999_999, integer=True), b=vf.Datetime("0001-01-01", "9999-12-31")
    )
    numbers = np.random.default_rng(0).integers(0, 10_000_000, 10_000)
    seconds = np.random.default_rng(1).integers(-62_135_596_800, 253_402_300_799, 10_000)
    table = pa.table({"a": numbers, "b": pa.array(seconds).cast(pa.timestamp("s"))})
    rows = encode(table, schema)
    assert rows.positions.dtype == np.float64
    found = decode(rows, schema, like="pyarrow")
    np.testing.assert_array_equal(found["a"].to_numpy(), numbers)
    np.testing.assert_array_equal(found["b"].cast(pa.timestamp("s")).cast(pa.int64()), seconds)


OPEN = vf.Schema(city=vf.OpenCategorical(nullable=True))
CITIES = pd.DataFrame({"city": ["Ulm", " Bern", None, "Oslo", "Ulm", "n/a", "(other)"]})


def test_open_columns_know_their_vocabulary_and_call_the_rest_other():
    vocabularies = {"city": ("Bern", "Ulm")}
    rows = encode(CITIES, OPEN, vocabularies=vocabularies)
    assert rows.codes[:, 0].tolist() == [1, 0, 3, 2, 1, 3, 2]
    found = decode(rows, OPEN, like="pyarrow", vocabularies=vocabularies)["city"].to_pylist()
    assert found == ["Ulm", "Bern", None, "(other)", "Ulm", None, "(other)"]
    again = encode(pa.table({"city": found}), OPEN, vocabularies=vocabularies)
    np.testing.assert_array_equal(again.codes, rows.codes)
    nothing = encode(CITIES, OPEN, vocabularies={"city": ()})
    assert set(nothing.codes[:, 0].tolist()) == {0, 1}


@pytest.mark.parametrize("suffix", [None, ".csv", ".parquet"])
def test_what_open_columns_say_is_read_as_it_is_encoded(suffix, tmp_path):
    source = CITIES
    if suffix:
        source = tmp_path / f"t{suffix}"
        CITIES.to_csv(source, index=False) if suffix == ".csv" else CITIES.to_parquet(source)
    values, places = open_values(source, OPEN)["city"]
    assert [values[i] if i >= 0 else None for i in places] == [
        "Ulm",
        "Bern",
        None,
        "Oslo",
        "Ulm",
        None,
        None,
    ]
    assert len(set(values)) == len(values) == 3


@pytest.mark.parametrize(
    ("vocabularies", "message"),
    [
        (None, "has no vocabulary"),
        ({"city": ("a", "a")}, "twice"),
        ({"city": ("(other)",)}, "must not hold"),
        ({"city": "ab"}, "list of texts"),
        ({"city": ("a",), "town": ()}, "not an open column"),
    ],
)
def test_a_wrong_vocabulary_is_refused(vocabularies, message):
    with pytest.raises((ValueError, TypeError), match=message):
        encode(CITIES, OPEN, vocabularies=vocabularies)


def test_unknown_bounds_are_not_read_from_the_data():
    with pytest.raises(ValueError, match=r"'a' has no bounds.*not read from the data"):
        encode(pd.DataFrame({"a": [1.0]}), vf.Schema(a=vf.Numeric()))


def test_fifty_thousand_values_are_encoded_and_decoded():
    words = [f"word {i}" for i in range(50_000)]
    schema = vf.Schema(a=vf.Categorical(*words), b=vf.OpenCategorical())
    frame = pd.DataFrame({"a": words, "b": words[::-1]})
    rows = encode(frame, schema, vocabularies={"b": words})
    found = decode(rows, schema, vocabularies={"b": words})
    assert found["a"].tolist() == words
    assert found["b"].tolist() == words[::-1]


def test_an_arrow_stream_is_read_block_by_block(tmp_path):
    table = pa.table({"a": list(range(10))})
    schema = vf.Schema(a=vf.Numeric(0, 9, integer=True))
    with ipc.new_stream(str(tmp_path / "t.arrow"), table.schema) as writer:
        writer.write_table(table, max_chunksize=4)
    parts = list(iter_encoded(tmp_path / "t.arrow", schema, chunk=3))
    assert [len(part) for part in parts if len(part)] == [3, 1, 3, 1, 2]


def test_a_large_parquet_file_is_never_in_memory_as_a_whole(tmp_path):
    path = tmp_path / "t.parquet"
    with parquet.ParquetWriter(str(path), pa.schema([("a", pa.float64())])) as writer:
        for _ in range(20):
            writer.write_table(pa.table({"a": np.random.default_rng(0).random(100_000)}))
    before = pa.total_allocated_bytes()
    peak = 0
    for part in iter_encoded(path, vf.Schema(a=vf.Numeric(0, 1)), chunk=1000):
        peak = max(peak, pa.total_allocated_bytes() - before)
        assert len(part) <= 1000
    assert 0 < peak < 8_000_000  # of 16,000,000
