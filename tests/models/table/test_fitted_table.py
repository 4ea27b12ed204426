"""A fitted table: rows of the schema, given cells, gaps filled, scores, files."""

import dataclasses
import warnings
from itertools import product

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import veilflow as vf
from tests.models.table import small
from veilflow._core.errors import ArtifactError
from veilflow.models import registry
from veilflow.models.table import fitted_table
from veilflow.models.table.conditional import effective_size, resampled


@pytest.fixture
def model():
    return small.fitted()


def test_rows_have_the_columns_types_and_ranges_of_the_schema(model):
    rows = model.sample(3000, seed=1)
    assert tuple(rows.columns) == small.SCHEMA.names == model.columns
    assert str(rows.age.dtype) == "Int64"
    assert rows.smoker.dtype == bool
    assert rows.seen.dtype.kind == "M"
    assert rows.age.dropna().between(17, 90).all()
    assert rows.gain.between(-50, 1000).all()
    assert set(rows.sex) == {"F", "M"}
    assert set(rows.grade.dropna()) == {"a", "b", "c"}
    gaps = rows.isna().mean()
    assert gaps[["gain", "sex", "seen", "smoker"]].sum() == 0
    np.testing.assert_allclose(gaps[["age", "city", "grade"]], [0.1, 0.05, 0.2], atol=0.06)
    # a spike comes out as itself, though the column has no grid
    assert (rows.gain == 0).mean() == pytest.approx(0.6, abs=0.08)


def test_the_same_seed_gives_the_same_rows_in_any_library_and_any_file(model, tmp_path):
    rows = model.sample(700, seed=4)
    pd.testing.assert_frame_equal(model.sample(700, seed=4), rows)
    assert not model.sample(700, seed=5).equals(rows)
    assert not model.sample(700).equals(model.sample(700))
    table = model.sample(700, seed=4, like="pyarrow")
    assert table.num_rows == 700
    for suffix in ("csv", "parquet", "arrow"):
        seen = []
        model.sample_to(tmp_path / f"t.{suffix}", 700, seed=4, monitor=seen.append)
        assert seen[-1] == 700
        again = vf.tabular.encode(
            tmp_path / f"t.{suffix}", model.schema, vocabularies=model.vocabularies
        )
        expected = vf.tabular.encode(rows, model.schema, vocabularies=model.vocabularies)
        np.testing.assert_array_equal(again.codes, expected.codes)
        np.testing.assert_allclose(again.positions, expected.positions, atol=1e-7)
    assert len(model.sample(0)) == 0
    assert list(model.sample(0).columns) == list(rows.columns)


def test_synthetic_rows_can_be_scored_and_fitted_again(model):
    rows = model.sample(300, seed=1)
    scores = model.log_prob(rows)
    assert scores.shape == (300,)
    assert np.isfinite(scores).all()
    assert model.log_prob(rows.iloc[:0]).shape == (0,)
    np.testing.assert_allclose(model.log_prob(rows.iloc[[7]]), scores[7], rtol=1e-5)
    with pytest.raises(ValueError, match="not in the schema: 'more'"):
        model.log_prob(rows.assign(more=1))
    np.testing.assert_array_equal(model.log_prob(rows.assign(more=1), extra="ignore"), scores)


def test_rows_that_are_hostile_still_have_a_score(model):
    rows = small.frame(6)
    rows["age"] = [np.inf, -1e300, 17, 90, None, 1e9]
    rows["gain"] = [1e38, -1e38, np.inf, -np.inf, 0.0, 5e-324]
    rows["city"] = ["", None, "(other)", "x" * 10_000, "paris", "NaN"]
    assert np.isfinite(model.log_prob(rows)).all()


def test_columns_that_come_first_are_given_exactly(model):
    assert model.order[-1] == "smoker"  # the label is drawn from all others
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rows = model.sample(500, given={"age": 33, "gain": 12.25}, seed=2)
    assert (rows.age == 33).all()
    np.testing.assert_allclose(rows.gain, 12.25)
    missing = model.sample(50, given={"age": None}, seed=2)
    assert missing.age.isna().all()
    assert str(missing.age.dtype) == "Int64"


def test_other_columns_are_given_by_weight_and_the_warning_says_what_it_is_worth(model):
    with pytest.warns(UserWarning, match=r"\(smoker\) do not come first.* rows of equal weight"):
        rows = model.sample(3000, given={"smoker": True}, seed=2)
    assert rows.smoker.all()
    assert len(rows) == 3000
    every = model.sample(20_000, seed=3)
    smokers = every[every.smoker]
    # what the weights stand for: rows of the model that happen to have the cell
    np.testing.assert_allclose(
        rows.sex.value_counts(normalize=True)["F"],
        smokers.sex.value_counts(normalize=True)["F"],
        atol=0.05,
    )
    np.testing.assert_allclose(rows.age.mean(), smokers.age.mean(), atol=2)


def test_given_cells_go_into_files_too(model, tmp_path):
    path = tmp_path / "t.csv"
    model.sample_to(path, 100, given={"age": "40", "gain": 0}, seed=2)
    found = pd.read_csv(path)
    assert (found.age == 40).all()
    assert (found.gain == 0).all()
    rows = model.sample(100, given={"age": 40, "gain": 0}, seed=2)
    assert found.sex.tolist() == rows.sex.tolist()


GIVEN_WRONG = {
    "no column": ({"height": 3}, "given names 'height', which is no column. There are age, gain"),
    "no value": ({"sex": "X"}, "column 'sex' has no value 'X'. Give one of 'F', 'M'"),
    "no gap": ({"sex": None}, "column 'sex' is never missing. Give a value"),
    "no number": ({"age": "old"}, "column 'age' has cells that are not numbers"),
    "not discovered": ({"city": "atlantis"}, "no value 'atlantis' that was discovered.* 'oslo'"),
}


@pytest.mark.parametrize(("cells", "message"), GIVEN_WRONG.values(), ids=GIVEN_WRONG.keys())
def test_cells_that_cannot_be_given_are_refused(cells, message, model):
    with pytest.raises(ValueError, match=message):
        model.sample(3, given=cells)


def test_a_number_out_of_range_cannot_be_given(model):
    for age in (200, 16.5, -1e300):
        with pytest.raises(ValueError, match="'age' lies between 17 and 90"):
            model.sample(3, given={"age": age})
    assert (model.sample(3, given={"age": 90}, seed=1).age == 90).all()
    assert set(model.sample(3, given={"age": 20, "gain": 0, "city": "(other)"}).city) == {"(other)"}


@pytest.mark.parametrize("bad", [-1, 1.5, True])
def test_numbers_of_rows_are_checked(bad, model):
    with pytest.raises((ValueError, TypeError), match="num_rows"):
        model.sample(bad)


def test_filling_gaps_keeps_what_is_there(model):
    table = small.frame(300, seed=9)
    table["city"] = table["city"].where(table.index % 5 > 0, "nowhere")
    filled = model.impute(table, seed=1)
    assert filled.isna().sum().sum() == 0
    for name in table:
        there = table[name].notna()
        assert (filled[name][there] == table[name][there]).all(), name
    assert set(filled.grade) == {"a", "b", "c"}
    pd.testing.assert_frame_equal(model.impute(table, seed=1), filled)
    assert not model.impute(table, seed=2).equals(filled)
    # gaps are filled by draws, not by one value
    assert filled.age[table.age.isna()].nunique() > 5


def test_gaps_are_filled_in_files_and_other_libraries_and_where_all_is_missing(model, tmp_path):
    table = small.frame(200).assign(age=None, grade=None, city=None)
    table.to_csv(tmp_path / "t.csv", index=False)
    filled = model.impute(tmp_path / "t.csv", seed=1, like="pyarrow")
    assert isinstance(filled, pa.Table)
    assert filled.column_names == list(small.SCHEMA.names)
    assert sum(column.null_count for column in filled.columns) == 0
    arrow = model.impute(pa.Table.from_pandas(table, preserve_index=False), seed=1)
    assert arrow.equals(filled)
    whole = model.sample(10, seed=1).dropna()
    assert model.impute(whole.reset_index(drop=True)).equals(whole.reset_index(drop=True))
    assert len(model.impute(table.iloc[:0])) == 0


@pytest.fixture(scope="module")
def dependent():
    """Three small columns of which the second follows the first, learned from the records."""
    rng = np.random.default_rng(0)
    first = rng.integers(0, 4, 4000)
    table = pd.DataFrame(
        {
            "a": pd.array(first, "Int64"),
            "b": np.array(["x", "y"])[first // 2],
            "c": pd.array(rng.uniform(size=4000) < 0.3, "boolean"),
        }
    )
    table.loc[rng.uniform(size=4000) < 0.05, "c"] = None
    schema = vf.Schema(
        a=vf.Numeric(0, 3, integer=True, nullable=True),
        b=vf.Categorical("x", "y", "z"),
        c=vf.Boolean(nullable=True),
    )
    estimator = small.estimator(
        schema=schema,
        budget=vf.Budget(8.0, 1e-5),
        num_records=4000,
        warm_start=False,
        hidden=(4,),
        steps=80,
        learning_rate=0.1,
    )
    with small.quick():
        return table, estimator.fit(table, progress=False)


@pytest.mark.slow
def test_filled_cells_follow_the_columns_they_depend_on(dependent):
    table, model = dependent
    # the gap comes before what it depends on: only weights can tell
    assert model.order == ("a", "b", "c")
    holes = table.iloc[:400].assign(a=None)
    found = np.array(["x", "y"])[model.impute(holes, seed=0).a.to_numpy(int) // 2]
    assert (found == table.b.iloc[:400]).mean() > 0.9


@pytest.mark.slow
def test_training_learns_what_single_columns_do_not_say(dependent):
    table, model = dependent
    scores = model.log_prob(table).mean()
    shares = [table[name].value_counts(normalize=True, dropna=False) for name in table]
    alone = sum((share * np.log(share)).sum() for share in shares)
    assert scores > alone + 0.4  # of log 2, all that there is to learn


def test_probabilities_of_all_rows_add_up_to_one(dependent):
    _, model = dependent
    every = pd.DataFrame(
        list(product([0, 1, 2, 3, None], ["x", "y", "z"], [True, False, None])),
        columns=["a", "b", "c"],
        dtype=object,
    )
    probability = np.exp(model.log_prob(every))
    assert probability.sum() == pytest.approx(1, abs=1e-4)
    # and rows come as often as that
    sampled = model.sample(20_000, seed=1)
    found = (sampled.a.isin([0, 1]) & (sampled.b == "x")).mean()
    expected = probability[(every.a.isin([0, 1]) & (every.b == "x")).to_numpy(bool)].sum()
    assert found == pytest.approx(expected, abs=0.015)


def test_weights_are_followed_where_they_differ():
    rng = np.random.default_rng(0)
    log_weights = np.log(np.array([0.7, 0.2, 0.1]))
    places = resampled(np.concatenate([log_weights, [-1e6]]), 1000, rng)
    np.testing.assert_allclose(np.bincount(places, minlength=4), [700, 200, 100, 0], atol=1)
    assert effective_size(np.zeros(50)) == pytest.approx(50)
    assert effective_size(np.array([0.0, -1e5, -1e5])) == pytest.approx(1)


CONSTRAINED = vf.Schema(
    low=vf.Numeric(0, 100, nullable=True),
    high=vf.Numeric(0, 100),
    sex=vf.Categorical("F", "M"),
    pregnant=vf.Boolean(),
    constraints=[
        vf.AtMost("low", "high"),
        vf.Allowed(["sex", "pregnant"], [["F", True], ["F", False], ["M", False]]),
    ],
)


@pytest.fixture(scope="module")
def constrained():
    rng = np.random.default_rng(0)
    low, rise = rng.uniform(0, 50, 300), rng.uniform(0, 50, 300)
    sex = rng.choice(["F", "M"], 300)
    pregnant = (sex == "F") & (rng.uniform(size=300) < 0.3)
    table = pd.DataFrame({"low": low, "high": low + rise, "sex": sex, "pregnant": pregnant})
    table.loc[:30, "low"] = None
    with small.quick():
        return small.estimator(schema=CONSTRAINED, steps=0, warm_start=False, num_records=300).fit(
            table, progress=False
        )


def fulfilled(rows: pd.DataFrame) -> bool:
    ordered = (rows.low <= rows.high) | rows.low.isna()
    return bool(ordered.all() and not (rows.pregnant & (rows.sex == "M")).any())


def test_constraints_hold_in_all_rows_that_are_drawn_or_filled(constrained):
    assert fulfilled(constrained.sample(3000, seed=1))
    assert fulfilled(constrained.sample(300, given={"low": 60.0}, seed=1))
    with pytest.warns(UserWarning, match="resampled"):
        rows = constrained.sample(300, given={"pregnant": True}, seed=1)
    assert fulfilled(rows)
    assert set(rows.sex) == {"F"}
    gaps = constrained.sample(200, seed=2).assign(low=None)
    assert fulfilled(constrained.impute(gaps, seed=1))
    # what a row's own cells break is no reason to break the rest
    own = gaps.assign(sex="M", pregnant=True, high=3.0)
    assert (constrained.impute(own, seed=1).low <= 3).all()


def test_contradictions_end_with_a_clear_error(constrained, monkeypatch):
    monkeypatch.setattr(fitted_table, "_TRIES", 2)
    with pytest.raises(ValueError, match="constraints of the schema and what is given"):
        constrained.sample(5, given={"sex": "M", "pregnant": True})
    never = vf.Schema(
        constrained.schema.columns, constraints=[vf.AtMost("low", "high"), vf.AtMost("high", "low")]
    )
    plan = dataclasses.replace(constrained.plan, schema=never)
    impossible = dataclasses.replace(constrained, schema=never, plan=plan)
    with pytest.raises(ValueError, match=r"none of 4,096 rows satisfies the constraints"):
        impossible.sample(4000, given={"low": 3.0})


def test_a_saved_model_is_the_same_model(model, tmp_path):
    model.save(tmp_path / "m.veil")
    again = vf.load(tmp_path / "m.veil")
    assert repr(again) == repr(model)
    assert again.ledger == model.ledger
    assert (again.plan, again.facts) == (model.plan, model.facts)
    assert again.schema == model.schema
    assert again.vocabularies == model.vocabularies
    rows = model.sample(100, seed=3)
    pd.testing.assert_frame_equal(again.sample(100, seed=3), rows)
    np.testing.assert_array_equal(again.log_prob(rows), model.log_prob(rows))


def changed(name, change):
    def doctor(artifact):
        artifact.arrays[name] = change(artifact.arrays[name].copy())

    return doctor


def with_nan(array):
    array.reshape(-1)[0] = np.nan
    return array


def set_flow(name, value):
    def doctor(artifact):
        plan = artifact.manifest["plan"]
        artifact.manifest["plan"] = {**plan, "flow": {**plan["flow"], name: value}}

    return doctor


def set_schema(name, value):
    def doctor(artifact):
        artifact.schema[name] = value

    return doctor


def drop(name):
    def doctor(artifact):
        del artifact.arrays[name]

    return doctor


def zero_cell(array):
    array[1] += array[0]
    array[0] = 0
    return array


def column(j, name):
    return f"['columns'][{j}]['{name}']"


def layer(i, name):
    return f"['flow']['layers'][{i}]['{name}']"


LOG_MASS = "['flow']['log_mass']"
OTHER_SCHEMA = small.SCHEMA.with_columns({"sex": vf.Categorical("X", "Y")})
DOCTORED = {
    "NaN weight": changed(layer(0, "weight"), with_nan),
    "NaN bias": changed(layer(1, "bias"), with_nan),
    "NaN share": changed(column(0, "mass"), with_nan),
    "infinite log-share": changed(LOG_MASS, lambda a: a * np.float32(np.inf)),
    "weight of another shape": changed(layer(0, "weight"), lambda a: a[:-1]),
    "double precision": changed(layer(0, "weight"), lambda a: a.astype(np.float64)),
    "fewer log-shares": changed(LOG_MASS, lambda a: a[:-1]),
    "shares that do not sum to 1": changed(column(0, "mass"), lambda a: a * 2),
    "negative shares": changed(column(3, "mass"), lambda a: np.array([1.5, -0.5])),
    "too many shares": changed(column(3, "mass"), lambda a: np.full(3, 1 / 3)),
    "bins that overlap": changed(column(0, "starts"), lambda a: a[::-1].copy()),
    "bins of fractions": changed(column(0, "starts"), lambda a: a + 0.0),
    "bins that leave cells out": changed(
        column(0, "starts"), lambda a: np.append(a[:-1], a[-1] - 1)
    ),
    "a cell without mass": changed(column(0, "inside"), zero_cell),
    "fewer cells": changed(column(1, "inside"), lambda a: a[:-1] / a[:-1].sum()),
    "a spike that was none": changed(column(4, "mass"), lambda a: np.eye(len(a))[0]),
    "an array is missing": drop(layer(0, "bias")),
    "more layers": set_flow("hidden", [8, 8]),
    "no layers": set_flow("hidden", []),
    "a vast layer": set_flow("hidden", [10**9]),
    "a layer of nothing": set_flow("hidden", [0]),
    "layers that are left open": set_flow("hidden", None),
    "no waves": set_flow("num_waves", 0),
    "waves that are left open": set_flow("num_waves", None),
    "no weight": set_flow("label_weight", None),
    "no vocabulary": set_schema("vocabularies", {}),
    "a vocabulary of another column": set_schema("vocabularies", {"sex": ["F"]}),
    "a vocabulary of one text": set_schema("vocabularies", {"city": "abc"}),
    "a word twice": set_schema("vocabularies", {"city": ["oslo", "oslo", "rome"]}),
    "a word for all others": set_schema("vocabularies", {"city": ["oslo", "(other)", "rome"]}),
    "words that are numbers": set_schema("vocabularies", {"city": [1, 2, 3]}),
    "no columns": set_schema("schema", {"columns": []}),
    "a schema that nobody declared": set_schema("schema", OTHER_SCHEMA.to_json()),
    "codes of too few columns": set_schema("num_codes", [9, 7]),
    "codes without end": set_schema("num_codes", [10**12, 7, 5, 2, 4, 8, 2]),
    "codes below zero": set_schema("num_codes", [-9, 7, 5, 2, 4, 8, 2]),
    "features without end": set_schema("num_features", [10**12, 0, 0, 0, 0, 0, 0]),
    "features of too few columns": set_schema("num_features", [16]),
}


@pytest.mark.parametrize("doctor", DOCTORED.values(), ids=DOCTORED.keys())
def test_a_doctored_file_is_refused(doctor, model):
    artifact = model.to_artifact()
    copy = dataclasses.replace(
        artifact,
        manifest=dict(artifact.manifest),
        schema=dict(artifact.schema),
        arrays=dict(artifact.arrays),
    )
    registry.from_artifact(copy)
    doctor(copy)
    with pytest.raises(ArtifactError, match="do not make a TableFlow"):
        registry.from_artifact(copy)


def test_a_model_shows_its_columns_and_its_guarantee_and_no_rows(model):
    text = repr(model)
    assert text.startswith("FittedTableFlow(columns: age, gain, city, sex, grade, seen, smoker; (")
    assert "assuming" in text
    assert len(text) < 1000
