"""The core of a schema: what follows from other columns holds in every row, and rows don't meet."""

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import veilflow as vf
from veilflow._core.errors import PrivacyError
from veilflow.tabular import EncodedRows, decode, encode, satisfied, write_encoded
from veilflow.tabular.constraints import AtMost
from veilflow.tabular.raw import read_raw
from veilflow.tabular.satisfaction import satisfied_each

WHOLE = {"integer": True}
SCHEMA = vf.Schema(
    {
        "birth": vf.Numeric(19000101, 20251231, **WHOLE),
        "birth year": vf.Numeric(1900, 2025, **WHOLE),
        "net": vf.Numeric(0, 10_000, resolution=0.01),
        "tax": vf.Numeric(0, 5_000, resolution=0.01),
        "gross": vf.Numeric(0, 15_000, resolution=0.01),
        "share": vf.Numeric(0, 1, nullable=True),
        "length": vf.Numeric(0, 10, nullable=True),
        "width": vf.Numeric(0, 10, nullable=True),
        "start": vf.Numeric(0, 1000, **WHOLE),
        "stop": vf.Numeric(-10, 1010, **WHOLE),
        "clock": vf.Clock(nullable=True),
        "hour": vf.Numeric(0, 23, integer=True, nullable=True),
        "code": vf.ListedNumeric(10, 20, 55, 900),
        "size": vf.ListedNumeric(0.5, 1.25, nullable=True),
        "same": vf.ListedNumeric(10, 20, 55, 900),
        "sex": vf.Categorical("F", "M"),
        "gender": vf.Categorical("M", "F"),
        "seen": vf.Datetime("2000-01-01", "2020-12-31", resolution="day"),
        "seen year": vf.Numeric(2000, 2020, **WHOLE),
        "weekend": vf.Boolean(),
        "visit": vf.Numeric(0, 50, integer=True, nullable=True),
        "bill": vf.Numeric(0, 50, nullable=True),
        "doctor": vf.Categorical("x", "y", nullable=True),
        "note": vf.OpenCategorical(nullable=True),
        "twice": vf.Numeric(0, 100, integer=True, nullable=True),
    },
    constraints=[
        # before what it depends on
        vf.Derived("twice", "2 * visit"),
        vf.Derived("birth year", "birth // 10000"),
        vf.Sum("gross", ["net", "tax"]),
        vf.Derived("share", "tax / gross"),
        vf.Near("width", "length", 0.3),
        vf.Near("stop", "start", 5),
        vf.Derived("hour", "clock // 100"),
        vf.Equal("same", "code"),
        vf.Equal("gender", "sex"),
        vf.Derived("seen year", "year(seen)"),
        vf.Derived("weekend", "weekday(seen) >= 5"),
        vf.MissingTogether("visit", "bill", "doctor", "twice"),
        vf.MissingIf("note", when="visit"),
        vf.MissingIf("size", when="note"),
    ],
)
WORDS = {"note": ("good", "bad")}


def random_rows(num_rows: int, seed: int = 0, schema: vf.Schema = SCHEMA) -> EncodedRows:
    """Any rows of the core, such as no model would draw."""
    rng = np.random.default_rng(seed)
    core = schema.core.columns
    codes = [rng.integers(c.num_codes(WORDS.get(n)), size=num_rows) for n, c in core.items()]
    places = rng.choice([0.0, 0.5, 1 - 2**-30], (num_rows, len(core)))
    positions = np.where(
        rng.uniform(size=places.shape) < 0.3, places, rng.uniform(size=places.shape)
    )
    positions *= [column.has_position for column in core.values()]
    return EncodedRows(np.stack(codes, axis=1).astype(np.int32), positions)


def holds(rows: pd.DataFrame) -> dict[str, bool]:
    """What must hold in every row, said once more."""
    gaps = rows[["visit", "bill", "doctor", "twice"]].isna()
    near = (rows.width - rows.length).abs()
    clock = rows.clock.dropna().astype(int)
    return {
        "birth year": (rows["birth year"] == rows.birth // 10_000).all(),
        "gross": (rows.gross == (rows.net + rows.tax).round(2)).all(),
        "width": (near[near.notna()] <= 0.3).all() and rows.width[rows.length.isna()].isna().all(),
        "stop": ((rows.stop - rows.start).abs() <= 5).all(),
        "clock": ((clock % 100 < 60) & (clock <= 2359)).all(),
        "hour": (rows.hour.dropna() == rows.clock.dropna() // 100).all(),
        "codes": rows.code.isin([10, 20, 55, 900]).all() and (rows.same == rows.code).all(),
        "sizes": rows["size"].dropna().isin([0.5, 1.25]).all(),
        "gender": (rows.gender == rows.sex).all(),
        "seen": (pd.to_datetime(rows.seen).dt.year == rows["seen year"]).all(),
        "weekend": (rows.weekend == (pd.to_datetime(rows.seen).dt.day_of_week >= 5)).all(),
        "together": (gaps.all(axis=1) | ~gaps.any(axis=1)).all(),
        "note": rows.note[rows.visit.isna()].isna().all(),
        "size": rows["size"][rows.note.isna()].isna().all(),
        "twice": (rows.twice.dropna() == 2 * rows.visit.dropna()).all(),
        "share": (rows.gross == 0).eq(rows.share.isna()).all(),
    }


def test_whatever_a_model_draws_what_is_declared_holds_in_every_row(tmp_path):
    drawn = random_rows(5000)
    rows = decode(drawn, SCHEMA, vocabularies=WORDS)
    assert tuple(rows.columns) == SCHEMA.names
    assert all(holds(rows).values()), holds(rows)
    assert satisfied(rows, SCHEMA).all()
    assert satisfied(drawn, SCHEMA).all()
    assert 0.2 < rows.visit.isna().mean() < 1
    write_encoded([drawn], tmp_path / "rows.csv", SCHEMA, vocabularies=WORDS)
    again = pd.read_csv(tmp_path / "rows.csv")
    assert all(holds(again).values()), holds(again)


def test_what_was_decoded_is_encoded_as_it_was():
    first = encode(
        decode(random_rows(3000), SCHEMA, vocabularies=WORDS), SCHEMA, vocabularies=WORDS
    )
    rows = decode(first, SCHEMA, vocabularies=WORDS)
    second = encode(rows, SCHEMA, vocabularies=WORDS)
    np.testing.assert_array_equal(second.codes, first.codes)
    np.testing.assert_allclose(second.positions, first.positions, atol=2e-6)
    on_grid = [column.num_cells is not None for column in SCHEMA.core.columns.values()]
    np.testing.assert_array_equal(second.positions[:, on_grid], first.positions[:, on_grid])


def test_derived_columns_need_not_be_in_a_table_and_change_nothing():
    rows = decode(random_rows(200), SCHEMA, vocabularies=WORDS)
    wanted = encode(rows, SCHEMA, vocabularies=WORDS)
    lied = rows.assign(gross=0.0, gender="F", hour=3)
    for table in (lied, rows.drop(columns=["gross", "gender", "hour"])):
        found = encode(table, SCHEMA, vocabularies=WORDS)
        np.testing.assert_array_equal(found.codes, wanted.codes)
        np.testing.assert_array_equal(found.positions, wanted.positions)
    with pytest.raises(ValueError, match="no column 'net'"):
        encode(rows.drop(columns=["net"]), SCHEMA, vocabularies=WORDS)


CELL = (
    st.none()
    | st.floats()
    | st.integers(-(2**80), 2**80)
    | st.sampled_from(["x", "good", "F", "1275", "nan", "2020-01-05", "?", "inf", "1e300"])
    | st.dates()
    | st.booleans()
)


@settings(max_examples=60)
@given(name=st.sampled_from(SCHEMA.names), cell=CELL)
def test_no_cell_changes_another_row(name, cell):
    """With replacement, so that no cell is an error. Fit and score read rows in this way."""
    rows = decode(random_rows(4, seed=3), SCHEMA, vocabularies=WORDS).astype(object)
    before = encode(rows, SCHEMA, vocabularies=WORDS, invalid="replace")
    raw = read_raw(rows, SCHEMA, invalid="replace").encoded(SCHEMA, WORDS)
    np.testing.assert_array_equal(raw.codes, before.codes)
    rows.loc[1, name] = cell
    after = encode(rows, SCHEMA, vocabularies=WORDS, invalid="replace")
    for place in (0, 2, 3):
        np.testing.assert_array_equal(after.codes[place], before.codes[place])
        np.testing.assert_array_equal(after.positions[place], before.positions[place])
    assert satisfied(decode(after, SCHEMA, vocabularies=WORDS), SCHEMA).all()


def small(**cells) -> pd.Series:
    rows = decode(random_rows(1, seed=5), SCHEMA, vocabularies=WORDS).astype(object)
    good = {"visit": 3, "bill": 2.0, "doctor": "x", "note": "good", "size": 0.5}
    rows.loc[0, list({**good, **cells})] = list({**good, **cells}.values())
    return decode(encode(rows, SCHEMA, vocabularies=WORDS), SCHEMA, vocabularies=WORDS).iloc[0]


def test_a_record_that_contradicts_is_moved_to_what_is_declared():
    assert small(clock=1275).clock == 1259
    assert small(clock=-5).clock == 0
    assert small(clock=9999).clock == 2359
    assert small(code=30).code == small(code=30).same == 20
    assert small(start=500, stop=2000).stop == 505
    assert small(length=5.0, width=1.0).width == pytest.approx(4.7, abs=1e-6)
    assert pd.isna(small(length=None, width=5.0).width)
    for gap in ("visit", "bill", "doctor"):
        row = small(**{gap: None})
        assert row[["visit", "bill", "doctor", "twice", "note", "size"]].isna().all()
    row = small(note=None)
    assert pd.isna(row["size"])
    assert row.visit == 3


def test_a_row_that_contradicts_does_not_satisfy_the_schema():
    rows = decode(random_rows(400), SCHEMA, vocabularies=WORDS)
    rows = rows[rows.visit.notna() & rows.note.notna() & rows.length.notna()].reset_index(drop=True)
    changes = {
        "gross": 14_999.0,
        "gender": np.where(rows.sex == "F", "M", "F"),
        "stop": 1010,
        "width": np.where(rows.length > 5, 1.0, 9.0),
        "bill": None,
        "visit": None,
        "weekend": ~rows.weekend,
    }
    for name, wrong in changes.items():
        assert not satisfied(rows.assign(**{name: wrong}), SCHEMA)[1:].all(), name


def test_the_core_has_what_is_learned_in_the_form_in_which_it_is():
    core = SCHEMA.core
    assert core.core is core
    derived = {
        "birth year",
        "gross",
        "share",
        "hour",
        "same",
        "gender",
        "seen year",
        "weekend",
        "twice",
    }
    assert set(core.names) == set(SCHEMA.names) - derived
    assert core.columns["clock"] == vf.Numeric(0, 1439, integer=True, nullable=True)
    assert core.columns["code"] == vf.Numeric(0, 3, integer=True)
    assert core.columns["stop"] == vf.Numeric(-5, 5, integer=True)
    assert core.columns["width"] == vf.Numeric(-0.3, 0.3, nullable=True)
    assert vf.MissingTogether("visit", "bill", "doctor") in core.constraints
    assert vf.MissingIf("width", when="length") in core.constraints
    plain = vf.Schema(a=vf.Numeric(0, 1), b=vf.Numeric(0, 1), constraints=[AtMost("a", "b")])
    assert plain.core is plain


def test_decimals_on_a_grid_stay_on_it():
    step = {"resolution": 0.01}
    schema = vf.Schema(
        x=vf.Numeric(0, 1e6, **step),
        y=vf.Numeric(0, 1e6, **step),
        constraints=[vf.Near("y", "x", 0.3)],
    )
    assert schema.core.columns["y"] == vf.Numeric(-0.3, 0.3, **step)
    rng = np.random.default_rng(0)
    x = rng.uniform(1, 999_999, 2000).round(2)
    table = pd.DataFrame({"x": x, "y": (x + rng.integers(-30, 31, 2000) / 100).round(2)})
    back = decode(encode(table, schema), schema)
    pd.testing.assert_frame_equal(back, table, check_exact=True)


def test_ranges_that_do_not_meet_are_told_by_the_rows():
    schema = vf.Schema(
        x=vf.Numeric(0, 100), y=vf.Numeric(0, 10), constraints=[vf.Near("y", "x", within=1)]
    )
    rows = EncodedRows(np.zeros((2, 2), np.int32), np.array([[0.05, 0.5], [0.9, 0.5]]))
    assert satisfied(rows, schema).tolist() == [True, False]


def test_constraints_compare_what_rows_decode_to():
    schema = vf.Schema(
        x=vf.Numeric(0, 10, integer=True),
        y=vf.Numeric(0, 20, integer=True),
        z=vf.Numeric(0, 30, integer=True),
        t=vf.Clock(),
        constraints=[
            vf.Derived("y", "2 * x"),
            AtMost("y", "z"),
            vf.Between("t", 900, "z"),
            vf.Allowed(["k"], [["a"], [None]]),
        ],
        k=vf.Categorical("a", "b", nullable=True),
    )
    table = pd.DataFrame({"x": [1, 1, 9], "y": [2, 2, 18], "z": [3, 2, 17], "t": [0, 1000, 0]})
    table["k"] = ["a", "b", None]
    assert satisfied(table, schema).tolist() == [False, False, False]
    rows = encode(table, schema)
    assert satisfied_each(rows, schema)[:, 1].tolist() == [True, True, False]
    assert satisfied_each(rows, schema)[:, 3].tolist() == [True, False, True]


def test_a_schema_comes_back_from_its_file(tmp_path):
    both = SCHEMA.with_constraints(vf.Between("net", 0, "gross"), AtMost("tax", "gross"))
    both.to_file(tmp_path / "schema.toml")
    assert vf.Schema.from_file(tmp_path / "schema.toml") == both
    assert vf.Schema.from_json(json.loads(json.dumps(both.to_json()))) == both
    assert both.core.names == SCHEMA.core.names


NULLABLE = {"nullable": True}
REFUSED = {
    "twice": ([vf.Derived("c", "a"), vf.Near("c", "b", 1)], "two constraints"),
    "a circle": ([vf.Derived("c", "a"), vf.Derived("a", "c")], "circle"),
    "a gap": ([vf.Derived("a", "n + 1")], "nullable"),
    "a division": ([vf.Derived("a", "1 / b")], "nullable"),
    "text": ([vf.Derived("a", "s + 1")], "which is categorical"),
    "a date": ([vf.Derived("a", "d + 1")], "takes numbers"),
    "no date": ([vf.Derived("a", "year(b)")], "takes a column of dates"),
    "onto text": ([vf.Derived("s", "a")], "only copy"),
    "other values": ([vf.Equal("s", "r")], "which is categorical"),
    "no gaps": ([vf.MissingIf("a", when="n")], "not declared nullable"),
    "not together": ([vf.MissingTogether("n", "a")], "not declared nullable"),
    "gaps of a derived column": (
        [vf.Derived("n", "m + 1"), vf.MissingIf("n", when="o")],
        "operands",
    ),
    "near a text": ([vf.Near("a", "s", 1)], "numeric columns"),
    "near with gaps": ([vf.Near("a", "n", 1)], "nullable"),
    "a clock near": ([vf.Near("k", "a", 1)], "no differences"),
    "between texts": ([vf.Between("a", 0, "s")], "numeric columns"),
    "no column": ([vf.Derived("x", "a")], "not a column"),
    "no operand": ([vf.Derived("a", "x")], "not a column"),
}


@pytest.mark.parametrize(("constraints", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_what_means_nothing_is_refused_when_it_is_declared(constraints, message):
    columns = {name: vf.Numeric(0, 10) for name in "abc"}
    columns |= {name: vf.Numeric(0, 10, nullable=True) for name in "nmo"}
    columns |= {"s": vf.Categorical("x", "y"), "r": vf.Categorical("x", "z"), "k": vf.Clock()}
    columns |= {"d": vf.Datetime("2000-01-01", "2001-01-01")}
    with pytest.raises(ValueError, match=message):
        vf.Schema(columns, constraints=constraints)


BAD = (
    lambda: vf.Derived("a", "a + 1"),
    lambda: vf.Derived("a", 3),
    lambda: vf.Derived("a", "__import__('os')"),
    lambda: vf.Near("a", "b", 0),
    lambda: vf.Near("a", "b", float("inf")),
    lambda: vf.Near("a", "a", 1),
    lambda: vf.MissingIf("a", when="a"),
    lambda: vf.MissingTogether("a"),
    lambda: vf.MissingTogether("a", "a"),
    lambda: vf.MissingTogether(["a", "b"]),
    lambda: vf.Between("a", 2, 1),
    lambda: vf.Between("a", "a", 1),
    lambda: vf.Sum("a", "bc"),
    lambda: vf.Sum("a", []),
    lambda: vf.Equal("a", 1),
    lambda: vf.Clock(75, 100),
    lambda: vf.Clock(0, 2401),
    lambda: vf.Clock(1200, 1100),
    lambda: vf.ListedNumeric(),
    lambda: vf.ListedNumeric([1, 2]),
    lambda: vf.ListedNumeric(1, 1),
    lambda: vf.ListedNumeric(1, float("nan")),
)


@pytest.mark.parametrize("make", BAD, ids=range(len(BAD)))
def test_bad_declarations_are_refused(make):
    with pytest.raises((ValueError, TypeError)):
        make()


@pytest.mark.parametrize(
    "field",
    [
        {"expression": "__import__('os').system('true')"},
        {"expression": "a" + "+a" * 5000},
        {"expression": ["a"]},
        {"expression": None},
        {"column": 3},
        {"code": "a"},
    ],
)
def test_a_hostile_constraint_in_a_file_is_refused(field):
    schema = vf.Schema(a=vf.Numeric(0, 1), b=vf.Numeric(0, 1), constraints=[vf.Equal("b", "a")])
    document = schema.to_json()
    document["constraints"][0] |= field
    with pytest.raises(ValueError, match=r"constraint|expression"):
        vf.Schema.from_json(document)


def test_a_draft_keeps_rules_about_gaps_and_forgets_bounds_that_follow():
    schema = vf.Schema(
        x=vf.Numeric(0, 10, nullable=True, unconfirmed=("low", "high")),
        y=vf.Numeric(0, 10, nullable=True, unconfirmed=("low", "high")),
        z=vf.Numeric(0, 20, integer=True, nullable=True, unconfirmed=("low", "high")),
        s=vf.Categorical("a", nullable=True, unconfirmed=("values",)),
        constraints=[vf.Near("y", "x", 0.5), vf.Derived("z", "x + y"), vf.MissingIf("s", when="x")],
    )
    left = schema.forget_unconfirmed()
    assert left.constraints == schema.constraints
    assert left.core.open == ("x", "s")
    closed = left.with_columns({"x": vf.Numeric(-8, 8, nullable=True)}).bounded()
    assert (closed.columns["y"].low, closed.columns["y"].high) == (-9, 9)
    assert (closed.columns["z"].low, closed.columns["z"].high) == (-17, 17)
    listed = schema.with_constraints(vf.Allowed(["s"], [["a"], [None]]))
    with pytest.raises(PrivacyError, match="a constraint uses"):
        listed.forget_unconfirmed()


def test_unknown_bounds_do_not_change_the_core():
    """The plan is made before bounds are discovered; the model has those that were."""
    schema = vf.Schema(
        x=vf.Numeric(resolution=0.5),
        y=vf.Numeric(0.5, 100, resolution=0.5),
        constraints=[vf.Near("y", "x", 2)],
    )
    closed = schema.with_columns({"x": vf.Numeric(-64, 128, resolution=0.5)})
    assert closed.core.columns["y"] == schema.core.columns["y"] == vf.Numeric(-2, 2, resolution=0.5)


def test_forgotten_clocks_span_a_day_and_forgotten_lists_are_numbers():
    schema = vf.Schema(
        t=vf.Clock(700, 1900, unconfirmed=("low",)),
        v=vf.ListedNumeric(1, 5, unconfirmed=("values",)),
    )
    left = schema.forget_unconfirmed()
    assert left.columns == {"t": vf.Clock(), "v": vf.Numeric()}


def test_infinite_numbers_without_bounds_are_no_error():
    schema = vf.Schema(
        x=vf.Numeric(),
        y=vf.Numeric(),
        z=vf.Numeric(),
        w=vf.Numeric(),
        constraints=[vf.Near("y", "x", 1), vf.Derived("z", "x * x"), vf.Near("w", "z", 1)],
    )
    cells = [np.inf, -np.inf, 1e300, 0.0]
    rows = pd.DataFrame({"x": cells, "y": cells[::-1], "w": cells})
    raw = read_raw(rows, schema)
    closed = schema.with_columns({"x": vf.Numeric(-64, 64)}).bounded()
    back = decode(raw.encoded(closed, {}), closed)
    assert (back.x.abs() <= 64).all()
    assert ((back.y - back.x).abs() <= 1).all()
    np.testing.assert_array_equal(back.z, back.x**2)


@pytest.mark.parametrize("within", [1e-300, 0.05, 1e15, 1e300, 1e308])
@pytest.mark.parametrize("step", [None, 1e-3, 1e-290])
def test_any_difference_is_a_column_or_refused(within, step):
    other = vf.Numeric(0, 100, resolution=step and 0.5)
    high = 100 if step != 1e-290 else 1e-285
    columns = {"x": other, "y": vf.Numeric(0, high, resolution=step)}
    try:
        schema = vf.Schema(columns, constraints=[vf.Near("y", "x", within)])
    except ValueError:
        return
    rows = pd.DataFrame({"x": [3.0, 0.0], "y": [3.0, 0.0]})
    back = decode(encode(rows, schema), schema)
    assert (back.y <= high).all()
