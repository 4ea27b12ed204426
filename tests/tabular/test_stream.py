import os
import stat
import sys
import weakref

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import ipc, parquet

from veilflow.tabular import Rows, read_rows, write_chunks, write_rows

SUFFIXES = [".csv", ".tsv", ".parquet", ".pq", ".arrow", ".feather", ".ipc", ".npz", ".npy"]
NAMES = ("a b", 'quo"te, comma')
CUTS = [5, 5, 1700]  # pieces of 5, 0, 1695 and 300 rows


def some_rows(num_rows=2000):
    rng = np.random.default_rng(0)
    return rng.standard_normal((num_rows, 2)) * 10.0 ** rng.integers(-300, 300, (num_rows, 2))


def pieces(values):
    return iter(np.split(values, CUTS))


def write(chunks, path, *, num_rows=2000, dim=2, columns=NAMES, **options):
    write_chunks(chunks, path, num_rows=num_rows, dim=dim, columns=columns, **options)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_every_format_gives_back_the_numbers_and_names_of_all_chunks(suffix, tmp_path):
    path, values = tmp_path / f"t{suffix}", some_rows()
    write(pieces(values), path)
    rows = read_rows(path)
    np.testing.assert_array_equal(rows.values, values)
    assert rows.columns == (None if suffix == ".npy" else NAMES)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_no_chunk_at_all_is_a_table_without_rows(suffix, tmp_path):
    path = tmp_path / f"t{suffix}"
    write(iter(()), path, num_rows=0, columns=("a", "b"))
    rows = read_rows(path)
    assert rows.values.shape == (0, 2)
    assert rows.columns == (None if suffix == ".npy" else ("a", "b"))


def test_columns_without_names_are_numbered_in_text_and_unnamed_in_numpy_files(tmp_path):
    for suffix, columns in ((".csv", ("x1", "x2")), (".npz", None), (".npy", None)):
        write(pieces(some_rows()), tmp_path / f"t{suffix}", columns=None)
        assert read_rows(tmp_path / f"t{suffix}").columns == columns


def test_a_chunk_is_a_row_group_or_a_record_batch(tmp_path):
    for suffix in (".parquet", ".arrow"):
        write(pieces(some_rows()), tmp_path / f"t{suffix}")
    with parquet.ParquetFile(tmp_path / "t.parquet") as file:
        groups = [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
    assert [size for size in groups if size] == [5, 1695, 300]
    with pa.OSFile(str(tmp_path / "t.arrow")) as file:
        assert ipc.open_file(file).num_record_batches == 4


@pytest.mark.parametrize("suffix", [".csv", ".npz", ".npy"])
def test_the_bytes_do_not_tell_the_chunks_apart(suffix, tmp_path):
    write(pieces(some_rows()), tmp_path / f"cut{suffix}")
    write_rows(Rows(some_rows(), NAMES), tmp_path / f"whole{suffix}")
    assert (tmp_path / f"cut{suffix}").read_bytes() == (tmp_path / f"whole{suffix}").read_bytes()


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_the_same_rows_give_the_same_bytes(suffix, tmp_path):
    for name in ("1", "2"):
        write(pieces(some_rows()), tmp_path / f"{name}{suffix}")
    assert (tmp_path / f"1{suffix}").read_bytes() == (tmp_path / f"2{suffix}").read_bytes()


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".npy"])
def test_chunks_of_any_layout_are_written_in_double_precision(suffix, tmp_path):
    path, values = tmp_path / f"t{suffix}", np.arange(12.0).reshape(6, 2)
    chunks = [np.asfortranarray(values[:2]), values[2:4].astype(np.float32), values[:3:-1][::-1]]
    write(chunks, path, num_rows=6)
    np.testing.assert_array_equal(read_rows(path).values, values)


class Broken(Exception):
    pass


def breaking(error):
    yield from np.split(some_rows(), [1000])[:1]
    raise error


@pytest.mark.parametrize("error", [Broken(), KeyboardInterrupt(), SystemExit(1)], ids=repr)
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_write_that_is_broken_off_leaves_no_file_and_an_old_one_whole(suffix, error, tmp_path):
    path = tmp_path / f"t{suffix}"
    with pytest.raises(type(error)):
        write(breaking(error), path)
    assert list(tmp_path.iterdir()) == []
    path.write_bytes(b"precious")
    with pytest.raises(type(error)):
        write(breaking(error), path)
    assert list(tmp_path.iterdir()) == [path]
    assert path.read_bytes() == b"precious"


@pytest.mark.skipif(sys.platform == "win32", reason="limits on files are a matter of Unix")
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_disk_that_takes_no_more_leaves_no_file_and_an_old_one_whole(suffix, tmp_path):
    import resource

    path = tmp_path / f"t{suffix}"
    path.write_bytes(b"precious")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    chunks = (np.random.default_rng(i).standard_normal((2000, 2)) for i in range(20))
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
        with pytest.raises(OSError, match="File too large"):
            write(chunks, path, num_rows=40_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert list(tmp_path.iterdir()) == [path]
    assert path.read_bytes() == b"precious"


BAD_CHUNKS = {
    "a column too many": (np.zeros((3, 3)), "must have 2 columns, got 3"),
    "one dimension": (np.zeros(2), "2 dimensions, got 1"),
    "too few": (np.zeros((1999, 2)), "num_rows rows in all, got fewer"),
    "too many": (np.zeros((2001, 2)), "num_rows rows in all, got more"),
}


@pytest.mark.parametrize(("chunk", "message"), BAD_CHUNKS.values(), ids=BAD_CHUNKS.keys())
def test_chunks_that_are_not_the_rows_announced_are_refused(chunk, message, tmp_path):
    for suffix in SUFFIXES:
        with pytest.raises(ValueError, match=message):
            write([chunk], tmp_path / f"t{suffix}")
    assert list(tmp_path.iterdir()) == []


BAD_TARGETS = {
    "suffix": ("t.xlsx", {}, ValueError, r"suffix of t\.xlsx must be one of \.csv"),
    "no folder": ("no/t.csv", {}, FileNotFoundError, "does not exist"),
    "a folder": ("folder.csv", {}, OSError, "not a regular file"),
    "one name twice": ("t.csv", {"columns": ("a", "a")}, ValueError, "occurs twice"),
    "no name": ("t.csv", {"columns": ("a", "")}, ValueError, "has no name"),
    "a name too few": ("t.csv", {"columns": ("a",)}, ValueError, "name all 2 columns, got 1"),
    "no columns": ("t.csv", {"columns": None, "dim": 0}, ValueError, "at least one column"),
    "no count": ("t.csv", {"num_rows": -1}, ValueError, "num_rows must be at least 0"),
}


@pytest.mark.parametrize(
    ("name", "changes", "kind", "message"), BAD_TARGETS.values(), ids=BAD_TARGETS.keys()
)
def test_a_bad_target_is_refused_before_a_row_is_drawn(name, changes, kind, message, tmp_path):
    (tmp_path / "folder.csv").mkdir()
    chunks = pieces(some_rows())
    with pytest.raises(kind, match=message):
        write(chunks, tmp_path / name, **changes)
    assert len(list(chunks)) == 4
    assert [path.name for path in tmp_path.iterdir()] == ["folder.csv"]


@pytest.mark.skipif(sys.platform == "win32", reason="modes are a matter of Unix")
def test_who_may_read_the_file_is_chosen(tmp_path):
    write(pieces(some_rows()), tmp_path / "t.parquet", mode=0o600)
    assert stat.S_IMODE(os.stat(tmp_path / "t.parquet").st_mode) == 0o600


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_no_more_than_one_written_chunk_is_kept_in_memory(suffix, tmp_path):
    drawn = []

    def chunks():
        for _ in range(5):
            assert sum(ref() is not None for ref in drawn) <= 1
            chunk = np.zeros((400, 2))
            drawn.append(weakref.ref(chunk))
            yield chunk
            del chunk

    write(chunks(), tmp_path / f"t{suffix}")
    assert len(drawn) == 5
