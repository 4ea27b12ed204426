"""A table read once, and closed by discoveries, is the table that `encode` reads."""

import jax
import numpy as np
import pandas as pd
import pytest

import veilflow as vf
from veilflow._core.keys import Secret
from veilflow.engine.checkpoint import _fingerprint
from veilflow.tabular.codec import encode
from veilflow.tabular.raw import RawRows, open_numbers, open_values, read_raw

NUM = 400


def frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "wage": rng.normal(size=NUM).round(3).astype(object),
            "town": rng.choice(["x", "y", " z ", "(other)", "NA", "w", None], NUM),
            "kind": rng.choice(["q", "r"], NUM),
            "age": rng.integers(0, 99, NUM).astype(object),
        }
    )
    table.loc[5, "age"], table.loc[7, "age"], table.loc[9, "kind"] = "old", None, "bad"
    table.loc[11, "wage"], table.loc[12, "wage"] = np.inf, "much"
    return table


def schema(*, nullable: bool) -> vf.Schema:
    return vf.Schema(
        wage=vf.Numeric(nullable=nullable),
        town=vf.OpenCategorical(nullable=nullable),
        kind=vf.Categorical("q", "r"),
        age=vf.Numeric(0, 99, resolution=0.3, nullable=nullable),
    )


@pytest.mark.parametrize("nullable", [True, False])
@pytest.mark.parametrize("words", [(), ("x", "z"), ("w",)])
@pytest.mark.parametrize("wage", [vf.Numeric(-2, 2), vf.Numeric(-2, 2, resolution=1e-9)], ids=str)
def test_closed_rows_are_those_of_encode(nullable, words, wage, tmp_path):
    table, declared = frame(), schema(nullable=nullable)
    table.to_csv(tmp_path / "t.csv", index=False)
    wage = vf.Numeric(wage.low, wage.high, resolution=wage.resolution, nullable=nullable)
    closed = declared.with_columns({"wage": wage})
    for source in (table, tmp_path / "t.csv"):
        raw = read_raw(source, declared, invalid="replace")
        found = raw.encoded(closed, {"town": words})
        expected = encode(source, closed, vocabularies={"town": words}, invalid="replace")
        assert found.positions.dtype == expected.positions.dtype
        np.testing.assert_array_equal(found.codes, expected.codes)
        np.testing.assert_array_equal(found.positions, expected.positions)
        said, places = open_values(source, declared, invalid="replace")["town"]
        assert (raw.said("town") == np.array([*said, None], object)[places]).all()
        numbers = open_numbers(source, declared, ["wage"], invalid="replace")["wage"]
        np.testing.assert_array_equal(raw.numbers["wage"], numbers)


def test_a_schema_that_leaves_nothing_open_is_encoded_at_once():
    declared = vf.Schema(a=vf.Numeric(0, 1), b=vf.Boolean())
    table = pd.DataFrame({"b": [True, False], "a": [0.25, 0.5]})
    raw = read_raw(table, declared)
    found = raw.encoded(declared, {})
    assert found.codes is raw.codes
    np.testing.assert_array_equal(found.positions, encode(table, declared).positions)


def test_a_schema_that_leaves_all_open_is_read():
    declared = vf.Schema(town=vf.OpenCategorical())
    raw = read_raw(pd.DataFrame({"town": ["x", "y", "x"]}), declared)
    assert raw.encoded(declared, {"town": ("y",)}).codes.tolist() == [[1], [0], [1]]
    assert len(raw.codes) == 3
    assert len(read_raw(pd.DataFrame({"town": []}), declared).codes) == 0


BAD = {
    "a gap": ({"town": None}, "column 'town' has missing cells"),
    "no number": ({"wage": "SECRET"}, "column 'wage' has cells that are not numbers"),
    "no value": ({"kind": "SECRET"}, "column 'kind' has cells with none"),
}


@pytest.mark.parametrize(("cells", "message"), BAD.values(), ids=BAD.keys())
def test_bad_cells_are_refused_by_the_name_of_their_column(cells, message):
    good = {"wage": 1.0, "town": "x", "kind": "q", "age": 3.0}
    declared = schema(nullable=False)
    read_raw(pd.DataFrame([good]), declared)
    with pytest.raises(ValueError, match=message) as refused:
        read_raw(pd.DataFrame([good, {**good, **cells}]), declared)
    assert "SECRET" not in str(refused.value)


def test_a_row_is_read_by_itself_and_shown_to_nobody():
    declared, table = schema(nullable=True), frame()
    whole = read_raw(table, declared, invalid="replace")
    assert repr(whole) == "RawRows(columns=4)"
    words = {"town": ("x", "w")}
    closed = declared.with_columns({"wage": vf.Numeric(-2, 2, nullable=True)})
    rows = whole.encoded(closed, words)
    for i in (0, 5, 7, 9, 11, 12, 100):
        one = read_raw(table.iloc[[i]], declared, invalid="replace").encoded(closed, words)
        np.testing.assert_array_equal(one.codes[0], rows.codes[i])
        np.testing.assert_array_equal(one.positions[0], rows.positions[i])


def test_a_fingerprint_tells_words_and_numbers_apart():
    declared, secret = schema(nullable=True), Secret.fresh()

    def mark(table: pd.DataFrame) -> str:
        return _fingerprint(read_raw(table, declared, invalid="replace"), secret)

    table = frame()
    same = mark(table)
    assert mark(table.copy()) == same
    for name, cell in (("town", "v"), ("wage", 0.123456789), ("kind", "r"), ("age", 98.7)):
        other = table.copy()
        other.loc[0, name] = cell if table.loc[0, name] != cell else "q"
        assert mark(other) != same, name
    assert mark(table.iloc[::-1]) != same
    two = [pd.DataFrame({"town": words}) for words in (["ab", "c"], ["a", "bc"])]
    town = vf.Schema(town=vf.OpenCategorical())
    assert len({_fingerprint(read_raw(one, town), secret) for one in two}) == 2
    assert len(jax.tree.leaves(read_raw(two[0], town))) == 4


def test_it_is_a_tree_of_arrays():
    raw = read_raw(frame(), schema(nullable=True), invalid="replace")
    assert isinstance(raw, RawRows)
    assert all(isinstance(leaf, np.ndarray) for leaf in jax.tree.leaves(raw))
