"""Measures of synthetic tables: answers known beforehand, gaps, and faults of the tables."""

import itertools
import json
import math
import warnings

import hypothesis.strategies as st
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from threadpoolctl import threadpool_limits

import veilflow as vf
from veilflow.evaluation import (
    CLASSIFIERS,
    compare_classifiers,
    compare_rank_correlations,
    compare_table_marginals,
    compare_value_shares,
    detection_score,
    roc_curve,
    table_marginals,
    table_report,
)
from veilflow.evaluation._cells import MAX_OPEN_VALUES, FeatureMap
from veilflow.tabular.facts import OTHER

CHEAP = ("logistic regression", "decision tree", "naive Bayes")


@pytest.fixture(autouse=True)
def one_thread():
    """Trees on a few hundred rows spend their time waiting for each other, on a busy machine."""
    import sklearn.ensemble  # noqa: F401  only what is loaded can be limited

    with threadpool_limits(1):
        yield


def one_column(column, *cells):
    """A schema of one column, and tables of these cells."""
    return vf.Schema(x=column), *(pd.DataFrame({"x": list(c)}) for c in cells)


def table(num_rows, *, seed=0, labels="np", gaps=0.0):
    """Rows whose number tells the class, with a column of noise."""
    rng = np.random.default_rng(seed)
    y = rng.choice(list(labels), num_rows)
    x = np.where(y == "p", 0.7, 0.3) + rng.normal(0, 0.05, num_rows)
    x[rng.random(num_rows) < gaps] = np.nan
    return pd.DataFrame({"x": x, "c": rng.choice(["a", "b"], num_rows), "y": y})


def schema(labels="np"):
    return vf.Schema(
        x=vf.Numeric(0, 1, nullable=True),
        c=vf.Categorical("a", "b"),
        y=vf.Categorical(*labels),
        label="y",
    )


# total variation


@pytest.mark.parametrize(
    ("column", "real", "synthetic", "distance"),
    [
        (vf.Categorical("a", "b"), "aaab", "aabb", 0.25),
        (vf.Categorical(1, 2), [1, 2], [2, 2, 2], 0.5),
        (vf.Categorical("a", "b", nullable=True), ["a", None], ["a", "a"], 0.5),
        (vf.Categorical("a", "b"), "ab", "az", 0.5),  # not in the schema: one more value
        (vf.Ordinal("low", "high"), ["low"], ["high"], 1.0),
        (vf.Boolean(), [True, False], [1, 1], 0.5),
        (vf.OpenCategorical(), ["u", "v"], ["v", "w"], 0.5),
        (vf.OpenCategorical(nullable=True), [None, None], [None], 0.0),
        # as a fit reads them: text, spaces and words for gaps
        (vf.Categorical(1, 2), ["1", " 2"], [1, 2], 0.0),
        (vf.Categorical("a", "b", nullable=True), ["a ", "NA"], ["a", None], 0.0),
        (vf.Boolean(), ["yes", "no"], [True, False], 0.0),
        (vf.OpenCategorical(nullable=True), ["u", "u ", "", OTHER], ["u", "u", None, OTHER], 0.0),
        (vf.Numeric(0, 20, nullable=True), ["3", " 19.5", "?"], [3, 19.5, None], 0.0),
        (vf.Numeric(0, 20), [0.0, 0.99, 19.0, 20.0], [0.5, 0.1, 19.5, 25.0], 0.0),
        (vf.Numeric(0, 20), [0.99], [1.01], 1.0),  # the edge of a bin lies between
        (vf.Numeric(0, 20, nullable=True), [0.5, None], [0.5, 0.5], 0.5),
        (vf.Numeric(5, 5, integer=True), [5], [5], 0.0),
        (vf.Datetime("2020-01-01", "2020-01-20", resolution="day"), ["2020-01-05"], ["2020-01-06"], 1),
        (vf.Datetime("1900-01-01", "1950-01-01", nullable=True), ["1920-01-01", None], [None], 0.5),
    ],
)  # fmt: skip
def test_the_total_variation_of_a_column_is_half_the_distance_of_histograms(
    column, real, synthetic, distance
):
    columns, real, synthetic = one_column(column, real, synthetic)
    found = compare_table_marginals(real, synthetic, columns)
    assert found.one_way == {"x": pytest.approx(distance)}


def test_pairs_differ_where_columns_do_not():
    real = pd.DataFrame({"a": ["u", "v"], "b": [True, False], "c": [0.0, 1.0]})
    synthetic = pd.DataFrame({"a": ["u", "v"], "b": [False, True], "c": [0.0, 1.0]})
    columns = vf.Schema(a=vf.Categorical("u", "v"), b=vf.Boolean(), c=vf.Numeric(0, 1))
    found = compare_table_marginals(real, synthetic, columns)
    assert found.mean_one_way == 0
    assert found.two_way == {("a", "b"): 1.0, ("a", "c"): 0.0, ("b", "c"): 1.0}
    assert found.mean_two_way == pytest.approx(2 / 3)
    assert found.to_json()["two_way"][-1] == ["a", "c", 0.0]


@settings(max_examples=40)
@given(
    cells=st.lists(st.tuples(*[st.integers(0, 3)] * 3), min_size=1, max_size=30),
    others=st.lists(st.tuples(*[st.integers(0, 3)] * 3), min_size=1, max_size=30),
)
def test_counting_in_chunks_and_counting_only_full_cells_change_nothing(cells, others):
    columns = vf.Schema({name: vf.Categorical(0, 1, 2, 3) for name in "abc"})
    real, synthetic = (pd.DataFrame(rows, columns=list("abc")) for rows in (cells, others))
    whole = compare_table_marginals(real, synthetic, columns)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table_marginals, "_CHUNK", 7)
        chunked = compare_table_marginals(real, synthetic, columns)
        patch.setattr(table_marginals, "_DENSE", 0)
        sparse = compare_table_marginals(real, synthetic, columns)
    for found in (chunked, sparse):
        assert found.two_way == pytest.approx(whole.two_way)
    for a, b in itertools.combinations("abc", 2):
        shares = [f.value_counts([a, b], normalize=True) for f in (real, synthetic)]
        plain = shares[0].subtract(shares[1], fill_value=0).abs().sum() / 2
        assert whole.two_way[a, b] == pytest.approx(plain)


def test_a_pair_of_very_long_lists_is_compared_without_a_histogram_of_all_pairs():
    rng = np.random.default_rng(0)
    names = np.array([f"v{i}" for i in range(5_000)])
    frame = pd.DataFrame({"a": rng.choice(names, 6_000), "b": rng.choice(names, 6_000)})
    columns = vf.Schema(a=vf.OpenCategorical(), b=vf.OpenCategorical())
    assert len(names) ** 2 > table_marginals._DENSE
    shuffled = frame.assign(b=frame["b"].to_numpy()[::-1])
    found = compare_table_marginals(frame, shuffled, columns)
    assert found.mean_one_way == 0
    assert found.mean_two_way > 0.95


@pytest.mark.parametrize(
    ("column", "cells"),
    [
        (vf.Categorical("a", "b"), ["a", "secret-7"]),
        (vf.Categorical(1, 2), ["1", "secret-7"]),
        (vf.Numeric(0, 1), [0.5, "secret-7"]),
        (vf.Datetime("2020-01-01", "2020-12-31"), ["2020-01-01", "secret-7"]),
    ],
)
def test_real_rows_that_do_not_fit_the_schema_are_refused_without_showing_a_cell(column, cells):
    columns, real = one_column(column, cells)
    with pytest.raises(ValueError, match="column 'x'") as caught:
        compare_table_marginals(real, real, columns)
    assert "secret" not in str(caught.value)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_bounds_that_nobody_declared_are_asked_for():
    columns, real = one_column(vf.Numeric(), [1.0, 2.0])
    with pytest.raises(ValueError, match="no bounds"):
        compare_table_marginals(real, real, columns)


def test_tables_must_have_rows_and_all_columns_once():
    columns, real = one_column(vf.Numeric(0, 1), [0.5])
    with pytest.raises(ValueError, match="synthetic must have at least one row"):
        compare_table_marginals(real, real.iloc[:0], columns)
    with pytest.raises(ValueError, match=r"synthetic .* got no 'x'"):
        compare_table_marginals(real, pd.DataFrame({"z": [1]}), columns)
    twice = pd.DataFrame([[1, 2]], columns=["x", "x"])
    with pytest.raises(ValueError, match=r"real .* got more than one 'x'"):
        compare_table_marginals(twice, real, columns)


# rank correlations


def tau_by_definition(x, y):
    """Concordant less discordant pairs, over the geometric mean of pairs untied in x and in y."""
    pairs = itertools.combinations(zip(x, y, strict=True), 2)
    signs = [(np.sign(a - c), np.sign(b - d)) for (a, b), (c, d) in pairs]
    untied = [sum(s[i] != 0 for s in signs) for i in (0, 1)]
    return sum(s * t for s, t in signs) / math.sqrt(untied[0] * untied[1])


def test_kendalls_tau_is_measured_on_the_rows_that_have_both_numbers():
    real = pd.DataFrame({"x": [1, 2, 2, 4, 5], "y": [1.0, 3.0, 2.0, 2.0, 5.0]})
    gap = pd.DataFrame({"x": [1, 2, 2, 4, 5], "y": [9.0, 3.0, np.nan, 2.0, 5.0]})
    columns = vf.Schema(x=vf.Numeric(0, 9), y=vf.Numeric(0, 9, nullable=True))
    found = compare_rank_correlations(real, gap, columns)
    expected = tau_by_definition(real["x"], real["y"])
    assert found.real[0, 1] == found.real[1, 0] == pytest.approx(expected)
    complete = gap.dropna()
    assert found.synthetic[0, 1] == pytest.approx(tau_by_definition(complete["x"], complete["y"]))
    np.testing.assert_array_equal(np.diag(found.real), 1.0)


def test_errors_count_every_pair_once_and_columns_without_an_order_have_none():
    up = np.arange(10.0)
    real = pd.DataFrame({"x": up, "y": up, "z": up, "c": ["a"] * 10})
    synthetic = pd.DataFrame({"x": up, "y": up[::-1], "z": 0.0, "c": ["a"] * 10})
    columns = vf.Schema(
        {name: vf.Numeric(0, 9) for name in "xyz"} | {"c": vf.Categorical("a", "b")}
    )
    found = compare_rank_correlations(real, synthetic, columns)
    assert found.columns == ("x", "y", "z")
    np.testing.assert_allclose(found.errors, [-2.0, -1.0, -1.0])
    assert found.rmse == pytest.approx(math.sqrt(2.0))
    assert found.mae == pytest.approx(4 / 3)


def test_large_tables_are_measured_on_the_same_draw_of_rows_each_time():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.random((500, 2)), columns=["x", "y"])
    columns = vf.Schema(x=vf.Numeric(0, 1), y=vf.Numeric(0, 1))
    first, again, other = (
        compare_rank_correlations(frame, frame, columns, max_rows=50, seed=seed).real[0, 1]
        for seed in (0, 0, 1)
    )
    whole = compare_rank_correlations(frame, frame, columns).real[0, 1]
    assert first == again != other
    assert whole == pytest.approx(tau_by_definition(frame["x"], frame["y"]))


def test_a_table_without_pairs_of_numbers_has_no_error_of_correlations():
    columns, real = one_column(vf.Numeric(0, 1), [0.5, 0.6])
    found = compare_rank_correlations(real, real, columns)
    assert math.isnan(found.rmse)
    assert found.to_json()["rmse"] is None


# shares of a value


def test_shares_count_exact_values_among_all_cells():
    columns = vf.Schema(x=vf.Numeric(0, 9, nullable=True), c=vf.Categorical(0, 1))
    real = pd.DataFrame({"x": [0.0, 0.0, np.nan, 3.0], "c": [0, 0, 0, 0]})
    synthetic = pd.DataFrame({"x": [1e-9, 3.0, 3.0, 3.0], "c": [0, 0, 0, 0]})
    zeros = compare_value_shares(real, synthetic, columns)
    assert list(zeros) == ["x"]
    assert (zeros["x"].real, zeros["x"].synthetic) == (0.5, 0.0)
    assert compare_value_shares(real, synthetic, columns, value=3)["x"].synthetic == 0.75


# classifiers


def test_features_are_one_hot_by_the_schema_and_standardized_by_the_training_rows():
    columns = vf.Schema(
        n=vf.Numeric(0, 9, nullable=True),
        c=vf.Categorical("a", "b", nullable=True),
        y=vf.Boolean(),
        label="y",
    )
    train = pd.DataFrame({"n": [1.0, 3.0, None], "c": ["a", "a", None], "y": [True, False, True]})
    test = pd.DataFrame({"n": [math.inf, None], "c": ["b", None], "y": [True, True]})
    features = FeatureMap.of(train, columns)
    np.testing.assert_allclose(
        features(train), [[-1, 0, 1, 0, 0], [1, 0, 1, 0, 0], [0, 1, 0, 0, 1]]
    )
    np.testing.assert_allclose(features(test), [[7, 0, 0, 1, 0], [0, 1, 0, 0, 1]])


def test_rare_values_of_an_open_list_share_a_feature():
    names = [f"v{i}" for i in range(MAX_OPEN_VALUES)] * 2 + ["rare"]
    columns, train, test = one_column(vf.OpenCategorical(), names, ["v1", "rare", "new", None])
    found = FeatureMap.of(train, columns)(test)
    assert found.shape == (4, MAX_OPEN_VALUES + 1)
    assert found[0, :-1].sum() == 1
    np.testing.assert_array_equal(found[1:3, -1], 1.0)
    assert found[3].sum() == 0  # the training rows have no gaps, so a gap is nothing that is known


def test_categories_of_a_frame_that_have_no_cell_are_no_values():
    columns, train = one_column(vf.OpenCategorical(), ["u", "v", "v"])
    typed = train.astype({"x": pd.CategoricalDtype(["u", "unused", "v"])})
    found = FeatureMap.of(typed, columns)
    np.testing.assert_array_equal(found(typed), found(train))
    assert found(typed).shape == (3, 3)


def test_all_nine_classifiers_learn_what_is_easy_and_say_nothing_aloud():
    found = compare_classifiers(table(300), table(300, seed=1, gaps=0.05), schema())
    assert tuple(found.scores) == tuple(CLASSIFIERS)
    assert len(found.scores) == 9
    for name, score in found.scores.items():
        assert min(score.macro_f1, score.auroc, score.average_precision or 0) > 0.9, name
    assert found.mean.auroc == pytest.approx(np.mean([s.auroc for s in found.scores.values()]))


def test_what_a_classifier_complains_about_is_not_passed_on(monkeypatch):
    from sklearn.dummy import DummyClassifier

    class Complaining(DummyClassifier):
        def fit(self, X, y, sample_weight=None):
            warnings.warn("not converged", stacklevel=1)
            return super().fit(X, y, sample_weight)

    monkeypatch.setitem(CLASSIFIERS, "decision tree", lambda seed: Complaining())
    found = compare_classifiers(table(50), table(50), schema(), classifiers=["decision tree"])
    assert found.mean.auroc == 0.5


def test_average_precision_is_that_of_the_last_class():
    real, synthetic = table(400, labels="nnnp"), table(400, seed=1, labels="nnnp")
    rng = np.random.default_rng(0)
    synthetic["x"], synthetic["c"] = rng.random(400), "a"  # nothing to learn
    for labels, share in (("np", (real["y"] == "p").mean()), ("pn", (real["y"] == "n").mean())):
        found = compare_classifiers(real, synthetic, schema(labels), classifiers=["decision tree"])
        assert found.mean.average_precision == pytest.approx(share, abs=0.06)


def test_a_class_that_synthetic_rows_lack_scores_as_never_found():
    real = table(300, labels="npq")
    found = compare_classifiers(real, table(300, seed=1), schema("npq"), classifiers=CHEAP)
    full = compare_classifiers(
        real, table(300, seed=1, labels="npq"), schema("npq"), classifiers=CHEAP
    )
    for name in CHEAP:
        assert found.scores[name].average_precision is None
        assert found.scores[name].macro_f1 < 2 / 3
    assert found.mean.auroc < full.mean.auroc


@pytest.mark.parametrize("fault", ["one class", "one row", "single member", "not a label"])
def test_poor_synthetic_tables_have_scores_too(fault):
    synthetic = table(100, seed=1)
    if fault == "one class":
        synthetic["y"] = "n"
    elif fault == "one row":
        synthetic = synthetic.iloc[[0] * 100]
    elif fault == "single member":
        synthetic.loc[1:, "y"] = "n"
        synthetic.loc[0, "y"] = "p"
    else:
        synthetic.loc[synthetic["y"] == "p", "y"] = "z"
    found = compare_classifiers(table(200), synthetic, schema())
    assert found.mean.auroc == pytest.approx(0.5)
    assert found.mean.average_precision == pytest.approx((table(200)["y"] == "p").mean())
    assert 0 < found.mean.macro_f1 < 0.5


def test_rows_without_a_label_are_a_class_of_their_own():
    real, synthetic = table(300, labels="npq"), table(300, seed=1, labels="npq")
    for frame in (real, synthetic):
        frame["y"] = frame["y"].where(frame["y"] != "p", None)
    columns = schema().with_columns({"y": vf.Categorical("n", "q", nullable=True)})
    found = compare_classifiers(real, synthetic, columns, classifiers=CHEAP)
    assert found.mean.average_precision is None
    assert found.mean.auroc > 0.7  # the class at 0.7 is told from both others


def test_what_cannot_be_classified_is_refused():
    rows = table(100)
    numeric = vf.Schema({**schema().columns}, label="x")
    with pytest.raises(ValueError, match="'x' is numeric"):
        compare_classifiers(rows, rows, numeric)
    with pytest.raises(ValueError, match="no label"):
        compare_classifiers(rows, rows, vf.Schema(schema().columns))
    with pytest.raises(ValueError, match="two classes"):
        compare_classifiers(rows.assign(y="n"), rows, schema())
    with pytest.raises(ValueError, match="at least 10 rows for each class"):
        compare_classifiers(rows, rows.iloc[:12], schema())
    with pytest.raises(ValueError, match="classifiers must be one of"):
        compare_classifiers(rows, rows, schema(), classifiers=["oracle"])
    with pytest.raises(ValueError, match="column 'c' of real"):
        compare_classifiers(rows.assign(c="z"), rows, schema(), classifiers=CHEAP)


# detection, and all together


def test_trees_find_synthetic_rows_out_where_they_differ_and_only_there():
    columns = schema()
    real = table(200, gaps=0.2)
    alike = detection_score(real, table(300, seed=1, gaps=0.2), columns, folds=2)
    # the chance level of 200 against 200 rows has a deviation of about 0.03
    assert alike == pytest.approx(0.5, abs=0.12)
    swapped = table(200, seed=1, gaps=0.2)
    swapped["x"] = swapped["x"].to_numpy()[::-1]  # the same columns, apart from each other
    assert detection_score(real, swapped, columns, folds=2) > 0.65
    without_gaps = table(200, seed=1).assign(c="z")
    assert detection_score(real, without_gaps, columns, folds=2) == pytest.approx(1.0, abs=0.01)


def test_detection_takes_lists_longer_than_trees_do():
    columns, real, synthetic = one_column(
        vf.OpenCategorical(), map(str, range(400)), map(str, range(200, 600))
    )
    assert detection_score(real, synthetic, columns, folds=2) > 0.6  # half of the values are new


def test_detection_needs_a_row_for_each_fold():
    with pytest.raises(ValueError, match="at least 3 rows"):
        detection_score(table(2), table(100), schema())


def test_a_report_holds_all_measures_and_becomes_json():
    train, test, synthetic = (table(120, seed=seed, gaps=0.1) for seed in range(3))
    report = table_report(train, test, synthetic, schema(), classifiers=CHEAP)
    found = json.loads(json.dumps(report.to_json(), allow_nan=False))
    assert report.classifiers is not None
    assert found["classifiers"]["mean"]["auroc"] == report.classifiers.mean.auroc
    assert found["marginals"]["mean_two_way"] == report.marginals.mean_two_way
    assert found["rank_correlations"]["columns"] == ["x"]
    assert found["zeros"] == {"x": {"real": 0.0, "synthetic": 0.0}}
    assert report.detection == detection_score(test, synthetic, schema())
    assert report.marginals == compare_table_marginals(train, synthetic, schema())
    unlabeled = table_report(train, test, synthetic, vf.Schema(schema().columns))
    assert unlabeled.to_json()["classifiers"] is None


# ROC curves of a likelihood


@pytest.mark.parametrize(
    ("ordinary", "anomalous", "area"),
    [
        ([3.0, 4.0], [1.0, 2.0], 1.0),
        ([1.0, 2.0], [3.0, 4.0], 0.0),
        ([1.0, 1.0], [1.0], 0.5),
        ([0.0, -math.inf], [-math.inf], 0.75),
        ([2.0, 4.0], [1.0, 3.0], 0.75),
    ],
)
def test_the_area_is_the_chance_that_an_anomaly_scores_lower(ordinary, anomalous, area):
    found = roc_curve(ordinary, anomalous)
    assert found.auroc == pytest.approx(area)
    assert (found.false_positive[0], found.true_positive[0]) == (0, 0)
    assert (found.false_positive[-1], found.true_positive[-1]) == (1, 1)
    under = np.trapezoid(found.true_positive, found.false_positive)
    assert under == pytest.approx(area)


@pytest.mark.parametrize("scores", [[], [math.nan], [[1.0]]])
def test_scores_that_are_none_are_refused(scores):
    with pytest.raises(ValueError, match="anomalous must be log densities"):
        roc_curve([1.0], scores)
