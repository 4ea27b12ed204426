"""What one record holds never changes how another one is read, whoever reads them.

An adversary adds one record. If it can turn a column from numbers into text, or take the next lines of
a file into its own cell, then all records differ between two neighbors, and no noise covers that.
"""

import csv
import datetime as dt
import io
import traceback
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

import veilflow as vf
from veilflow.images import ImageSpec, read_images
from veilflow.images.image_set import class_places
from veilflow.models import domain as domains
from veilflow.models.expm.inputs import places_of, read_inputs
from veilflow.models.posterior.posterior_parts import read_records
from veilflow.tabular.codec import encode
from veilflow.tabular.frames import label_column
from veilflow.tabular.io import read_rows
from veilflow.tabular.raw import open_numbers, open_values

HOSTILE = (
    None,
    float("nan"),
    float("inf"),
    -1e308,
    1j,
    2 + 0j,
    complex("nan"),
    2**31,
    2**63,
    10**400,
    -(10**400),
    10**5000,
    np.float16(0.1),
    np.uint64(2**64 - 1),
    True,
    np.bool_(False),
    "2",
    "",
    "SECRET",
    "\ud800",
    "1e999",
    "2020-01-01",
    b"2",
    b"\xff",
    bytearray(b"2"),
    [2],
    [[2], [3, 4]],
    (),
    {"a": 2},
    np.array([2.0, 3.0]),
    Decimal("1.250"),
    Decimal("sNaN"),
    Decimal("1e5000"),
    Fraction(1, 3),
    dt.date(2020, 1, 1),
    dt.datetime(2020, 1, 1),
    dt.datetime(9999, 12, 31, tzinfo=dt.timezone(dt.timedelta(hours=-5))),
    dt.timedelta(1),
    np.datetime64("2020-01-01"),
    pd.NaT,
    pd.NA,
    object,
)
GOOD = {
    "whole numbers": [1, 2, 3],
    "reals": [0.5, 1 / 3, 2.0],
    "long numbers": [2**31, 2**52, 7],
    "truths": [True, False, True],
    "words": ["a", "1", " yes "],
    "moments": [dt.datetime(2020, 1, 1, 5), dt.datetime(1999, 1, 1), dt.datetime(2001, 2, 3)],
    "decimals": [Decimal("1.5"), Decimal("2"), Decimal("0.125")],
}
NUMBERS = {name: GOOD[name] for name in ("whole numbers", "reals", "long numbers", "truths")}

SCHEMA = vf.Schema(
    number=vf.Numeric(-10, 10**6, nullable=True),
    word=vf.Categorical("a", "1", "0.5", "1.5", "True", nullable=True),
    code=vf.Categorical(1, 2, 7, nullable=True),
    truth=vf.Boolean(nullable=True),
    moment=vf.Datetime("1990-01-01", "2030-01-01", nullable=True),
    anything=vf.OpenCategorical(nullable=True),
    unbounded=vf.Numeric(nullable=True),
)
CLOSED = vf.Schema({name: SCHEMA.columns[name] for name in SCHEMA.names[:5]})


def in_a_table(source) -> list:
    """What is read of every row of a table, in a column of every kind."""
    rows = encode(source, CLOSED, extra="ignore", invalid="replace")
    words, places = open_values(source, SCHEMA, invalid="replace")["anything"]
    said = [words[place] if place >= 0 else None for place in places]
    numbers = open_numbers(source, SCHEMA, ["unbounded"], invalid="replace")["unbounded"]
    labels = label_column(source, "word", invalid="replace")
    found = zip(rows.codes.tolist(), rows.positions.tolist(), said, numbers, labels, strict=True)
    return [repr(row) for row in found]  # as text, because NaN is not equal to itself


def columns_of(cells, make=list) -> dict:
    return {name: make(cells) for name in SCHEMA.names}


def csv_file(cells, folder):
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerows([SCHEMA.names, *([cell] * len(SCHEMA.names) for cell in cells)])
    (folder / "t.csv").write_bytes(text.getvalue().encode("utf-8", "surrogatepass"))
    return folder / "t.csv"


def parquet_file(cells, folder):
    parquet.write_table(pa.table(columns_of(cells)), folder / "t.parquet")
    return folder / "t.parquet"


def polars_frame(cells, folder):
    polars = pytest.importorskip("polars")
    return polars.DataFrame(columns_of(cells), strict=False)


TABLES = {
    "pandas": lambda cells, _: pd.DataFrame(columns_of(cells)),
    "pandas objects": lambda cells, _: pd.DataFrame(
        columns_of(cells, lambda x: pd.Series(x, dtype=object))
    ),
    "polars": polars_frame,
    "pyarrow": lambda cells, _: pa.table(columns_of(cells)),
    "Parquet": parquet_file,
    "CSV": csv_file,
}


@pytest.mark.parametrize("good", GOOD.values(), ids=GOOD.keys())
@pytest.mark.parametrize("make", TABLES.values(), ids=TABLES.keys())
def test_no_cell_of_a_table_changes_another(make, good, tmp_path):
    alone = in_a_table(make(good, tmp_path))
    for cell in HOSTILE:
        try:
            source = make([*good, cell], tmp_path)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            continue  # there is no such table: its own library refuses it
        found = in_a_table(source)
        assert len(found) == len(good) + 1
        assert found[: len(good)] == alone, type(cell)


@pytest.mark.parametrize("good", NUMBERS.values(), ids=NUMBERS.keys())
def test_no_cell_of_rows_of_numbers_changes_another(good):
    def rows(cells, last):
        return [[cell, 1.0] for cell in cells] + [[last, 2.0]]

    alone = read_rows(rows(good, 0)).values[:-1]
    assert alone[:, 0].tolist() == [float(cell) for cell in good]
    for cell in HOSTILE:
        listed = rows(good, cell)
        column = pd.Series([*good, cell], dtype=object)
        for source in (listed, pd.DataFrame({"a": column}), pd.DataFrame({"a": [*good, cell]})):
            found = read_rows(source, invalid="keep").values
            assert len(found) == len(good) + 1
            assert np.array_equal(found[:-1, 0], alone[:, 0]), type(cell)
            assert "SECRET" not in refusal(lambda rows=source: read_rows(rows))


BOX = domains.declared(bounds=([0, 0], [4, 4]), row_norm=None)


@pytest.mark.parametrize("cell", HOSTILE, ids=lambda cell: type(cell).__name__)
def test_no_record_of_a_classifier_changes_another(cell):
    features = [[1, 2], [3.5, 0], [cell, 4]]
    alone = read_inputs(features[:2]).scaled(BOX)
    assert np.array_equal(read_inputs(features, invalid="replace").scaled(BOX)[:2], alone)
    for classes, labels in (((0, 1), [0, 1, True]), (("no", "1"), ["no", "1", "no"])):
        places = places_of([*labels, cell], classes, num=4, invalid="replace")
        assert np.array_equal(places[:3], places_of(labels, classes, num=3))
        assert "SECRET" not in refusal(lambda: places_of([*labels, cell], classes, num=4))  # noqa: B023

    def series(*cells):
        parts = [np.empty((len(cells), 1, 2), object) for _ in range(3)]
        for part, usual in zip(parts, (2.0, 1, 0.5), strict=True):
            part[:] = usual
            part[:, 0, 0] = np.array([*cells, None], object)[:-1]
        return tuple(parts)

    alone = read_inputs(series(1, 0)).scaled(BOX)
    found = read_inputs(series(1, 0, cell), invalid="replace").scaled(BOX)
    assert all(np.array_equal(x[:2], y) for x, y in zip(found, alone, strict=True))
    assert all(np.isfinite(part).all() for part in found)
    assert "SECRET" not in refusal(lambda: read_inputs(series(1, 0, cell)))


@pytest.mark.parametrize("cell", HOSTILE, ids=lambda cell: type(cell).__name__)
def test_no_label_of_an_image_changes_another(cell):
    for classes, labels in (((0, 1, 2), [2, 0, 1.0]), (("dog", "2"), ["dog", 1, " 2"])):
        spec = ImageSpec(2, 2, classes=classes)
        alone = class_places(labels, spec)
        assert (alone >= 0).all()
        for more in ([*labels, cell], pd.Series([*labels, cell], dtype=object)):
            assert np.array_equal(class_places(more, spec)[:3], alone)


@pytest.mark.parametrize("cell", HOSTILE, ids=lambda cell: type(cell).__name__)
def test_no_image_of_a_list_changes_another(cell):
    rng = np.random.default_rng(0)
    images = [rng.integers(0, 256, (2, 2), np.uint8), rng.uniform(0, 255, (2, 2))]
    spec = ImageSpec(2, 2)
    alone = read_images(images, spec)
    for extra in (cell, np.full((2, 2), 7), [[1, cell], [2, 3]], np.zeros((3, 3))):
        found = read_images([*images, extra], spec, invalid="skip")
        assert found.pixels.dtype == alone.pixels.dtype
        assert np.array_equal(found.pixels[:2], alone.pixels)
        assert "SECRET" not in refusal(lambda: read_images([*images, extra], spec))  # noqa: B023


@pytest.mark.parametrize("good", NUMBERS.values(), ids=NUMBERS.keys())
def test_no_record_of_a_posterior_changes_another(good):
    alone = read_records({"x": np.array(good)}).open()["x"]
    assert alone.dtype == np.float32
    assert alone.tolist() == np.array(good, np.float32).tolist()
    for cell in HOSTILE:
        column = np.empty(len(good) + 1, object)
        column[:] = [*good, None]
        column[-1] = cell
        for array in (column, pd.Series([*good, cell]).to_numpy()):
            said = refusal(lambda array=array: read_records({"x": array}))
            assert "SECRET" not in said
            if said:
                continue
            found = read_records({"x": array}).open()["x"]
            assert found.dtype == np.float32
            assert np.array_equal(found[:-1], alone), type(cell)


LINES = {
    "a comma too many": b"7,x,9,9",
    "many commas": b"," * 1000,
    "one cell": b"7",
    "an open quote": b'"7,x',
    "an open quote at the end": b'7,"x',
    "a lone quote": b'"',
    "three quotes": b'"""',
    "a quote inside": b'7"7,x"x',
    "quotes and a comma too many": b'"7","x, ""y""",z',
    "not utf-8": b"7,\xff\xfe\x80",
    "half a character": b"7,x\xe2\x82",
    "utf-16": "7,x".encode("utf-16"),
    "nothing": b"\0,\0",
    "blank": b"   ",
    "separators of other files": b";;;\t\t\t|||",
    "a very long cell": b"7," + b"x" * 200_000,
    "a very long quoted cell": b'7,"' + b"x" * 200_000,
    "a carriage return": b"7\r8",
    "another kind of line end": "7,\u2028x\x0b\x0c\x85".encode(),
    "a header": b"a,b",
}
RECORDS = [b"1,x", b'2,"y"', b"3.5, x "]
TWO = vf.Schema(a=vf.Numeric(0, 9, nullable=True), b=vf.Categorical("x", "y"))


@pytest.mark.parametrize("line", LINES.values(), ids=LINES.keys())
def test_no_line_of_text_changes_another_or_is_an_error(line, tmp_path):
    path = tmp_path / "t.csv"

    def read(lines):
        path.write_bytes(b"\n".join([b"a,b", *lines]) + b"\n")
        rows = encode(path, TWO, invalid="replace")
        numbers = read_rows(path, columns=["a"], invalid="keep").values
        assert len(numbers) == len(rows)
        return np.concatenate([rows.codes, rows.positions, numbers], axis=1).tolist()

    alone = read(RECORDS)
    assert len(alone) == 3
    for place in range(4):
        found = read([*RECORDS[:place], line, *RECORDS[place:]])
        after = 3 - place
        assert found[:place] == alone[:place]
        assert after == 0 or found[-after:] == alone[-after:]
        assert len(found) <= 3 + 1 + line.count(b"\r")
    assert "SECRET" not in refusal(lambda: encode(path, TWO))


def refusal(read) -> str:
    """What is said where something is refused; "" where it is not."""
    try:
        read()
    except (TypeError, ValueError) as error:
        return "".join(traceback.format_exception_only(error)) + str(led_to(error))
    return ""


def led_to(error) -> BaseException | None:
    """The error that a traceback would show as the cause of another."""
    return error.__cause__ or (None if error.__suppress_context__ else error.__context__)
