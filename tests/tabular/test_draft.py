import datetime as dt
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

import veilflow as vf
from veilflow.tabular import decode, draft, draft_schema, encode, open_values
from veilflow.tabular.draft import draft as draft_of


def drafted(cells, **settings):
    """The drafted column, as if every fact had been confirmed."""
    schema = draft_schema(pd.DataFrame({"a": cells}), **settings)
    assert schema.columns["a"].unconfirmed == type(schema.columns["a"]).facts
    return schema.confirm().columns["a"]


DRAFTS = {
    "whole numbers": ([3, 1, 2], vf.Numeric(1, 3, integer=True)),
    "whole with gaps": ([3.0, None, 2.0], vf.Numeric(2, 3, integer=True, nullable=True)),
    "text of numbers": (["3", "?", " 2"], vf.Numeric(2, 3, integer=True, nullable=True)),
    "cents": ([1.25, 0.5], vf.Numeric(0.5, 1.25, resolution=0.01)),
    "reals": ([np.pi, 1 / 3], vf.Numeric(1 / 3, np.pi)),
    "one real": ([np.pi], vf.Numeric(np.pi, 2 * np.pi)),
    "infinite": ([0.123456, np.inf, 1.5], vf.Numeric(0.123456, 1.5)),
    "huge": ([1e300, -1e300], vf.Numeric(-1e300, 1e300)),
    "long codes": ([2**53 + 1, 7], vf.Categorical("7", str(2**53 + 1))),
    "almost long": ([2**53 - 1, 7], vf.Numeric(7, 2**53 - 1)),
    "zero or one": ([0, 1, 1], vf.Categorical(0, 1)),
    "truths": ([True, False, None], vf.Boolean(nullable=True)),
    "words for truths": (["TRUE", "false"], vf.Boolean()),
    "text": (["b", "a", "b"], vf.Categorical("a", "b")),
    "yes and no": (["yes", "no"], vf.Categorical("no", "yes")),
    "codes": (["02139", "10001"], vf.Categorical("02139", "10001")),
    "days": (
        ["1899-12-31", "2000-01-01"],
        vf.Datetime("1899-12-31", dt.datetime(2000, 1, 1), resolution="day"),
    ),
    "hours": (
        pd.to_datetime(["2000-01-01 05:00", "2000-01-02 00:00"]),
        vf.Datetime("2000-01-01 05:00:00", dt.datetime(2000, 1, 2), resolution="hour"),
    ),
    "seconds": (
        ["2000-01-01T00:00:01.5", None],
        vf.Datetime("2000-01-01 00:00:01", "2000-01-01 00:00:01", nullable=True),
    ),
    "decimal commas": (["1,5", "2", "-3,25"], vf.Numeric(-3.25, 2, resolution=0.01, decimal=",")),
    "days first": (
        ["31.12.1990", "1.2.1890", ""],
        vf.Datetime(
            "1890-02-01",
            dt.datetime(1990, 12, 31),
            resolution="day",
            format="%d.%m.%Y",
            nullable=True,
        ),
    ),
    "months first": (
        ["12/31/1990", "1/2/1990"],
        vf.Datetime("1990-01-02", dt.datetime(1990, 12, 31), resolution="day", format="%m/%d/%Y"),
    ),
    "nothing": ([None, None], vf.OpenCategorical(nullable=True)),
    "bytes": ([b"x"], vf.Categorical("x")),
    "no rows": ([], vf.OpenCategorical()),
    "mixed": ([1, "x", 2.5], vf.Categorical("1", "2.5", "x")),
    "dates and words": (["2000-01-01", "x"], vf.Categorical("2000-01-01", "x")),
    "many": ([f"v{i}" for i in range(50_000)], vf.OpenCategorical()),
}


@pytest.mark.filterwarnings("ignore:column 'a'")
@pytest.mark.parametrize(("cells", "column"), DRAFTS.values(), ids=DRAFTS.keys())
def test_kinds_are_guessed_and_everything_is_unconfirmed(cells, column):
    assert drafted(cells) == column


ADVICE = {
    "money": (["$1,200.50", "$3.00", ""], "money or percent.*like 1234.5"),
    "commas and points": (["1,5", "2.5", "-3,25"], "money or percent.*like 1234.5"),
    "shares": (["5%", "12.5 %"], "money or percent"),
    "days or months first": (["11/12/1990", "1/2/1890"], "dates.*1990-01-31"),
    "months first": (["12/31/90", "1/2/20"], "dates.*1990-01-31"),
    "months as words": (["5 Jan 2020", "12 Dezember 2021"], "dates.*1990-01-31"),
    "durations": (["0:30", "12:00:05"], "durations.*minutes"),
    "no dashes": ([20200131, 19991231], "dates without dashes.*datetime"),
    "long codes": ([2**60, 7], r"above 2\^53"),
    "words for gaps": (["1", "2.5", "unknown"], "numbers and other text.*empty"),
    "nothing": ([None, ""], "no value.*drop it"),
}
NO_ADVICE = {
    "codes": ["02139", "10001"],
    "words": ["a, b", "c"],
    "versions": ["1.2", "1.10.3", "v2"],
    "calls": ["030 123", "040 456"],
    "numbers": [20200131, 19991331],
    "dates": ["1990-01-31", "2000-01-01"],
}


@pytest.mark.parametrize(("cells", "advice"), ADVICE.values(), ids=ADVICE.keys())
def test_columns_that_seem_to_mean_something_else_are_named(cells, advice):
    with pytest.warns(UserWarning, match=f"column 'a' .*{advice}") as told:
        drafted(cells)
    assert len(told) == 1
    assert not any(str(cell) in str(told[0].message) for cell in cells if cell and str(cell) != "2")


@pytest.mark.parametrize("cells", NO_ADVICE.values(), ids=NO_ADVICE.keys())
def test_and_others_are_not(cells):
    drafted(cells)  # warnings are errors


@pytest.mark.filterwarnings("ignore:column 'a'")
@pytest.mark.parametrize("kind", ["period", "interval"])
def test_types_that_only_one_library_has_are_refused_by_name(kind):
    cells = {
        "period": pd.period_range("2020-01", periods=2, freq="M"),
        "interval": pd.cut(pd.Series([1, 2, 3]), 2),
    }[kind]
    with pytest.raises(ValueError, match=f"column 'a' has the type pandas.{kind}"):
        drafted(cells)


def test_a_label_of_few_numbers_is_a_list():
    cells = pd.DataFrame({"a": [7, 1, 7]})
    assert draft_schema(cells, label="a").confirm().columns["a"] == vf.Categorical(1, 7)
    assert draft_schema(cells, label="a").label == "a"
    with pytest.raises(ValueError, match="label"):
        draft_schema(cells, label="b")


def test_the_limit_of_a_list_is_a_setting():
    assert drafted(["x", "y", "z"], max_categories=2) == vf.OpenCategorical()
    assert drafted(["x", "y", "z"], max_categories=3) == vf.Categorical("x", "y", "z")


@pytest.mark.filterwarnings("ignore:column 'late'")
def test_a_draft_fits_its_own_data_and_shows_no_value_of_it(tmp_path, monkeypatch):
    monkeypatch.setattr("veilflow.tabular.draft.CHUNK", 1000)
    rng = np.random.default_rng(0)
    path = tmp_path / "t.csv"
    pd.DataFrame(
        {
            "number": rng.normal(12345, 1, 2_500),
            "word": rng.choice(["SECRET1", "SECRET2", ""], 2_500),
            "id": [f"SECRET{i}" for i in range(2_500)],
            "late": [1] * 2_499 + ["SECRET"],
        }
    ).to_csv(path, index=False)
    draft = draft_schema(path)
    assert [c.kind for c in draft.columns.values()] == [
        "numeric",
        "categorical",
        "open",
        "categorical",
    ]
    assert draft.columns["word"].nullable
    assert not draft.columns["number"].nullable
    assert "SECRET" not in repr(draft)
    assert "1234" not in repr(draft)
    values, _ = open_values(path, draft)["id"]
    assert len(encode(path, draft, vocabularies={"id": values[:10]})) == 2_500


def test_a_column_of_no_readable_type_is_refused_by_name():
    with pytest.raises(ValueError, match="column 'a' has the type list"):
        draft_schema(pa.table({"a": [["SECRET"]]}))


@pytest.mark.data
@pytest.mark.parametrize("name", ["adult", "covertype"])
def test_real_tables_come_back_as_they_were(name):
    (path, *_) = sorted(Path(os.environ["VEILFLOW_DATA"], name).glob("*.parquet"))
    table = parquet.read_table(path).slice(0, 50_000)
    schema = draft_schema(table)
    found = decode(encode(table, schema), schema, like=table)
    for column in table.schema.names:
        before = table[column].cast(found.schema.field(column).type)
        # not a comparison that shows cells where it fails
        assert before.equals(found[column]), column


HINTS = {
    "identifier?": range(1000, 1200),
    "constant": [7] * 100,
    "nearly empty": [12.5, 13.5, *[None] * 5000],
    "code for a gap?": [-999, -999, *range(18, 90), *range(18, 90)],
    "far value": [1e300, *np.linspace(0, 1, 100), 0.5],
    "round numbers": [10_000 * (i * i % 97) for i in range(200)],
}
PLAIN = {
    "ages": [17 + i * i % 70 for i in range(300)],
    "money": (np.random.default_rng(0).lognormal(8, 1, 300).round(2)).tolist(),
    "incomes": np.random.default_rng(0).integers(0, 10**7, 300).tolist(),
    "few": [1, 2, 10**9],
    "words": ["a", "b"] * 100,
    "gaps": [1.0, 2.0, None] * 100,
}


@pytest.mark.parametrize("word", HINTS)
def test_odd_columns_have_a_hint_without_a_value(word):
    found = draft_of(pd.DataFrame({"a": list(HINTS[word])})).hints["a"]
    assert [hint.word for hint in found] == [word]


@pytest.mark.parametrize("cells", PLAIN.values(), ids=PLAIN.keys())
def test_other_columns_have_none(cells):
    assert draft_of(pd.DataFrame({"a": cells})).hints == {}


def test_texts_that_all_differ_are_hinted_at_and_hints_do_not_depend_on_blocks(
    tmp_path, monkeypatch
):
    frame = pd.DataFrame({"a": [f"p{i}" for i in range(500)], "b": [-99.0, -99.0, *range(498)]})
    whole = draft_of(frame)
    assert [hint.word for hint in whole.hints["a"]] == ["identifier?"]
    frame.to_csv(tmp_path / "a.csv", index=False)
    monkeypatch.setattr(draft, "CHUNK", 64)
    assert draft_of(tmp_path / "a.csv") == whole


def test_hints_are_comments_of_the_file(tmp_path):
    found = draft_of(pd.DataFrame({"a": [7] * 100}))
    found.schema.to_file(tmp_path / "s.toml", notes={"a": [found.hints["a"][0].advice]})
    assert "# all cells hold one value" in (tmp_path / "s.toml").read_text()
    assert vf.Schema.from_file(tmp_path / "s.toml") == found.schema


def test_how_cells_are_written_was_read_from_the_data_too(tmp_path):
    """It is confirmed with the kind, and marked until then."""
    frame = pd.DataFrame({"a": ["1,5", "2"], "d": ["31.12.1990", "1.2.1890"]})
    schema = draft_schema(frame)
    schema.to_file(tmp_path / "s.toml")
    text = (tmp_path / "s.toml").read_text()
    assert 'decimal = ","  # NOT PUBLIC' in text
    assert 'format = "%d.%m.%Y"  # NOT PUBLIC' in text
    assert "%d" not in repr(schema)
    assert vf.Schema.from_file(tmp_path / "s.toml") == schema


def test_steps_of_whole_numbers_are_drafted():
    cells = [10_000 * (i % 90) for i in range(200)]
    assert drafted(cells) == vf.Numeric(0, 890_000, integer=True, resolution=10_000)
    assert drafted([*cells, 5]).resolution is None
