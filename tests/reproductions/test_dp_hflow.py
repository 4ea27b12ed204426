"""The DP-HFlow reproduction on tiny tables and with a stand-in: what is run, kept, recorded, drawn."""

import json
import math
from types import SimpleNamespace

import numpy as np
import pytest
from reproductions.blocks import cells
from reproductions.dp_hflow import SYSTEM as system
from reproductions.dp_hflow import (
    estimators,
    measuring,
    paper,
    peers,
    runs,
    tables,
    targets,
)
from reproductions.dp_hflow.measures import across
from reproductions.dp_hflow.runs import HELD_OUT, REAL, REFERENCES, SHUFFLED, Task

from reproductions import memory
from reproductions import records as record_files
from tests.reproductions import hflow_stand_in as stand_in
from veilflow import evaluation

pytestmark = pytest.mark.slow  # the system has probes; these are its parts

ADULT = {"only": ["adult/1/codes"], "splits": 2}


@pytest.fixture
def calls(monkeypatch):
    """Tiny tables, stand-ins for models and measures; returns what was built."""
    stand_in.measure_quickly(monkeypatch)
    monkeypatch.setattr("reproductions.cache.commit", lambda *paths: "abc1234")
    return stand_in.take_over(monkeypatch)


def quietly(tmp_path, **settings):
    lines: list[str] = []
    outcome = system.reproduce(out=tmp_path, say=lines.append, **settings)
    return outcome, lines


def one(outcome, table, metric, row="TableFlow"):
    (found,) = [r for r in outcome.made if (r.table, r.metric, r.row) == (table, metric, row)]
    return found


def test_a_table_names_known_measures_and_methods_and_no_method_stands_idle():
    used = {row.method for block in tables.SHEET.blocks for row in block.rows if row.method}
    assert used == {*estimators.METHODS, estimators.MERF, *peers.METHODS, *REFERENCES}
    for block in tables.SHEET.blocks:
        for row in block.rows:
            assert (row.method is None) is bool(row.given)
            assert row.given.keys() <= set(block.columns)
        assert all(column.metric for column in block.columns)


def test_every_cell_of_a_record_is_named_once():
    keys = [tables.SHEET.key(*cell) for cell in tables.SHEET.cells()]
    assert len(keys) == len(set(keys))


def test_words_that_do_not_fill_a_row_are_refused():
    columns = across("adult", "auroc", "f1")
    assert cells(columns, ".867-.870 -") == {columns[0]: "0.867-0.870"}
    with pytest.raises(ValueError, match="2 columns, got 1 words"):
        cells(columns, ".5")


def test_the_papers_shares_of_real_rows_are_those_of_the_task():
    columns = (
        *across("census", "auroc", "f1", "ap", share=True),
        *across("intrusion", "f1", share=True),
    )
    shares = [paper.SHARES[column] for column in columns]
    assert shares == pytest.approx([0.84, 0.69, 0.29, 0.47], abs=0.005)


def test_what_must_be_reached_is_no_worse_than_what_the_paper_reached():
    for block in (targets.ADULT, *targets.COVERTYPE, targets.SHARE):
        for row in block.rows:
            for column in row.must.keys() & row.paper.keys():
                sign = 1 if column.what.better == "higher" else -1
                assert sign * row.must[column] >= sign * row.paper[column]


def test_runs_are_made_once_and_seeds_are_the_splits(tmp_path, calls):
    quietly(tmp_path, **{**ADULT, "splits": 1})
    _, lines = quietly(tmp_path, **ADULT)
    quietly(tmp_path, **ADULT)
    assert calls == [("codes", 1.0, 1), ("codes", 1.0, 2)]
    assert any("adult, codes, epsilon 1, seed 2: AUROC 0.800, macro-F1 0.7" in x for x in lines)


def test_a_record_is_complete_and_true_to_its_runs(tmp_path, calls):
    outcome, _ = quietly(tmp_path, **ADULT)
    record = one(outcome, "Adult", "macro-F1")
    assert record.key == ("Adult", "TableFlow", "Adult, 1", "macro-F1")
    assert record.ours == pytest.approx((0.71 + 0.72) / 2)
    assert record.spread == pytest.approx(0.01 / math.sqrt(2))
    assert (record.paper, record.must, record.better) == (0.56, 0.73, "higher")
    assert (record.paper_accountant, record.paper_sampling) == ("RDP", "not stated")
    assert (record.delta, record.accountant, record.sampling) == (1e-5, "PLD", "Poisson")
    assert record.splits == 2
    assert record.epsilon is not None
    assert 0 < record.epsilon < 1
    stored = [json.loads(p.read_text("utf-8")) for p in (tmp_path / "runs").glob("*.json")]
    assert {run["result"]["guarantee"]["epsilon"] for run in stored} == {record.epsilon}
    assert record_files.read(tmp_path / "results.json")[: len(outcome.made)] == outcome.made


def test_a_share_is_of_what_real_rows_reach_and_waits_for_them(tmp_path, calls):
    alone, _ = quietly(tmp_path, only=["census/1/codes"], splits=1)
    assert not [r for r in alone.made if r.table == "shares"]
    outcome, _ = quietly(tmp_path, only=["census/1/codes", "census/inf/real"], splits=1)
    share = one(outcome, "shares", "AUROC, share of that of real rows")
    assert share.ours == pytest.approx(0.8 / 0.9)
    assert share.paper == pytest.approx(0.78 / 0.93, abs=1e-3)
    assert share.must == 0.93
    assert share.misses


def test_zeros_that_are_lost_are_a_distance_with_both_shares_beside(tmp_path, calls, monkeypatch):
    sample = stand_in.Fitted.sample

    def smeared(self, num_rows, *, seed):
        rows = sample(self, num_rows, seed=seed)
        return rows.assign(capital_gain=rows["capital_gain"].clip(lower=1))

    monkeypatch.setattr(stand_in.Fitted, "sample", smeared)
    outcome, _ = quietly(tmp_path, **ADULT)
    record = one(outcome, "Adult", "exact zeros in capital_gain, distance of the share")
    share = (stand_in.load("adult").train["capital_gain"] == 0).mean()
    assert record.ours == pytest.approx(share)
    assert record.misses
    assert f"the share is 0.000, that of real rows {share:.3f}" in record.note


def test_of_time_and_memory_the_worst_run_counts_on_a_machine_without_a_gpu(
    tmp_path, calls, monkeypatch
):
    perform = runs.perform

    def slow(task):
        done = perform(task)
        return runs.Finished({**done.result, "fit_seconds": 100.0 * task.split}, {}, done.seconds)

    monkeypatch.setattr(runs, "perform", slow)
    outcome, _ = quietly(tmp_path, **ADULT)
    record = one(outcome, "time", "seconds to fit")
    assert (record.ours, record.must) == (200.0, 480)
    for path in (tmp_path / "runs").glob("*.json"):
        text = json.loads(path.read_text("utf-8"))
        path.write_text(json.dumps({**text, "device": "NVIDIA H200"}), "utf-8")
    outcome, _ = quietly(tmp_path, **ADULT)
    assert one(outcome, "time", "seconds to fit").must is None
    assert one(outcome, "Adult", "AUROC").must == 0.855


def test_what_was_not_run_and_must_reach_something_counts_as_missing(tmp_path, calls):
    outcome, _ = quietly(tmp_path, **ADULT)
    missing = [record for record in outcome.records if record.splits == 0]
    bounds = sum(len(row.must) for block in tables.SHEET.blocks for row in block.rows)
    met = [r for r in outcome.made if r.must is not None]
    assert len(missing) == bounds - len(met)
    assert all(record.misses and record.note == "not run yet" for record in missing)


def test_a_reference_without_privacy_is_labeled_infinite(tmp_path, calls):
    outcome, _ = quietly(tmp_path, only=["adult/inf/codes"], splits=1)
    record = one(outcome, "2", "macro-F1", row="TableFlow without privacy")
    assert (record.epsilon, record.paper, record.delta) == (math.inf, 0.75, None)
    assert record.paper_accountant == ""


def test_a_run_that_fails_is_told_and_does_not_end_the_others(tmp_path, calls, monkeypatch):
    perform = runs.perform

    def failing(task):
        if task.method == "hflow":
            raise AttributeError("no hflow")
        return perform(task)

    monkeypatch.setattr(runs, "perform", failing)
    outcome, lines = quietly(tmp_path, only=["adult/1/hflow", "adult/1/codes"], splits=1)
    assert outcome.failures == ["adult, hflow, epsilon 1, seed 1: AttributeError: no hflow"]
    assert any("figure" in line for line in lines) is False
    assert {r.row for r in outcome.made if r.table == "Adult"} == {"TableFlow"}


def test_everything_once_leaves_every_record_figure_and_the_page(at_home, calls):
    outcome = system.reproduce(splits=1, say=lambda line: None)
    assert outcome.failures == []
    assert not [record for record in outcome.records if record.splits == 0]
    folder = at_home / "dp-hflow"
    drawn = {path.stem for path in (folder / "figures").glob("*.png")}
    both = {f"{name}{end}" for name in ("figure-3", "kendall") for end in ("", "-hflow")}
    assert drawn == both | {"figure-2", "figure-3-merf", "figure-4", "figure-5", "warm-start"}
    text = (at_home / "dp-hflow.md").read_text("utf-8")
    for record in outcome.records:
        assert record.measured in text
    for name in drawn:
        assert f"dp-hflow/figures/{name}.png" in text
    assert "not run" not in text
    assert system.write_page().read_text("utf-8") == text
    assert "given |" not in text
    assert "0.0717" in text
    assert "**AIM of dpmm, ours**" in text
    assert ">= 0.855 misses" in text
    assert "<= 480 holds" in text


def test_the_page_tells_what_no_accountant_sees_and_what_is_not_drawn(tmp_path):
    text = system.page_text(tmp_path, [])
    for words in (
        "One run of Adult at the defaults was looked at before",
        "Bounds of Census and Intrusion were rounded from the files",
        "rules that were fitted on generated\n  tables",
        "above 1/n on Covertype, Census and Intrusion",
        "are those that the paper prints",
    ):
        assert words in text
    assert text.count("Not drawn yet") == 9
    assert "| **TableFlow, ours** | 1 | not run |" in text
    assert "| both | 0.5 | not run |" in text


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"splits": 0}, "splits must be from 1 to 10"),
        ({"table": [4]}, "the tables are 1, 2, 3; got 4"),
        ({"only": ["mars"]}, "data set of adult"),
        ({"only": ["adult/nan"]}, "DATA/EPSILON"),
    ],
)
def test_what_there_is_not_is_refused_before_any_run(settings, message, tmp_path, calls):
    with pytest.raises(ValueError, match=message):
        quietly(tmp_path, **settings)
    assert calls == []


def test_a_table_of_the_paper_asks_for_its_own_runs_only(tmp_path, calls):
    quietly(tmp_path, table=[1], splits=1)
    methods = ("merf", "codes", "codes-cold", "hflow")
    assert calls == [(method, 1.0, 1) for method in methods]
    assert not (tmp_path / "figures").exists()


def test_a_run_measures_by_all_classifiers_and_real_rows_without_a_fit(monkeypatch):
    calls = stand_in.take_over(monkeypatch)
    quick = {x: evaluation.CLASSIFIERS[x] for x in ("decision tree", "naive Bayes")}
    monkeypatch.setattr("veilflow.evaluation.classifiers.CLASSIFIERS", quick)
    monkeypatch.setattr(evaluation, "detection_score", lambda *rows, **settings: 0.5)
    done = runs.perform(Task(data="adult", method="codes", epsilon=1.0, split=1))
    json.dumps(done.result, allow_nan=False)
    assert done.result["classifiers"]["scores"].keys() == quick.keys()
    for name in ("fit_seconds", "sampling_seconds", "peak_gigabytes"):
        assert done.result[name] > 0
    assert done.result["log_likelihood"]["mean"] == pytest.approx(-8)
    for column in measuring.SHOWN["adult"]:
        for part in ("real", "synthetic"):
            shares = done.arrays[f"{column}_{part}"]
            assert shares.shape == (4,)  # three values, and the gap
            assert shares.sum() == pytest.approx(1)
    real = runs.perform(Task(data="adult", method=REAL, epsilon=math.inf, split=1))
    assert real.result["marginals"]["mean_two_way"] == 0
    assert real.result["guarantee"]["epsilon"] == "inf"
    held_out = runs.perform(Task(data="adult", method=HELD_OUT, epsilon=math.inf, split=1))
    assert "classifiers" not in held_out.result
    assert held_out.result["marginals"]["mean_two_way"] > 0
    shuffled = runs.perform(Task(data="adult", method=SHUFFLED, epsilon=math.inf, split=1))
    assert shuffled.result["marginals"]["mean_one_way"] == 0
    assert shuffled.result["marginals"]["mean_two_way"] > 0.05
    assert len(calls) == 1


def test_a_peer_is_measured_like_a_model_and_its_epsilon_is_its_own_claim(monkeypatch):
    stand_in.measure_quickly(monkeypatch)
    stand_in.take_over(monkeypatch)
    done = runs.perform(Task(data="adult", method="aim", epsilon=1.0, split=1))
    assert done.result["guarantee"] == {"epsilon": 1.0, "accountant": "dpmm's own"}
    assert done.seconds == done.result["fit_seconds"] == 3.0
    assert "log_likelihood" not in done.result
    assert done.result["classifiers"]["mean"]["auroc"] == pytest.approx(0.8)


def test_covertype_is_classified_on_fewer_rows_and_shown_in_bins_of_its_range(monkeypatch):
    asked = {}
    monkeypatch.setattr(evaluation, "detection_score", lambda *rows, **settings: 0.5)
    monkeypatch.setattr(
        evaluation,
        "compare_classifiers",
        lambda *rows, **settings: (
            asked.update(settings)
            or evaluation.ClassifierScores({"x": evaluation.Score(1, 1, None)})
        ),
    )
    found = stand_in.load("covertype")
    measuring.measure("covertype", found, found.train, seed=1)
    assert asked["max_rows"] == 50_000
    arrays = measuring.histograms("covertype", found, found.train)
    np.testing.assert_array_equal(arrays["Aspect_edges"][[0, -1]], [0, 8])
    assert measuring.histograms("census", found, found.train) == {}


def test_methods_differ_from_the_defaults_in_what_their_names_say(monkeypatch):
    made = SimpleNamespace(
        hflow=lambda **chosen: chosen,
        TableFlow=lambda **chosen: chosen,
        Budget=lambda **b: b,
        Training=lambda **chosen: chosen,
    )
    monkeypatch.setattr(estimators, "vf", made)
    schema = stand_in.load("adult").schema
    common = {"epsilon": 1.0, "delta": 1e-5, "num_records": 7, "seed": 3}
    built = {name: estimators.build(name, schema, **common) for name in estimators.METHODS}
    always = {"schema", "budget", "num_records", "seed"}
    extra = {name: {k: v for k, v in b.items() if k not in always} for name, b in built.items()}
    cold = {"warm_start": False, "training": {}}
    assert extra["codes"] == {"training": {}}
    assert extra["codes-cold"] == cold
    assert extra["hflow"] == {**cold, "flow": {}}
    assert extra["hflow-lu"] == {**cold, "flow": {"linear": "lu"}}
    sparsified = {"clipping": "sparsified", "sparsity": 0.9}
    assert extra["hflow-sparsified-0.9"] == {**cold, "flow": {}, "training": sparsified}
    with pytest.raises(ValueError, match=r"the methods are codes.*merf"):
        estimators.build("codex", schema, **common)


@pytest.mark.parametrize("epsilon", [0.5, 10.0])
def test_marginals_alone_spend_the_budget_and_no_more(epsilon):
    model = estimators.build(
        "marginals",
        stand_in.load("adult").schema,
        epsilon=epsilon,
        delta=1e-5,
        num_records=20_000,
        seed=1,
    )
    plan = model.plan()
    assert 0.95 * epsilon < plan.guarantee.epsilon <= epsilon
    assert "training" not in [release.purpose for release in plan.releases]


def test_the_peak_of_memory_counts_what_is_there():
    memory.forget_peak()
    large = np.ones(20_000_000)
    peak = memory.peak_gigabytes()
    assert peak is None or peak >= large.nbytes / 1e9
