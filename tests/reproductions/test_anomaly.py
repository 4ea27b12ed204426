"""The reproduction of anomaly detection: its pieces on tiny sets, and a stand-in for its runs."""

import math
import shutil
from dataclasses import replace

import numpy as np
import pytest
from reproductions.anomaly_detection import SYSTEM as system
from reproductions.anomaly_detection import (
    elsewhere,
    ensembles,
    figures,
    fits,
    runs,
    sets,
    streams,
    tables,
    targets,
)
from reproductions.anomaly_detection.runs import ENSEMBLE, PARTS, STREAMS, Finished, Task
from reproductions.records import FOLDER

import veilflow as vf
from reproductions import records as record_files
from tests.models.detect.models import mixture
from veilflow.privacy.events import ExponentialMechanism, NonPrivate
from veilflow.privacy.guarantees import Sensitive
from veilflow.privacy.ledger import Ledger
from veilflow.releases.answers import search

pytestmark = pytest.mark.slow  # the system has probes; these are its parts


def fake(task):
    """Numbers that tell which task they are of."""
    private = math.isfinite(task.epsilon)
    event = ExponentialMechanism(task.epsilon) if private else NonPrivate()
    ledger = Ledger().spend(event, purpose="model")
    result = {"guarantee": ledger.guarantee(delta=0).to_json(), "ledger": ledger.to_json()}
    arrays = {}
    if task.data == ENSEMBLE:
        for epsilon in ensembles.EPSILONS:
            right = 0.97 + 0.001 * task.split + (0.01 if task.method == "flow" else 0.0)
            result[f"epsilon {epsilon:g}"] = {"correct": right, "kept": 0.9, "found": 1.0}
    elif task.data == PARTS:
        counts = {f"{count} queries": 0.9 for count in streams.COUNTS}
        result |= {f"{k} parts": counts for k in streams.KS}
    elif task.data in STREAMS:
        both = {"plain": 0.9, "sparse": 1.0}
        result |= {f"{length} queries": both for length in streams.LENGTHS}
        result |= {"equal": 190, "equal_majority": 201, "sparse": 0.9999, "library": 1.0}
    else:
        result |= {"auroc": 0.9, "precision": 0.5}
        arrays["roc"] = np.array([[0.0, 0.5, 1.0], [0.0, 0.8, 1.0]])
        for rate in fits.RATES:
            for way, factor in (("samples", 1.0 + 0.1 * task.split), ("private", 1.0)):
                result[f"{way} {rate:g}"] = {"alarms": factor * rate, "asked": rate}
    return Finished(result, arrays, 1.5)


@pytest.fixture
def calls(monkeypatch):
    done: list[Task] = []
    monkeypatch.setattr(runs, "perform", lambda task: done.append(task) or fake(task))
    monkeypatch.setattr("reproductions.cache.commit", lambda *paths: "abc1234")
    return done


def quietly(tmp_path, **settings):
    lines: list[str] = []
    outcome = system.reproduce(out=tmp_path, say=lines.append, **settings)
    return outcome, lines


# -- tables ----------------------------------------------------------------------------------------


def test_every_cell_is_named_once_and_titles_have_no_comma():
    keys = [tables.SHEET.key(*cell) for cell in tables.SHEET.cells()]
    assert len(keys) == len(set(keys))
    assert not any("," in title for title in tables.TITLES.values())
    for block in targets.BLOCKS:
        assert {column.data for column in block.columns} <= set(tables.TITLES)
        assert all(set(row.must) <= set(block.columns) for row in block.rows)


def test_all_is_run_once_and_a_second_time_nothing(tmp_path, calls):
    outcome, _ = quietly(tmp_path)
    assert outcome.failures == []
    assert len(calls) == len(set(calls)) == len(tables.tasks(targets.BLOCKS, system.splits))
    quietly(tmp_path)
    assert len(calls) == len(set(calls))
    drawn = {path.stem for path in (tmp_path / "figures").glob("*.png")}
    assert drawn == {figure.name for figure in figures.all_figures(system.splits)}
    assert record_files.read(tmp_path / "results.json") == outcome.records
    text = system.page_text(tmp_path, outcome.records)
    assert "not run" not in text
    assert "Not drawn" not in text


def test_what_is_off_is_that_of_the_mean_over_splits(tmp_path, calls):
    outcome, _ = quietly(tmp_path, only=["moons"])
    free, paid = [r for r in outcome.made if r.metric == targets.MISSED.name]
    assert free.ours == pytest.approx(0.2)  # rates of 1.1, 1.2 and 1.3 times what was asked for
    assert paid.ours == pytest.approx(0)
    assert (free.must, paid.must, free.splits) == (0.2, 0.2, 3)
    # epsilons add up without a delta, as that of the stand-in is
    assert (free.epsilon, paid.epsilon) == pytest.approx((4, 4 + fits.PRIVATE_EPSILON), rel=1e-3)


def test_leads_are_of_the_same_draws(tmp_path, calls):
    outcome, _ = quietly(tmp_path, only=["ensemble"])
    leads = [r for r in outcome.made if r.metric == targets.LEAD.name]
    assert len(leads) == len(ensembles.EPSILONS)
    assert all(r.ours == pytest.approx(0.01) and r.must == 0 for r in leads)
    votes = [r for r in outcome.made if r.table == "figure 8" and r.must is not None]
    assert [(r.epsilon, r.must, r.delta) for r in votes] == [(1.0, 0.95, 0.0)]


def test_a_lead_without_the_other_kind_is_no_record(tmp_path, calls):
    outcome, _ = quietly(tmp_path, only=["ensemble/1/flow"])
    assert not [r for r in outcome.made if r.metric == targets.LEAD.name]
    (missing, *_) = [r for r in outcome.records if r.metric == targets.LEAD.name]
    assert missing.misses
    assert missing.note == "not run yet"


def test_small_needs_no_files(tmp_path, calls):
    quietly(tmp_path, small=True)
    assert {task.data for task in calls} == {PARTS}


def test_what_there_is_not_is_refused(tmp_path):
    for settings in ({"splits": 11}, {"table": [1]}, {"only": ["nowhere"]}):
        with pytest.raises(ValueError, match=r"must be|tables are"):
            quietly(tmp_path, **settings)
    with pytest.raises(ValueError, match="no data set"):
        runs.perform(Task(data="nowhere", method="flow", epsilon=1.0, split=1))


def test_figure_5_comes_from_where_it_was_measured(monkeypatch, tmp_path):
    made = elsewhere.records()
    (lead,) = [r for r in made if r.metric == elsewhere.METRICS[0]]
    (lost,) = [r for r in made if r.metric == elsewhere.METRICS[1]]
    found = [r for r in made if r.table == elsewhere.FIGURE_5]
    areas = {(r.row, r.column): r.ours or math.nan for r in found}
    assert lead.ours == pytest.approx(
        areas["DP-NF", "Life Science, 1"] - areas["DP-MoG_3", "Life Science, 1"]
    )
    assert lost.ours == pytest.approx(
        areas["NF without privacy", "Life Science, inf"] - areas["DP-NF", "Life Science, 4"]
    )
    assert (lead.must, lost.must) == (0.0, 0.02)
    results = FOLDER / "dp-lflow" / "results.json"
    monkeypatch.setattr("reproductions.system.FOLDER", tmp_path)
    (tmp_path / "dp-lflow").mkdir()
    shutil.copy(results, tmp_path / "dp-lflow")
    assert {r.table for r in elsewhere.records()} == {elsewhere.TABLE_3}


# -- fits ------------------------------------------------------------------------------------------


@pytest.fixture
def released(monkeypatch):
    """A known model in place of every fit, and rows of that model."""
    model = mixture()
    facts = replace(sets.facts_of("moons"), bounds=((-5.0, -5.0), (5.0, 5.0)))
    strange = np.random.default_rng(2).uniform(-5, 5, (300, 2))
    case = sets.Case(facts, model.sample(2000, seed=1), model.sample(4000, seed=2), strange)
    monkeypatch.setattr(sets, "load", lambda name, split: case)
    monkeypatch.setattr(fits.estimators, "fit", lambda estimator, rows: model)
    monkeypatch.setattr(fits, "_SAMPLES", 4000)
    return model


def test_a_perfect_model_keeps_to_its_false_alarm_rates(released):
    result, arrays = fits.perform("moons", "flow", epsilon=4.0, split=1)
    assert result["auroc"] > 0.9
    for rate in fits.RATES:
        # four deviations of two draws of 4,000; a private rank is off by some 20 of 2,000
        chance = 4 * math.sqrt(2 * rate / 4000)
        assert result[f"samples {rate:g}"]["alarms"] == pytest.approx(rate, abs=chance)
        assert result[f"private {rate:g}"]["alarms"] == pytest.approx(rate, abs=2 * chance + 0.015)
    assert arrays["roc"].shape == (2, 200)
    plain, _ = fits.perform("moons", "flow", epsilon=math.inf, split=1)
    assert not [name for name in plain if name.startswith("samples")]


def test_average_precision_of_scores_in_order_and_infinite_ones():
    assert fits.average_precision(np.array([1.0, 2.0]), np.array([3.0, np.inf])) == 1.0
    even = fits.average_precision(np.array([1.0, 3.0]), np.array([2.0, 4.0]))
    assert even == pytest.approx((1 + 2 / 3) / 2)


# -- votes -----------------------------------------------------------------------------------------


def test_distances_are_from_the_half_circles_of_the_generator():
    points = np.array([[0.0, 1.0], [0.0, 0.0], [1.0, -0.5], [-1.0, -0.5], [2.0, 0.5], [0.0, 1.4]])
    # the second moon is the lower half of a circle around (1, 0.5)
    found = ensembles.distance(points)
    assert found == pytest.approx([0, math.sqrt(1.25) - 1, 0, 0.5, 0, 0.4])
    assert ensembles.distance(vf.datasets.moons(500, noise=1e-9, seed=0)).max() < 1e-6


def test_anomalies_keep_their_distance_and_rows_stay_in_the_box():
    rows = ensembles.asked(400, away=3.0, seed=1, num_anomalies=50)
    assert (len(rows.ordinary), len(rows.anomalies)) == (400, 50)
    assert ensembles.distance(rows.anomalies).min() >= 3 * ensembles.NOISE
    low, high = ensembles.BOUNDS
    for found in (rows.ordinary, rows.anomalies):
        assert ((found >= low) & (found <= high)).all()


def test_probabilities_are_those_of_algorithm_2(monkeypatch):
    monkeypatch.setattr(ensembles, "RECORDS", 2000)
    monkeypatch.setattr(ensembles, "_ASKED", 200)
    found = ensembles.perform("mixture", split=1, parts=4)
    at = found["epsilon 4"]
    assert at["correct"] == pytest.approx((at["kept"] + at["found"]) / 2)
    assert 0.5 < found["epsilon 0.5"]["correct"] < at["correct"] < 1
    # no votes do better than those that all agree
    assert found["epsilon 1"]["correct"] <= 1 / (1 + math.exp(-2))
    again = ensembles.perform("mixture", split=1, parts=4)
    assert again == found


# -- streams ---------------------------------------------------------------------------------------


@pytest.fixture
def stream(monkeypatch):
    """Votes of 200 parts that all agree, 20 anomalies in 400 rows."""
    odd = np.zeros(400, bool)
    odd[::20] = True
    monkeypatch.setattr(streams, "QUERIES", 400)
    monkeypatch.setattr(streams, "ANOMALIES", 20)
    monkeypatch.setattr(streams, "PARTS", 200)
    return np.where(odd, 0, 200), odd


@pytest.mark.parametrize("kind", ["pure", "approximate"])
def test_simulated_streams_are_like_those_of_the_library(kind, stream):
    normal, odd = stream
    budget = vf.Budget(*{"pure": (10.0, 0.0), "approximate": (10.0, 1e-6)}[kind])
    plan = streams.search(budget, kind, 25).answers
    mean = streams.simulated(
        plan, normal, odd, length=400, rng=np.random.default_rng(0), repeats=200
    )
    said = []
    for _ in range(6):
        current, answers, begun = search(plan), [], 1
        for votes in normal:
            if current.left == 0:
                if begun == plan.limit:
                    break
                current, begun = search(plan), begun + 1
            answers.append(current.above(Sensitive(float(200 - votes), description="votes")))
        said.append(np.sum(answers == odd[: len(answers)]) / 400)
    assert mean == pytest.approx(np.mean(said), abs=0.02)


def test_a_row_without_an_answer_is_not_right(stream):
    normal, odd = stream
    plan = replace(streams.search(vf.Budget(1.0, 0.0), "pure", 10, quorum=0.5).answers, epsilon=1e4)
    share = streams.simulated(plan, normal, odd, length=400, rng=np.random.default_rng(0))
    assert share == pytest.approx(181 / 400)  # the tenth anomaly is the 181st row


def test_as_many_queries_as_are_as_accurate(stream):
    normal, odd = stream
    budget = vf.Budget(10.0, 0.0)
    found = streams.as_accurate(budget, normal, odd, 0.99)
    # unanimous votes: sigmoid(10 / n * 100) is 0.99 at n = 1000 / log(99)
    assert found == pytest.approx(1000 / math.log(99), abs=1)
    assert streams.as_accurate(budget, normal, odd, 0.5) == 400
    assert streams.as_accurate(budget, normal, odd, 1.1) == 1


# -- real data -------------------------------------------------------------------------------------


@pytest.mark.data
@pytest.mark.parametrize("name", list(sets.FACTS))
def test_real_rows_are_within_what_is_declared(name):
    try:
        case = sets.load(name, 1)
    except FileNotFoundError as error:
        pytest.skip(str(error))
    assert case.facts.bounds is not None
    low, high = (np.array(side) for side in case.facts.bounds)
    assert len(case.records) == case.facts.num_rows
    for rows in (case.records, case.ordinary, case.anomalies):
        assert rows.shape[1] == len(case.facts.columns)
        assert ((rows >= low) & (rows <= high)).all()
