"""Fits of tables as they come: empty, tiny, full of gaps, full of words; bad ones refused."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

import veilflow as vf
from tests.models.table import small
from veilflow._core.keys import Secret
from veilflow.privacy.guarantees import Sensitive
from veilflow.releases.release import Tools
from veilflow.releases.table.discovery import ColumnValues

QUICK = {"steps": 0, "warm_start": False, "hidden": ()}


def fit(schema: vf.Schema, table, **settings):
    return small.estimator(**{"schema": schema, "num_records": None, **QUICK, **settings}).fit(
        table, progress=False
    )


def test_a_table_without_rows_is_fitted_and_not_told(tmp_path):
    nothing = small.frame(5).iloc[:0]
    nothing.to_csv(tmp_path / "nothing.csv", index=False)
    for table in (nothing, tmp_path / "nothing.csv"):
        model = fit(small.SCHEMA, table)
        assert model.guarantee == fit(small.SCHEMA, small.frame(1)).guarantee
        assert len(model.sample(3, seed=0)) == 3


def test_a_table_of_one_row_is_fitted_and_not_told():
    table = small.frame(1)
    model = fit(small.SCHEMA, table)
    rows = model.sample(200, seed=0)
    assert model.vocabularies["city"] == ()
    assert set(rows.city.dropna()) <= {"(other)"}
    # noise covers a single row: nothing in it is certain
    assert rows.sex.nunique() == 2
    assert rows.age.nunique() > 5
    assert np.isfinite(model.log_prob(table)).all()


def test_columns_of_nothing_but_gaps_are_fitted():
    schema = vf.Schema(
        number=vf.Numeric(0, 10, nullable=True),
        unknown=vf.Numeric(nullable=True),
        word=vf.OpenCategorical(nullable=True),
        listed=vf.Categorical("x", nullable=True),
        day=vf.Datetime("2020-01-01", "2020-12-31", resolution="day", nullable=True),
        there=vf.Boolean(),
    )
    table = pd.DataFrame({name: [None] * 300 for name in schema.names}).assign(there=True)
    model = fit(schema, table, num_records=300)
    rows = model.sample(400, seed=0)
    assert rows.drop(columns="there").isna().mean().min() > 0.8
    assert rows.there.mean() > 0.8
    filled = model.impute(table, seed=0)  # and gaps are filled though none ever was
    assert filled.isna().sum().sum() == 0


def test_five_thousand_words_become_those_that_many_share():
    rng = np.random.default_rng(0)
    words = np.array([f"word{i}" for i in range(5000)])
    often = rng.choice(["yes", "no"], 3000)
    table = pd.DataFrame({"a": np.concatenate([words, often]), "b": rng.uniform(size=8000)})
    schema = vf.Schema(a=vf.OpenCategorical(), b=vf.Numeric(0, 1))
    model = fit(schema, table)
    # each of the words that one record has comes out with a probability of 2e-5 at most
    assert {"no", "yes"} <= set(model.vocabularies["a"])
    assert len(model.vocabularies["a"]) < 7
    shares = model.sample(3000, seed=0).a.value_counts(normalize=True)
    assert shares["(other)"] == pytest.approx(5 / 8, abs=0.05)
    few = vf.Schema(a=vf.OpenCategorical(max_values=1), b=vf.Numeric(0, 1))
    release = small.estimator(schema=few).plan().release(ColumnValues)
    said = Sensitive(table.a.to_numpy(object))
    assert len(release.run(said, Tools(Secret.fresh())).value) == 1


def test_one_column_and_no_label_are_enough():
    table = pd.DataFrame({"a": np.repeat(["x", "y"], [900, 100])})
    schema = vf.Schema(a=vf.Categorical("x", "y"))
    model = fit(schema, table, warm_start=True, hidden=(4,), num_records=1000)
    assert model.order == ("a",)
    assert (model.sample(3000, seed=0).a == "x").mean() == pytest.approx(0.9, abs=0.04)
    assert np.exp(model.log_prob(pd.DataFrame({"a": ["x", "y"]}))).sum() == pytest.approx(1)
    assert set(model.sample(5, given={"a": "y"}).a) == {"y"}


def test_the_label_is_drawn_last_and_columns_keep_their_order():
    schema = vf.Schema(small.SCHEMA.columns, label="age")
    model = fit(schema, small.frame(50))
    assert model.order == ("gain", "city", "sex", "grade", "seen", "smoker", "age")
    assert tuple(model.sample(2).columns) == small.SCHEMA.names


def test_frames_and_files_of_any_kind_say_the_same(tmp_path):
    table = small.frame(80).drop(columns="city")
    schema = vf.Schema({n: c for n, c in small.SCHEMA.columns.items() if n != "city"})
    arrow = pa.Table.from_pandas(table, preserve_index=False)
    table.to_csv(tmp_path / "t.csv", index=False)
    parquet.write_table(arrow, tmp_path / "t.parquet")
    sources = [table, table[table.columns[::-1]], arrow, tmp_path / "t.csv", tmp_path / "t.parquet"]
    scores = [fit(schema, source, num_records=80).log_prob(table) for source in sources]
    for other in scores[1:]:
        np.testing.assert_allclose(other, scores[0], rtol=1e-5)


BAD = {
    "a category nobody declared": (lambda t: t.assign(sex="X"), "column 'sex'"),
    "a column missing": (lambda t: t.drop(columns="age"), "has no column 'age'"),
    "a column too many": (lambda t: t.assign(more=1), "not in the schema: 'more'"),
    "words for numbers": (lambda t: t.assign(gain="much"), "column 'gain'"),
    "gaps nobody declared": (lambda t: t.assign(smoker=None), "column 'smoker' has missing cells"),
    "another table": (lambda t: pd.DataFrame({"x": [1]}), "has none of the columns"),
}


@pytest.mark.parametrize(("change", "message"), BAD.values(), ids=BAD.keys())
def test_a_table_that_does_not_fit_the_schema_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        fit(small.SCHEMA, change(small.frame(30)))


def test_columns_too_many_may_be_ignored():
    estimator = small.estimator(**QUICK)
    model = estimator.fit(small.frame(30).assign(more=1), progress=False, extra="ignore")
    assert "more" not in model.columns


REPLACED = vf.Schema(
    age=vf.Numeric(17, 90, integer=True, nullable=True),
    gain=vf.Numeric(-50, 1000),
    sex=vf.Categorical("F", "M"),
    grade=vf.Ordinal("a", "b", "c", nullable=True),
)


def test_cells_that_are_not_as_declared_may_be_replaced(tmp_path):
    """By a gap where there may be one, else by the first value or the lower bound."""
    good = small.frame(200)[list(REPLACED.names)].astype(object)
    bad, expected = good.copy(), good.copy()
    bad.loc[3] = ["young", "much", "X", "d"]
    expected.loc[3] = [None, -50.0, "F", None]
    bad.loc[9, ["gain", "sex"]] = None, None
    expected.loc[9, ["gain", "sex"]] = -50.0, "F"
    for name, table in (("bad", bad), ("expected", expected)):
        table.to_csv(tmp_path / f"{name}.csv", index=False)
    estimator = small.estimator(schema=REPLACED, num_records=200, **QUICK)
    with pytest.raises(ValueError, match="column 'age' has cells that are not numbers"):
        estimator.fit(tmp_path / "bad.csv", progress=False)
    found, asked = (
        estimator.fit(tmp_path / f"{name}.csv", progress=False, invalid="replace")
        for name in ("bad", "expected")
    )
    for one, two in zip(found.coder.columns, asked.coder.columns, strict=True):
        np.testing.assert_array_equal(one.mass, two.mass)
    with pytest.raises(ValueError, match="invalid must be one of 'error', 'replace'"):
        estimator.fit("no-such-file.csv", progress=False, invalid="drop")


def test_what_one_record_holds_replaces_nothing_in_another(tmp_path):
    frame = small.frame(50)[list(REPLACED.names)].astype(object)
    frame.to_csv(tmp_path / "one.csv", index=False)
    frame.loc[7] = ["?", "n/a", "unknown", "z"]
    frame.to_csv(tmp_path / "two.csv", index=False)
    estimator = small.estimator(schema=REPLACED)
    one, two = (
        estimator.read(tmp_path / f"{n}.csv", invalid="replace").records.open()
        for n in ("one", "two")
    )
    others = np.arange(50) != 7
    np.testing.assert_array_equal(one.codes[others], two.codes[others])
    np.testing.assert_array_equal(one.positions[others], two.positions[others])
    assert len(two.codes) == 50


def test_a_fit_is_saved_where_it_shall_be(tmp_path):
    model = small.estimator(**QUICK).fit(
        small.frame(30), progress=False, save_as=tmp_path / "m.veil"
    )
    assert repr(vf.load(tmp_path / "m.veil")) == repr(model)
