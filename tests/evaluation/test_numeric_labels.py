"""Labels that are numbers, bins by quantiles, and numbers in numbers."""

import numpy as np
import pandas as pd
import pytest

import veilflow as vf
from veilflow.evaluation import (
    compare_numbers,
    compare_regressors,
    compare_table_marginals,
    table_report,
)

RIDGE = ("ridge regression",)


def table(rows=400, seed=0, noise=0.1):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=rows)
    return pd.DataFrame(
        {"x": x, "c": rng.choice(["a", "b"], rows), "y": 3 * x + noise * rng.normal()}
    )


def schema(**facts):
    columns = {
        "x": vf.Numeric(-9, 9),
        "c": vf.Categorical("a", "b"),
        "y": vf.Numeric(-30, 30, **facts),
    }
    return vf.Schema(columns, label="y")


def test_a_label_that_follows_is_predicted_and_one_that_is_shuffled_is_not():
    real, good = table(), table(seed=1)
    bad = good.assign(y=good["y"].to_numpy()[np.random.default_rng(0).permutation(len(good))])
    scores = [
        compare_regressors(real, rows, schema(), regressors=RIDGE).scores[RIDGE[0]]
        for rows in (good, bad)
    ]
    assert scores[0].r2 > 0.99
    assert scores[0].rank_correlation > 0.95
    assert scores[1].r2 < 0.1


def test_units_of_the_label_do_not_matter():
    real, rows = table(), table(seed=1)
    small = [frame.assign(y=frame["y"] / 1e3) for frame in (real, rows)]
    first = compare_regressors(real, rows, schema(), regressors=RIDGE).scores[RIDGE[0]]
    second = compare_regressors(*small, schema(), regressors=RIDGE).scores[RIDGE[0]]
    assert first.r2 == pytest.approx(second.r2, rel=1e-6)


def test_rows_without_a_label_are_left_out_and_too_few_are_refused():
    gaps = table().assign(y=lambda frame: frame["y"].where(frame.index > 390))
    with pytest.raises(ValueError, match="real must have at least 20 rows with a label"):
        compare_regressors(gaps, table(), schema(nullable=True), regressors=RIDGE)
    with pytest.raises(ValueError, match="labels are equal"):
        compare_regressors(table().assign(y=1.0), table(), schema(), regressors=RIDGE)
    with pytest.raises(ValueError, match="need a label that is a number"):
        compare_regressors(table(), table(), vf.Schema(schema().columns, label="c"))


def test_a_report_takes_a_numeric_label(monkeypatch):
    module = __import__("veilflow.evaluation.table_report", fromlist=["_"])
    monkeypatch.setattr(module, "detection_score", lambda *_, **__: 0.5)
    found = table_report(table(), table(seed=2), table(seed=1), schema())
    assert found.classifiers is None
    assert found.regressors is not None
    assert found.to_json()["regressors"].keys() == found.regressors.scores.keys()


def test_bins_by_quantiles_do_not_depend_on_the_declared_range():
    """Equal bins of a wide range hide what is wrong with most of the numbers."""
    rng = np.random.default_rng(0)
    real = pd.DataFrame({"x": rng.exponential(10, 5000)})
    wrong = pd.DataFrame({"x": rng.exponential(20, 5000)})
    found = {}
    for high in (1e3, 1e6):
        declared = vf.Schema(x=vf.Numeric(0, high))
        for binning in ("equal", "quantiles"):
            measured = compare_table_marginals(real, wrong, declared, binning=binning)
            found[binning, high] = measured.one_way["x"]
    assert found["quantiles", 1e3] == found["quantiles", 1e6] > 0.2
    assert found["equal", 1e6] < 0.01


def test_a_frequent_number_has_a_bin_of_its_own():
    real = pd.DataFrame({"x": [0.0] * 700 + list(np.linspace(0.01, 1, 300))})
    moved = pd.DataFrame({"x": [0.005] * 700 + list(np.linspace(0.01, 1, 300))})
    declared = vf.Schema(x=vf.Numeric(0, 1))
    found = compare_table_marginals(real, moved, declared, binning="quantiles").one_way["x"]
    assert found == pytest.approx(0.7)


def test_a_lost_column_of_numbers_is_lost():
    real = pd.DataFrame({"x": np.linspace(0, 1, 1000)})
    lost = pd.DataFrame({"x": [0.5] * 1000})
    declared = vf.Schema(x=vf.Numeric(0, 1e6))
    found = compare_table_marginals(real, lost, declared, binning="quantiles").one_way["x"]
    assert found > 0.9
    assert compare_table_marginals(real, lost, declared).one_way["x"] == 0


def test_numbers_are_summed_up_without_gaps():
    real = pd.DataFrame({"x": [1.0, 2.0, 3.0, None], "c": list("aabb")})
    declared = vf.Schema(x=vf.Numeric(0, 10, nullable=True), c=vf.Categorical("a", "b"))
    first, second = compare_numbers(real, real.assign(x=None), declared)["x"]
    assert (first.mean, first.quantiles[2]) == (2, 2)
    assert first.deviation == pytest.approx(np.std([1, 2, 3]))
    assert np.isnan(second.mean)
