import json
import stat

import pytest
from hypothesis import given
from hypothesis import strategies as st

import veilflow as vf
from veilflow._core.errors import PrivacyError
from veilflow.tabular import schema_file

SCHEMA = vf.Schema(
    {"marital status": vf.Categorical("single", "married", nullable=True)},
    age=vf.Numeric(17, 90, integer=True),
    income=vf.Numeric(0, 1e6, resolution=0.01, nullable=True),
    unknown=vf.Numeric(),
    sex=vf.Categorical("F", "M"),
    grade=vf.Ordinal(1, 2, 3),
    city=vf.OpenCategorical(max_values=50, nullable=True),
    smoker=vf.Boolean(nullable=True),
    born=vf.Datetime("1890-01-01", "2020-12-31", resolution="day"),
    seen=vf.Datetime("1990-01-01", "2020-12-31", resolution="day"),
    label="sex",
    constraints=[
        vf.AtMost("born", "seen"),
        vf.Allowed(["sex", "smoker"], [["F", None], ["M", True], ["M", False]]),
    ],
)

names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(
    lambda name: name == name.strip()
)
bounds = st.tuples(st.floats(-1e9, 1e9), st.floats(-1e9, 1e9)).filter(lambda b: b[0] < b[1])
flags = st.booleans()


@st.composite
def columns(draw):
    kind = draw(st.sampled_from(["numeric", "integer", "listed", "open", "boolean", "datetime"]))
    nullable = draw(flags)
    if kind == "numeric":
        low, high = draw(bounds)
        column = vf.Numeric(low, high, nullable=nullable)
    elif kind == "integer":
        low, size = draw(st.integers(-(10**6), 10**6)), draw(st.integers(0, 10**6))
        column = vf.Numeric(low, low + size, integer=True, nullable=nullable)
    elif kind == "listed":
        values = draw(
            st.lists(names.filter(lambda n: n != "(other)"), min_size=1, unique=True)
            | st.lists(st.integers(-(10**9), 10**9), min_size=1, unique=True)
        )
        column = draw(st.sampled_from([vf.Categorical, vf.Ordinal]))(*values, nullable=nullable)
    elif kind == "open":
        column = vf.OpenCategorical(max_values=draw(st.integers(1, 10**6)), nullable=nullable)
    elif kind == "boolean":
        column = vf.Boolean(nullable=nullable)
    else:
        start, end = sorted([draw(st.datetimes()), draw(st.datetimes())])
        word = draw(st.sampled_from(["second", "minute", "hour", "day"]))
        column = vf.Datetime(start, end, resolution=word, nullable=nullable)
    return column


schemas = st.dictionaries(names, columns(), min_size=1, max_size=6).map(vf.Schema)


@given(schema=schemas)
def test_a_schema_comes_back_from_toml_and_json(schema):
    document = schema.to_json()
    assert vf.Schema.from_json(json.loads(json.dumps(document, allow_nan=False))) == schema
    text = schema_file.to_text(schema)
    assert vf.Schema.from_json(schema_file.parse(text)) == schema
    assert hash(vf.Schema.from_json(schema_file.parse(text))) == hash(schema)


def test_a_schema_with_everything_comes_back_from_a_file(tmp_path):
    SCHEMA.to_file(tmp_path / "s.toml")
    again = vf.Schema.from_file(tmp_path / "s.toml")
    assert again == SCHEMA
    assert again.names == SCHEMA.names
    assert again.label == "sex"
    assert again.constraints == SCHEMA.constraints
    assert vf.Schema.from_json(SCHEMA.to_json()) == SCHEMA
    assert SCHEMA.open == ("unknown", "city")
    assert [path.name for path in tmp_path.iterdir()] == ["s.toml"]


def test_a_column_may_be_called_label_or_constraints():
    schema = vf.Schema(label=vf.Boolean(), constraints=vf.Categorical("a"))
    assert schema.names == ("label", "constraints")
    assert schema.label is None


def test_schemas_differ_by_order_label_and_constraints():
    a, b = vf.Numeric(0, 1), vf.Numeric(0, 2)
    assert vf.Schema(a=a, b=b) != vf.Schema(b=b, a=a)
    assert vf.Schema(a=a, b=b) != vf.Schema(a=a, b=b, label="a")
    assert vf.Schema(a=a, b=b) != vf.Schema(a=a, b=b, constraints=[vf.AtMost("a", "b")])
    assert vf.Schema(a=a) != "a"


def test_the_repr_names_every_column():
    text = repr(SCHEMA)
    assert all(name in text for name in SCHEMA.names)
    assert "Numeric(17, 90, integer=True)" in text
    assert "not public" not in text


BAD = {
    "no columns": (lambda: vf.Schema(), "at least one column"),
    "no column": (lambda: vf.Schema(a=1), "'a' must be one of Numeric"),
    "spaces": (lambda: vf.Schema({" a": vf.Boolean()}), "spaces"),
    "no name": (lambda: vf.Schema({"": vf.Boolean()}), "no name"),
    "a number": (lambda: vf.Schema({1: vf.Boolean()}), "must be text"),
    "twice": (lambda: vf.Schema({"a": vf.Boolean()}, a=vf.Boolean()), "twice"),
    "no label": (lambda: vf.Schema(a=vf.Boolean(), label="b"), "label must name"),
    "strange constraint": (
        lambda: vf.Schema(a=vf.Boolean(), constraints=["a"]),
        "constraints must be",
    ),
    "unknown name": (
        lambda: vf.Schema(a=vf.Numeric(0, 1), constraints=[vf.AtMost("a", "b")]),
        "not a column",
    ),
    "kinds": (
        lambda: vf.Schema(a=vf.Numeric(0, 1), b=vf.Boolean(), constraints=[vf.AtMost("a", "b")]),
        "two numeric or two datetime",
    ),
    "numbers": (
        lambda: vf.Schema(a=vf.Numeric(0, 1), constraints=[vf.Allowed(["a"], [[1]])]),
        "numeric",
    ),
    "value": (
        lambda: vf.Schema(a=vf.Categorical("x"), constraints=[vf.Allowed(["a"], [["y"]])]),
        "does not have",
    ),
    "truth for number": (
        lambda: vf.Schema(a=vf.Categorical(1, 2), constraints=[vf.Allowed(["a"], [[True]])]),
        "does not have",
    ),
    "number for truth": (
        lambda: vf.Schema(a=vf.Boolean(), constraints=[vf.Allowed(["a"], [[1]])]),
        "does not have",
    ),
    "gap": (
        lambda: vf.Schema(a=vf.Categorical("x"), constraints=[vf.Allowed(["a"], [[None]])]),
        "does not have",
    ),
    "itself": (lambda: vf.AtMost("a", "a"), "two columns"),
    "ragged": (lambda: vf.Allowed(["a", "b"], [["x"]]), "one value for every"),
    "nothing": (lambda: vf.Allowed(["a"], []), "at least one combination"),
    "one name": (lambda: vf.Allowed("a", [["x"]]), "list of names"),
}


@pytest.mark.parametrize(("make", "message"), BAD.values(), ids=BAD.keys())
def test_schemas_that_contradict_themselves_are_refused(make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make()


BAD_FILES = {
    "no toml": ("columns = [", "not valid TOML"),
    "empty": ("", r"\[columns.<name>\]"),
    "no table": ("columns.a = 1", "must be a table"),
    "no kind": ("[columns.a]", "kind of column 'a'"),
    "kind": ("[columns.a]\nkind = 'number'", "kind of column 'a'"),
    "field": ("[columns.a]\nkind = 'boolean'\nlow = 1", "unknown field 'low'"),
    "named": ("[columns.a]\nkind = 'boolean'\nname = 'b'", "unknown field 'name'"),
    "top field": ("lable = 'a'\n[columns.a]\nkind = 'boolean'", "unknown field 'lable'"),
    "label": ("label = 1\n[columns.a]\nkind = 'boolean'", "label"),
    "bounds": ("[columns.a]\nkind = 'numeric'\nlow = 2\nhigh = 1", "low must be below"),
    "values": ("[columns.a]\nkind = 'categorical'\nvalues = 'ab'", "must be a list"),
    "confirmed": ("[columns.a]\nkind = 'boolean'\nconfirmed = 'yes'", "true, false or a list"),
    "fact": ("[columns.a]\nkind = 'boolean'\nconfirmed = ['low']", "true, false or a list"),
    "constraint": ("[columns.a]\nkind = 'boolean'\n[[constraints]]\nkind = 'x'", "at_most"),
    "missing field": (
        "[columns.a]\nkind = 'boolean'\n[[constraints]]\nkind = 'at_most'\nlow = 'a'",
        "must have the field 'high'",
    ),
    "start": ("[columns.a]\nkind = 'datetime'\nstart = 2000-01-01", "column 'a' is not allowed"),
}


@pytest.mark.parametrize(("text", "message"), BAD_FILES.values(), ids=BAD_FILES.keys())
def test_bad_files_are_refused_by_name_and_reason(text, message, tmp_path):
    (tmp_path / "s.toml").write_text(text)
    with pytest.raises(ValueError, match=message) as info:
        vf.Schema.from_file(tmp_path / "s.toml")
    assert str(info.value).startswith("s.toml")


def test_a_file_that_is_not_utf8_is_refused(tmp_path):
    (tmp_path / "s.toml").write_bytes(b"label = '\xff'")
    with pytest.raises(ValueError, match="UTF-8"):
        vf.Schema.from_file(tmp_path / "s.toml")


@pytest.mark.parametrize("change", [{"columns": []}, {"columns": [{}]}, {"x": 1}, {"label": 3}])
def test_bad_json_is_refused(change):
    with pytest.raises(ValueError):
        vf.Schema.from_json({**SCHEMA.to_json(), **change})


DRAFT = vf.Schema(
    a=vf.Numeric(1234, 5678, integer=True, unconfirmed=vf.Numeric.facts),
    b=vf.Categorical("SECRET", unconfirmed=("values",)),
    c=vf.Boolean(),
)


def test_a_draft_says_what_is_not_public_and_only_its_owner_reads_it(tmp_path):
    path = tmp_path / "s.toml"
    DRAFT.to_file(path)
    text = path.read_text()
    assert "low = 1234  # NOT PUBLIC" in text
    assert 'values = ["SECRET"]  # NOT PUBLIC' in text
    assert 'kind = "numeric"  # NOT PUBLIC' in text
    assert text.count("# NOT PUBLIC") == 6
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert vf.Schema.from_file(path) == DRAFT
    assert DRAFT.unconfirmed == {"a": vf.Numeric.facts, "b": ("values",)}
    assert "1234" not in repr(DRAFT)
    assert "SECRET" not in repr(DRAFT)


def test_editing_the_word_confirmed_confirms(tmp_path):
    path = tmp_path / "s.toml"
    text = schema_file.to_text(DRAFT)
    path.write_text(text.replace("confirmed = false", 'confirmed = ["low", "high"]'))
    left = ("kind", "integer", "resolution", "nullable")
    assert vf.Schema.from_file(path).unconfirmed["a"] == left
    path.write_text(text.replace("confirmed = false", "confirmed = true"))
    assert "a" not in vf.Schema.from_file(path).unconfirmed
    assert DRAFT.confirm("a").unconfirmed == {"b": ("values",)}
    assert DRAFT.confirm("a", facts=["kind", "low"]).unconfirmed["a"] == vf.Numeric.facts[2:]
    assert DRAFT.confirm().unconfirmed == {}
    assert DRAFT.confirm().columns["b"] == vf.Categorical("SECRET")
    with pytest.raises(ValueError, match="no column"):
        DRAFT.confirm("z")


def test_an_error_in_a_draft_shows_no_value_of_it(tmp_path):
    text = schema_file.to_text(DRAFT).replace("high = 5678", "high = 0")
    (tmp_path / "s.toml").write_text(text)
    with pytest.raises(ValueError, match="column 'a' is not allowed") as info:
        vf.Schema.from_file(tmp_path / "s.toml")
    assert "1234" not in str(info.value)


def test_forgetting_leaves_nothing_that_was_read_from_data():
    forgotten = DRAFT.confirm(facts=["kind"]).forget_unconfirmed()
    assert forgotten.unconfirmed == {}
    assert forgotten.columns["a"] == vf.Numeric(nullable=True)
    assert forgotten.columns["b"] == vf.OpenCategorical()
    assert forgotten.columns["c"] == vf.Boolean()
    assert SCHEMA.forget_unconfirmed() == SCHEMA


def test_forgetting_keeps_what_is_confirmed():
    schema = vf.Schema(
        a=vf.Numeric(0, 9, integer=True, unconfirmed=("nullable",)),
        b=vf.Numeric(0, 9, integer=True, unconfirmed=("high",)),
        c=vf.Ordinal("x", "y", unconfirmed=("nullable",)),
        d=vf.Boolean(unconfirmed=("values",)),
    )
    assert schema.forget_unconfirmed() == vf.Schema(
        a=vf.Numeric(0, 9, integer=True, nullable=True),
        b=vf.Numeric(integer=True),
        c=vf.Ordinal("x", "y", nullable=True),
        d=vf.OpenCategorical(),
    )


@pytest.mark.parametrize(
    "schema",
    [
        vf.Schema(a=vf.Numeric(0, 1, unconfirmed=("kind",))),
        vf.Schema(a=vf.OpenCategorical(unconfirmed=vf.OpenCategorical.facts)),
        vf.Schema(a=vf.Ordinal("x", "y", unconfirmed=("values",))),
        vf.Schema(a=vf.Datetime("2000-01-01", "2001-01-01", unconfirmed=("start",))),
        vf.Schema(
            a=vf.Categorical("x", "y", unconfirmed=("values",)),
            constraints=[vf.Allowed(["a"], [["x"]])],
        ),
    ],
)
def test_what_no_budget_discovers_must_be_confirmed(schema):
    with pytest.raises(PrivacyError, match=r"column 'a'|columns a\b"):
        schema.forget_unconfirmed()


def test_columns_are_declared_anew_in_their_place():
    schema = SCHEMA.with_columns({"unknown": vf.Numeric(0, 5)})
    assert schema.open == ("city",)
    assert schema.names == SCHEMA.names
    with pytest.raises(ValueError, match="no column"):
        SCHEMA.with_columns({"z": vf.Boolean()})
