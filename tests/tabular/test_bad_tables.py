"""Tables that are not as declared: a clear error that shows no cell, or a sound result."""

import datetime as dt

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import veilflow as vf
from veilflow.tabular import decode, draft_schema, encode

# Each table holds SECRET or 8675309 in a cell: neither may appear in the error.
CASES = {
    "category": (vf.Categorical("F"), ["F", "SECRET"], "'bee' has cells with none of its declared"),
    "number list": (vf.Ordinal(1, 2), [1, 8675309], "'bee' has cells with none of its declared"),
    "gap": (vf.Numeric(0, 1), [8675309, None], "'bee' has missing cells, but is not declared null"),
    "word gap": (vf.Categorical("F"), ["F", "?"], "'bee' has missing cells"),
    "all gaps": (vf.Boolean(), [None, None], "'bee' has missing cells"),
    "words": (vf.Numeric(0, 1), ["1", "SECRET"], "'bee' has cells that are not numbers"),
    "decimal comma": (
        vf.Numeric(0, 1),
        ["8675309,5"],
        "not numbers. Write them without separators",
    ),
    "thousands": (vf.Numeric(0, 1), ["8675309,000.5"], "separators of thousands"),
    "mixed": (vf.Numeric(0, 1), [1, "SECRET", 2.5], "'bee' has cells that are not numbers"),
    "no date": (vf.Datetime("2000-01-01", "2001-01-01"), ["SECRET"], "not dates or times"),
    "other dates": (vf.Datetime("2000-01-01", "2001-01-01"), ["31.12.2000"], "Write them like"),
    "no day": (vf.Datetime("2000-01-01", "2001-01-01"), ["2000-02-31"], "not dates or times"),
    "epochs": (vf.Datetime("2000-01-01", "2001-01-01"), [8675309], "not dates or times"),
    "no truth": (vf.Boolean(), ["SECRET"], "neither true nor false"),
    "two": (vf.Boolean(), [2], "neither true nor false"),
    "bytes": (vf.Categorical("F"), [b"SECRET"], "'bee' has cells with none of its declared"),
    "nested": (vf.Categorical("F"), [{"x": "SECRET"}], "'bee' has cells with none of its"),
    "lists": (vf.Numeric(0, 1), [[8675309]], "'bee' has cells that are not numbers"),
    "dates for numbers": (vf.Numeric(0, 1), pd.to_datetime(["2000-01-01"]), "not numbers"),
}


@pytest.mark.parametrize(("column", "cells", "message"), CASES.values(), ids=CASES.keys())
def test_cells_not_as_declared_are_refused_by_column_without_showing_one(column, cells, message):
    frame = pd.DataFrame({"bee": cells})
    with pytest.raises(ValueError, match=message) as info:
        encode(frame, vf.Schema(bee=column))
    assert "SECRET" not in str(info.value)
    assert "8675309" not in str(info.value)
    assert info.value.__suppress_context__ or info.value.__context__ is None


@pytest.mark.parametrize("cells", [[{"x": "SECRET"}], [["SECRET"]], [dt.timedelta(1)]])
@pytest.mark.parametrize("column", [vf.Categorical("F"), vf.Numeric(0, 1), vf.OpenCategorical()])
def test_a_column_of_a_type_that_is_not_read_is_refused_by_name(cells, column):
    vocabularies = {"bee": ()} if isinstance(column, vf.OpenCategorical) else {}
    with pytest.raises(ValueError, match=r"'bee'.*its type in the table is") as info:
        encode(pa.table({"bee": cells}), vf.Schema(bee=column), vocabularies=vocabularies)
    assert "SECRET" not in str(info.value)


SCHEMA = vf.Schema(a=vf.Numeric(0, 9, integer=True), bee=vf.Categorical("x", "y", nullable=True))


def test_columns_that_are_missing_or_too_many_are_named():
    with pytest.raises(ValueError, match="no column 'bee'"):
        encode(pd.DataFrame({"a": [1]}), SCHEMA)
    more = pd.DataFrame({"a": [1], "bee": ["x"], "sea": [object()], "dee": [1]})
    with pytest.raises(ValueError, match="not in the schema: 'sea', 'dee'"):
        encode(more, SCHEMA)
    assert encode(more, SCHEMA, extra="ignore").codes.tolist() == [[0, 0]]


def test_names_that_occur_twice_are_refused(tmp_path):
    twice = pd.DataFrame([[1, "x", "y"]], columns=["a", "bee", "bee"])
    with pytest.raises(ValueError, match="occurs twice"):
        encode(twice, SCHEMA)
    with pytest.raises(ValueError, match="occurs twice"):
        encode(pa.table([[1], ["x"], ["y"]], names=["a", "bee", "bee"]), SCHEMA)
    (tmp_path / "t.csv").write_text("a,bee,bee\n1,x,y\n")
    with pytest.raises(ValueError, match="occurs twice"):
        encode(tmp_path / "t.csv", SCHEMA)


def test_an_all_null_column_is_a_column_of_gaps():
    for cells in ([None, None], [np.nan, np.nan], ["", "NA"]):
        rows = encode(pd.DataFrame({"a": [1, 2], "bee": cells}), SCHEMA)
        assert rows.codes[:, 1].tolist() == [2, 2]
        assert decode(rows, SCHEMA)["bee"].isna().all()


def test_cells_may_be_replaced_by_a_public_rule():
    frame = pd.DataFrame({"a": ["SECRET", None, "5"], "bee": ["z", None, "y"]})
    found = decode(encode(frame, SCHEMA, invalid="replace"), SCHEMA)
    assert found["a"].tolist() == [0, 0, 5]
    assert found["bee"].isna().tolist() == [True, True, False]


def test_settings_and_sources_of_other_kinds_are_refused(tmp_path):
    frame = pd.DataFrame({"a": [1], "bee": ["x"]})
    with pytest.raises(ValueError, match="extra"):
        encode(frame, SCHEMA, extra="drop")
    with pytest.raises(ValueError, match="invalid"):
        encode(frame, SCHEMA, invalid="drop")
    with pytest.raises(TypeError, match="got ndarray"):
        encode(np.zeros((2, 2)), SCHEMA)
    with pytest.raises(TypeError, match=r"got Lazy. Call its collect\(\) first"):
        encode(type("Lazy", (), {"collect": None})(), SCHEMA)
    with pytest.raises(FileNotFoundError, match="no file"):
        encode(tmp_path / "t.csv", SCHEMA)
    (tmp_path / "d.csv").mkdir()
    with pytest.raises(IsADirectoryError, match="folder"):
        encode(tmp_path / "d.csv", SCHEMA)
    with pytest.raises(ValueError, match="array"):
        encode(tmp_path / "t.npz", SCHEMA)
    with pytest.raises(ValueError, match="like must be"):
        decode(encode(frame, SCHEMA), SCHEMA, like="numpy")
    with pytest.raises(TypeError, match="like must be"):
        decode(encode(frame, SCHEMA), SCHEMA, like=3)


SOUND = {
    "plain": b"a,bee\n1,x\n2,\n3,y\n",
    "byte order mark": b"\xef\xbb\xbfa,bee\n1,x\n2,\n3,y\n",
    "spaces": b" a , bee \n 1 , x \n2, \n3,y  \n",
    "quotes": b'"a","bee"\n"1","x"\n"2",""\n"3", "y"\n',
    "semicolons": b"a;bee\n1;x\n2;\n3;y\n",
    "tabs": b"a\tbee\n1\tx\n2\t\n3\ty\n",
    "bars": b"a|bee\n1|x\n2|\n3|y\n",
    "short lines": b"a,bee\n1,x\n2\n3,y\n",
    "blank lines": b"\na,bee\n\n1,x\n2,?\n\n3,y\n\n",
    "windows": b"a,bee\r\n1,x\r\n2,NULL\r\n3,y",
    "floats": b"a,bee\n1.0,x\n2e0,n/a\n+3,y\n",
    "other order": b"bee,a\nx,1\n,2\ny,3\n",
}


@pytest.mark.parametrize("text", SOUND.values(), ids=SOUND.keys())
def test_messy_text_is_read_as_what_it_means(text, tmp_path):
    (tmp_path / "t.csv").write_bytes(text)
    rows = encode(tmp_path / "t.csv", SCHEMA)
    assert rows.codes[:, 1].tolist() == [0, 2, 1]
    assert decode(rows, SCHEMA)["a"].tolist() == [1, 2, 3]


def test_quoted_newlines_commas_and_quotes_are_part_of_a_cell(tmp_path):
    words = ["two\nlines", "a, b", 'say "x"', "ünï"]
    schema = vf.Schema(a=vf.Categorical(*words))
    pd.DataFrame({"a": words}).to_csv(tmp_path / "t.csv", index=False)
    assert encode(tmp_path / "t.csv", schema).codes[:, 0].tolist() == [0, 1, 2, 3]


def test_separators_in_quotes_are_part_of_a_name(tmp_path):
    (tmp_path / "t.csv").write_text('"net; monthly; EUR",b\n1,2\n')
    schema = vf.Schema({"net; monthly; EUR": vf.Numeric(0, 9), "b": vf.Numeric(0, 9)})
    assert len(encode(tmp_path / "t.csv", schema)) == 1


UNSOUND = {
    "long line": (b"a,bee\n8675309,x\n2,x,SECRET\n", "more cells"),
    "long first line": (b"a,bee\n8675309,x,SECRET\n2,x,y\n", "more cells"),
    "not utf-8": (b"a,bee\n1,\xff8675309\n", "UTF-8"),
    "not utf-8 at all": ("a,bee\n8675309,x\n".encode("utf-16"), "UTF-8"),
    "open quote": (b'a,bee\n1,"8675309\n2,x\n', "quote|none of its declared"),
    "no header": (b"8675309,7\n1,2\n", "no header"),
    "no header of text": (b"SECRET,x\ny,z\n", "none of the columns of the schema"),
    "half a header": (b"SECRET,8675309\ny,z\n", "no name, or a number"),
    "empty": (b"", "is empty"),
}


@pytest.mark.parametrize(("text", "message"), UNSOUND.values(), ids=UNSOUND.keys())
def test_text_that_is_no_table_is_refused_without_showing_a_cell(text, message, tmp_path):
    (tmp_path / "t.csv").write_bytes(text)
    with pytest.raises(ValueError, match=message) as info:
        encode(tmp_path / "t.csv", SCHEMA)
    assert "SECRET" not in str(info.value)
    assert "8675309" not in str(info.value)


def test_a_ragged_line_far_down_is_found(tmp_path):
    lines = ["a,bee", *["1,x"] * 200_000, "2,x,SECRET"]
    (tmp_path / "t.csv").write_text("\n".join(lines))
    with pytest.raises(ValueError, match="more cells") as info:
        encode(tmp_path / "t.csv", SCHEMA)
    assert "SECRET" not in str(info.value)


@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
def test_damaged_binary_files_are_refused(suffix, tmp_path):
    (tmp_path / f"t{suffix}").write_bytes(b"SECRET" * 100)
    with pytest.raises(ValueError, match="not a readable"):
        encode(tmp_path / f"t{suffix}", SCHEMA)


BROKEN = {
    "more cells": ("a,b\n1,2\n3,4\n5,6,7\n8,9\n", "from line 4 on: it has more cells"),
    "first line": ("a,b\n1,2,SECRET\n", "from line 2 on"),
    "open quote": ('a,b\n1,2\n"SECRET,4\n5,6\n', "from line 3 on: a quote"),
}


@pytest.mark.parametrize(("text", "message"), BROKEN.values(), ids=BROKEN.keys())
def test_text_that_is_no_table_is_refused_with_the_line_that_breaks_it(text, message, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=message) as told:
        draft_schema(path)
    assert "SECRET" not in str(told.value)


def test_text_in_another_encoding_is_refused_with_its_first_line(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes("a,b\n1,ok\n2,M\u00fcller\n".encode("latin-1"))
    with pytest.raises(ValueError, match=r"line 3 of a\.csv is not UTF-8"):
        draft_schema(path)


@pytest.mark.parametrize("invalid", ["error", "replace"])
def test_an_encoding_is_declared(invalid, tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes("name;x\nM\u00fcller;1\n\u00c5s;2\n".encode("latin-1"))
    names = vf.Categorical("M\u00fcller", "\u00c5s")
    declared = vf.Schema(name=names, x=vf.Numeric(0, 9, integer=True))
    source = vf.TextFile(path, encoding="latin-1")
    found = decode(encode(source, declared, invalid=invalid), declared)
    assert found["name"].tolist() == ["M\u00fcller", "\u00c5s"]
    assert draft_schema(source, invalid=invalid).confirm().columns["name"] == names
    with pytest.raises(ValueError, match="encoding must be one that Python knows"):
        vf.TextFile(path, encoding="klingon")
