"""Cells made to be noticed: no cell changes how another is read, and no error shows one."""

import datetime as dt
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import veilflow as vf
from veilflow.tabular.codec import encode
from veilflow.tabular.draft import draft_schema
from veilflow.tabular.io import read_rows
from veilflow.tabular.raw import open_numbers, open_values

EAST = dt.timezone(dt.timedelta(hours=5))
CELLS = (
    None,
    float("nan"),
    1,
    2**53 + 1,
    2**70,
    1.0,
    0.1,
    -0.0,
    float("inf"),
    True,
    np.float32(0.1),
    np.uint64(2**63),
    Decimal("1.0"),
    Decimal("sNaN"),
    "1",
    " a ",
    "",
    "\ud800",
    dt.date(2020, 1, 1),
    dt.datetime(2020, 1, 1),
    dt.datetime(2020, 1, 1, tzinfo=dt.UTC),
    dt.datetime(2020, 1, 1, tzinfo=EAST),
    dt.datetime(9999, 12, 31, 23, 59),
    pd.Timestamp("2020-01-01", tz="UTC"),
    b"a",
    [1],
)
SCHEMA = vf.Schema(
    number=vf.Numeric(-10, 10, nullable=True),
    word=vf.Categorical("a", "1", "2020-01-01 00:00:00", nullable=True),
    truth=vf.Boolean(nullable=True),
    moment=vf.Datetime("1990-01-01", "2030-01-01", nullable=True),
    anything=vf.OpenCategorical(nullable=True),
    unbounded=vf.Numeric(nullable=True),
)
CLOSED = vf.Schema({name: SCHEMA.columns[name] for name in SCHEMA.names[:4]})


def last_of(cells) -> tuple:
    """What is read of the last of some cells, in a column of every kind."""
    frame = pd.DataFrame(dict.fromkeys(SCHEMA.names, pd.Series(cells, dtype=object)))
    rows = encode(frame, CLOSED, extra="ignore", invalid="replace")
    words, places = open_values(frame, SCHEMA)["anything"]
    number = open_numbers(frame, SCHEMA, ["unbounded"])["unbounded"][-1] + 0.0
    word = words[places[-1]] if places[-1] >= 0 else None
    return rows.codes[-1].tolist(), rows.positions[-1].tolist(), word, repr(number)


@pytest.mark.parametrize("cell", CELLS, ids=repr)
def test_no_cell_changes_how_another_is_read(cell):
    alone = last_of([cell])
    assert all(last_of([other, cell]) == alone for other in CELLS)


FAR = {
    "days": pa.array([0, 2**31 - 1, -(2**31)], pa.date32()),
    "seconds": pa.array([0, 2**40, -(2**50)], pa.timestamp("s")),
    "a zone at the end of the calendar": pa.array(
        [0, 253402300799999999, 1], pa.timestamp("us", "+05:00")
    ),
    "no text": pa.Array.from_buffers(
        pa.string(), 3, pa.array([b"a", b"\xff8675309", b"1"], pa.binary()).buffers()
    ),
}


@pytest.mark.parametrize("cells", FAR.values(), ids=FAR.keys())
def test_no_cell_of_a_typed_column_is_an_error_of_its_own(cells):
    table = pa.table(dict.fromkeys(SCHEMA.names, cells))
    rows = encode(table, CLOSED, extra="ignore", invalid="replace")
    assert len(rows) == 3
    first = encode(table.slice(0, 1), CLOSED, extra="ignore", invalid="replace")
    assert rows.codes[0].tolist() == first.codes[0].tolist()
    words, places = open_values(table, SCHEMA)["anything"]
    assert words[places[0]] == open_values(table.slice(0, 1), SCHEMA)["anything"][0][0]
    draft_schema(table)
    with pytest.raises(ValueError, match="column 'word' has cells with none of its declared"):
        encode(table, vf.Schema(word=vf.Categorical("b")), extra="ignore")


@pytest.mark.parametrize(
    "read",
    [
        lambda path: encode(path, CLOSED),
        lambda path: read_rows(path, columns=["number"]),
        lambda path: draft_schema(path, label="number"),
    ],
    ids=["encode", "read_rows", "draft"],
)
@pytest.mark.parametrize("line", ["secret,secret", "secret,other secret", "secret,17"])
def test_a_first_line_that_may_be_a_record_is_not_quoted(line, read, tmp_path):
    (tmp_path / "t.csv").write_text(f"{line}\n1,2\n")
    with pytest.raises(ValueError, match="column") as caught:
        read(tmp_path / "t.csv")
    assert "secret" not in str(caught.value)
