import pickle

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from veilflow.tabular import Rows, read_rows, write_rows

SUFFIXES = [".csv", ".tsv", ".parquet", ".pq", ".arrow", ".feather", ".ipc", ".npz"]
FUZZ = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
finite = st.floats(allow_nan=False, allow_infinity=False)


def text_file(folder, text, name="t.csv"):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_every_format_gives_back_the_same_numbers_and_names(suffix, tmp_path):
    rng = np.random.default_rng(0)
    values = rng.standard_normal((70_000, 2)) * 10.0 ** rng.integers(-300, 300, (70_000, 2))
    write_rows(Rows(values, ("a b", 'quo"te, comma')), tmp_path / f"t{suffix}")
    rows = read_rows(tmp_path / f"t{suffix}")
    np.testing.assert_array_equal(rows.values, values)
    assert rows.columns == ("a b", 'quo"te, comma')
    assert len(list(tmp_path.iterdir())) == 1


@FUZZ
@given(values=hnp.arrays(np.float64, hnp.array_shapes(min_dims=2, max_dims=2), elements=finite))
def test_csv_keeps_every_bit_of_every_finite_number(values, tmp_path):
    write_rows(values, tmp_path / "t.csv")
    np.testing.assert_array_equal(read_rows(tmp_path / "t.csv").values, values)


def test_unnamed_columns_are_numbered_in_text_and_stay_unnamed_in_numpy_files(tmp_path):
    values = np.arange(6.0).reshape(2, 3)
    for suffix, columns in ((".csv", ("x1", "x2", "x3")), (".npz", None), (".npy", None)):
        write_rows(values, tmp_path / f"t{suffix}")
        rows = read_rows(tmp_path / f"t{suffix}")
        np.testing.assert_array_equal(rows.values, values)
        assert rows.columns == columns


def test_a_failed_write_leaves_the_old_file(tmp_path):
    path = text_file(tmp_path, "old")
    with pytest.raises(ValueError, match="occurs twice"):
        write_rows(Rows(np.zeros((1, 2)), ("a", "a")), path)
    assert path.read_text() == "old"


MESSY = {
    "byte order mark": b"\xef\xbb\xbfa,b\n1,2\n3,4\n",
    "blank lines": "\n\na,b\n\n1,2\n   \n3,4\n\n",
    "quoted numbers": '"a","b"\n"1","2"\n"3","4"\n',
    "spaces": " a , b \n 1 , 2 \n3 ,4  \n",
    "spaces in quotes": '"a", "b"\n" 1 ", "2"\n"3","4 "\n',
    "windows lines": "a,b\r\n1,2\r\n3,4\r\n",
    "old mac lines": "a,b\r1,2\r3,4\r",
    "semicolons": "a;b\n1;2\n3;4\n",
    "tabs": "a\tb\n1\t2\n3\t4\n",
    "no last newline": "a,b\n1,2\n3,4",
    "exponents": "a,b\n1e0,20E-1\n+3.,.4e1\n",
}


@pytest.mark.parametrize("text", MESSY.values(), ids=MESSY.keys())
def test_messy_text_is_read_as_what_it_means(text, tmp_path):
    rows = read_rows(text_file(tmp_path, text))
    assert rows.columns == ("a", "b")
    np.testing.assert_array_equal(rows.values, [[1, 2], [3, 4]])


def test_a_first_line_of_numbers_is_a_row_and_not_a_header(tmp_path):
    rows = read_rows(text_file(tmp_path, "\n1,2\n3,4\n"))
    assert rows.columns is None
    np.testing.assert_array_equal(rows.values, [[1, 2], [3, 4]])


def test_a_header_without_rows_is_a_table_without_rows(tmp_path):
    rows = read_rows(text_file(tmp_path, "a,b\n"))
    assert rows.values.shape == (0, 2)
    assert rows.columns == ("a", "b")


def test_one_row_and_one_column_are_a_table(tmp_path):
    assert read_rows(text_file(tmp_path, "a\n7\n")).values.tolist() == [[7.0]]


# Each text holds 8675309 or SECRET in a cell: neither may appear in the error.
BAD = {
    "missing": ("a,bee\n8675309,1\n2,\n", r"column 2 of 2 has missing cells"),
    "missing words": ("a,bee\n8675309,1\n2,NA\n", r"column 2 of 2 has missing cells"),
    "missing with spaces": ('a,bee\n8675309,1\n2,"  "\n', r"column 2 of 2 has missing cells"),
    "nan": ("a,bee\n8675309,1\n2,nan\n", r"column 2 of 2 has missing cells"),
    "short line": ("a,bee\n8675309,1\n2\n", r"column 2 of 2 has missing cells"),
    "infinite": ("a,bee\n8675309,1\n2,-inf\n", r"column 2 of 2 has cells that are infinite"),
    "too large": ("a,bee\n8675309,1\n2,1e400\n", r"column 2 of 2 has cells that are infinite"),
    "words": ("a,bee\n8675309,SECRET\n2,3\n", r"column 2 of 2 is not numeric"),
    "all words": ("a,bee\n8675309,SECRET\n2,SECRET2\n", r"column 2 of 2 is not numeric"),
    "words and gaps": ("a,bee\n8675309,SECRET\n2,\n", r"column 2 of 2 is not numeric"),
    "dates": ("a,bee\n8675309,2020-01-01\n2,2020-01-02\n", r"column 2 of 2 is not numeric"),
    "decimal commas": ('a,bee\n8675309,"1,5"\n2,"2,5"\n', r"column 2 of 2 is not numeric"),
    "long line": ("a,bee\n8675309,1\n2,3,SECRET\n", "more cells"),
    "long first line": ("a,bee\n8675309,1,SECRET\n2,3,4\n", "more cells"),
    "open quote": ('a,bee\n8675309,"SECRET\n2,3\n', "is not numeric|quote|missing"),
    "twice": ("a,a\n8675309,1\n", "occurs twice"),
    "no name": ("a,\n8675309,1\n", "column 2 of 2 of t.csv has no name"),
    "a row for a header": ("SECRET,8675309\nx,1\n", "column 2 of 2 of t.csv has no name"),
    "utf-16": ("a,bee\n8675309,1\n".encode("utf-16"), "UTF-8"),
    "late bytes": (b"a,bee\n8675309,1\n" * 1 + b"2,\xff\n", "UTF-8"),
    "empty": ("", "is empty"),
    "blank": ("\n \n\n", "is empty"),
}


@pytest.mark.parametrize(("text", "message"), BAD.values(), ids=BAD.keys())
def test_bad_text_is_refused_by_column_and_reason_without_showing_a_cell(text, message, tmp_path):
    with pytest.raises(ValueError, match=message) as info:
        read_rows(text_file(tmp_path, text))
    assert "8675309" not in str(info.value)
    assert "SECRET" not in str(info.value)
    assert info.value.__suppress_context__ or info.value.__context__ is None


@FUZZ
@given(data=st.binary(max_size=200), suffix=st.sampled_from([*SUFFIXES, ".npy"]))
def test_garbage_of_any_suffix_is_refused_or_is_a_finite_table(data, suffix, tmp_path):
    try:
        rows = read_rows(text_file(tmp_path, data, f"g{suffix}"))
    except (ValueError, TypeError):
        return
    assert rows.values.ndim == 2
    assert np.isfinite(rows.values).all()


@pytest.mark.parametrize("suffix", [s for s in SUFFIXES if s not in (".csv", ".tsv")])
def test_a_truncated_binary_file_is_refused(suffix, tmp_path):
    path = tmp_path / f"t{suffix}"
    write_rows(np.arange(2000.0).reshape(-1, 2), path)
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(ValueError, match="not a readable"):
        read_rows(path)


def test_numpy_files_with_python_objects_are_refused_and_run_nothing(tmp_path):
    np.save(tmp_path / "t.npy", np.array([{}], dtype=object), allow_pickle=True)
    np.savez(tmp_path / "t.npz", values=np.array([{}], dtype=object), allow_pickle=True)
    (tmp_path / "p.npy").write_bytes(pickle.dumps([1]))
    for name in ("t.npy", "t.npz", "p.npy"):
        with pytest.raises(ValueError, match="NumPy file of plain numbers"):
            read_rows(tmp_path / name)


def test_several_arrays_in_one_file_must_be_told_apart(tmp_path):
    np.savez(tmp_path / "t.npz", a=np.zeros((1, 1)), b=np.ones((1, 1)))
    with pytest.raises(ValueError, match="'values'"):
        read_rows(tmp_path / "t.npz")


def test_an_arrow_stream_is_read_like_an_arrow_file(tmp_path):
    table = pa.table({"a": [1.0, 2.0]})
    with (
        pa.OSFile(str(tmp_path / "t.arrow"), "wb") as sink,
        pa.ipc.new_stream(sink, table.schema) as writer,
    ):
        writer.write_table(table)
    assert read_rows(tmp_path / "t.arrow").values.tolist() == [[1.0], [2.0]]


FRAMES = {
    "pandas": pd.DataFrame({"a": [1, 2], "b": [True, False]}),
    "pandas nullable": pd.DataFrame(
        {"a": pd.array([1, 2], "Int64"), "b": pd.array([True, False], "boolean")}
    ),
    "pandas with another index": pd.DataFrame({"a": [1, 2], "b": [1.0, 0.0]}, index=[7, 7]),
    "pyarrow": pa.table({"a": [1, 2], "b": [True, False]}),
}


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES.keys())
def test_frames_of_several_libraries_are_read_alike(frame):
    rows = read_rows(frame)
    assert rows.columns == ("a", "b")
    assert rows.values.dtype == np.float64
    np.testing.assert_array_equal(rows.values, [[1, 1], [2, 0]])


BAD_FRAMES = {
    "null": (pa.table({"bee": [1.5, None]}), "'bee' has missing"),
    "nan": (pd.DataFrame({"bee": [1.5, np.nan]}), "'bee' has missing"),
    "infinite": (pd.DataFrame({"bee": [1.5, np.inf]}), "'bee' has cells that are infinite"),
    "text": (pd.DataFrame({"bee": ["SECRET"]}), "'bee' is not numeric"),
    "objects": (pd.DataFrame({"bee": [1, "SECRET"]}), "'bee' is not numeric"),
    "dates": (pd.DataFrame({"bee": pd.to_datetime(["2020-01-01"])}), "'bee' is not numeric"),
    "category": (pd.DataFrame({"bee": pd.Categorical(["SECRET"])}), "'bee' is not numeric"),
    "no columns": (pa.table({}), "at least one column"),
}


@pytest.mark.parametrize(("frame", "message"), BAD_FRAMES.values(), ids=BAD_FRAMES.keys())
def test_bad_frames_are_refused_by_column(frame, message):
    with pytest.raises(ValueError, match=message) as info:
        read_rows(frame)
    assert "SECRET" not in str(info.value)


BAD_ARRAYS = {
    "one dimension": (np.zeros(3), ValueError, r"reshape\(-1, 1\)"),
    "three dimensions": (np.zeros((1, 1, 1)), ValueError, "2 dimensions, got 3"),
    "no columns": (np.zeros((3, 0)), ValueError, "at least one column"),
    "ragged": ([[1.0], [1.0, 2.0]], ValueError, "same number of columns"),
    "strings": ([["SECRET"]], ValueError, "column 1 of 1 is not numeric"),
    "complex": (np.ones((1, 1)) * 1j, ValueError, "column 1 of 1 is not numeric"),
    "bytes": (np.array([[b"SECRET"]]), ValueError, "column 1 of 1 is not numeric"),
    "moments": (np.array([["2020-01-01"]], "M8[ns]"), ValueError, "column 1 of 1 is not numeric"),
    "nan": ([[1.0, np.nan]], ValueError, "column 2 of 2 has missing"),
    "infinite": ([[np.inf, 1.0]], ValueError, "column 1 of 2 has cells that are infinite"),
    "a number": (3, TypeError, "got int"),
    "nothing": (None, TypeError, "got NoneType"),
    "a dict": ({"a": [1]}, TypeError, "got dict"),
}


@pytest.mark.parametrize(("array", "kind", "message"), BAD_ARRAYS.values(), ids=BAD_ARRAYS.keys())
def test_bad_arrays_are_refused_with_the_reason(array, kind, message):
    with pytest.raises(kind, match=message) as info:
        read_rows(array)
    assert "SECRET" not in str(info.value)


def test_arrays_are_copied_to_double_precision():
    source = np.ones((2, 2), np.float32)
    rows = read_rows(source)
    source[0, 0] = 5
    assert rows.values.dtype == np.float64
    assert rows.values[0, 0] == 1


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".npz"])
def test_only_the_columns_asked_for_are_read_in_the_order_asked_for(suffix, tmp_path):
    write_rows(Rows(np.array([[1.0, 2.0, 3.0]]), ("a", "b", "c")), tmp_path / f"t{suffix}")
    rows = read_rows(tmp_path / f"t{suffix}", columns=["c", "a"])
    assert rows.columns == ("c", "a")
    assert rows.values.tolist() == [[3.0, 1.0]]
    with pytest.raises(ValueError, match=r"no column 'd'"):
        read_rows(tmp_path / f"t{suffix}", columns=["d"])


def test_names_are_given_to_columns_without_names_if_there_are_as_many():
    assert read_rows(np.ones((1, 2)), columns=["a", "b"]).columns == ("a", "b")
    with pytest.raises(ValueError, match="name all 2 columns, got 1"):
        read_rows(np.ones((1, 2)), columns=["a"])


def test_columns_not_asked_for_may_hold_anything(tmp_path):
    path = text_file(tmp_path, "a,name\n1,Ann\n2,\n")
    assert read_rows(path, columns=["a"]).values.tolist() == [[1.0], [2.0]]


def test_rows_show_neither_their_values_nor_how_many_there_are():
    assert repr(Rows(np.full((31337, 2), 8675309.0), ("a", "b"))) == "Rows(columns=('a', 'b'))"
    assert "31337" not in repr(Rows(np.zeros((31337, 2))))


def test_missing_files_folders_and_unknown_suffixes_are_told_apart(tmp_path):
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(FileNotFoundError, match="no file"):
        read_rows(tmp_path / "no.csv")
    with pytest.raises(IsADirectoryError, match="folder"):
        read_rows(tmp_path / "folder.csv")
    with pytest.raises(ValueError, match=r"suffix of a\.xlsx must be one of \.csv"):
        read_rows(tmp_path / "a.xlsx")
