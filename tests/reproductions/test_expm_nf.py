"""The ExpM+NF reproduction with a stand-in for its runs: what is run, kept, recorded, drawn."""

import math

import numpy as np
import pytest
from reproductions.expm_nf import SYSTEM as system
from reproductions.expm_nf import (
    data,
    features,
    figures,
    methods,
    prose,
    runs,
    sets,
    tables,
    targets,
)
from reproductions.expm_nf.measures import LOST
from reproductions.expm_nf.runs import AUDIT, EXACT, TIME, Finished, Task

from reproductions import records as record_files
from veilflow.privacy.events import ExponentialMechanism, NonPrivate
from veilflow.privacy.ledger import Ledger
from veilflow.releases.expm.flow_sampler import FlowSampler

pytestmark = pytest.mark.slow  # the system has probes; these are its parts


def fake(task):
    """Numbers that tell which task they are of."""
    private = math.isfinite(task.epsilon)
    ledger = Ledger().spend(
        ExponentialMechanism(task.epsilon) if private else NonPrivate(), purpose="model"
    )
    if "flow" in task.method:
        ledger = ledger.assuming(FlowSampler.assumption)
    level = 0.9 if not private else 0.9 - 0.01 / (1 + task.epsilon)
    aucs = [level + 0.001 * i for i in range(task.seeds)]
    result = {
        "auc": float(np.median(aucs)),
        "aucs": aucs,
        "lowest": 0.5,
        "guarantee": ledger.guarantee(delta=0).to_json(),
        "ledger": ledger.to_json(),
    }
    if task.data == EXACT:
        result |= {"distance": 0.02, "objections": 1, "p_value": 0.5}
        result |= {"divergence": 0.1, "effective_share": 0.9, "estimate": 0.02, "pareto_k": 0.8}
    if task.data == AUDIT:
        result |= {"lower_bound": 0.3, "excess": 0.3 - task.epsilon}
    if task.data.startswith(TIME):
        result |= {"accounting": 0.5, "first": 2.0, "second": 1.0}
    if task.method.startswith("dp-sgd"):
        result["noise"] = 2.0
    arrays = {"draws": np.full((task.seeds, 4), 0.8)} if task.method == "flow" else {}
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


def test_tables_name_known_methods_and_none_stands_idle():
    used = {
        (column.data, row.method)
        for block in tables.SHEET.blocks
        for row in block.rows
        for column in block.columns
        if row.method
    }
    assert {method for data, method in used if data in sets.SETS} == set(methods.METHODS)
    assert {data for data, _ in used if data in sets.SETS} == set(sets.SETS)
    for block in tables.SHEET.blocks:
        for row in block.rows:
            assert (row.method is None) is bool(row.given)
            assert {*row.given, *row.paper, *row.must} <= set(block.columns)


def test_every_cell_of_a_record_is_named_once_and_titles_have_no_comma():
    keys = [tables.SHEET.key(*cell) for cell in tables.SHEET.cells()]
    assert len(keys) == len(set(keys))
    # the list of codes cuts columns at their first comma
    used = {column.data for _, _, column in tables.SHEET.cells()}
    assert not any("," in tables.TITLES[name] for name in used)


def test_all_is_run_once_and_a_second_time_nothing(tmp_path, calls):
    outcome, _ = quietly(tmp_path)
    assert outcome.failures == []
    assert len(calls) == len(set(calls)) == len(tables.tasks(targets.BLOCKS, 10))
    quietly(tmp_path)
    assert len(calls) == len(set(calls))
    drawn = {path.stem for path in (tmp_path / "figures").glob("*.png")}
    assert drawn == {figure.name for figure in figures.all_figures(10)}
    assert record_files.read(tmp_path / "results.json") == outcome.records


def test_what_is_lost_is_below_the_run_without_privacy(tmp_path, calls):
    outcome, _ = quietly(tmp_path, only=["adult/1/zoom", "adult/inf"])
    (record,) = [r for r in outcome.made if r.metric == LOST.name]
    zoom = fake(tables.task_of("adult", "zoom", 1.0, 10)).result
    assert record.ours == pytest.approx(0.9 - zoom["auc"])
    assert (record.must, record.splits, record.delta) == (0.008, 10, 0)
    assert record.spread == pytest.approx(np.std(zoom["aucs"], ddof=1))
    assert not record.misses
    assert {r.row for r in outcome.records if r.table == "targets" and not r.splits} >= {"planar"}


def test_what_is_conditional_says_so_in_name_and_note(tmp_path, calls):
    outcome, _ = quietly(tmp_path, only=["lr-mortality", "audit", "adult/1"])
    flows = [r for r in outcome.made if "flow" in r.row]
    assert flows
    assert all("CONDITIONAL" in record.row for record in flows)
    assert all(r.note == "CONDITIONAL" for r in flows if r.table == "icu")
    assert all(r.note == "" for r in outcome.made if r.row in ("zoom", "DP-SGD"))


def test_small_needs_neither_files_nor_long_attacks(tmp_path, calls):
    quietly(tmp_path, small=True)
    assert {task.data for task in calls} == {"generated", AUDIT}
    assert all(task.method.startswith("one-run") for task in calls if task.data == AUDIT)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"splits": 11}, "splits must be from 1 to 10"),
        ({"table": [1]}, "got 1"),
        ({"only": ["nowhere"]}, "nowhere"),
    ],
)
def test_what_there_is_not_is_refused(tmp_path, calls, settings, message):
    with pytest.raises(ValueError, match=message):
        quietly(tmp_path, **settings)
    assert not calls


def test_times_are_chosen_together(tmp_path, calls):
    quietly(tmp_path, only=["time/1"])
    networks = [f"time/{kind}-{task}" for kind in ("lr", "grud") for task in ("mortality", "stay")]
    assert {task.data for task in calls} == set(networks)


def test_the_page_says_what_holds_and_what_does_not(tmp_path, calls):
    outcome, _ = quietly(tmp_path)
    text = system.page_text(tmp_path, outcome.records)
    for words in ("**Unconditional**", "**CONDITIONAL**", "**What the audit found**"):
        assert words in text
    assert "not run" not in text.replace(prose.HEAD, "")
    for block in targets.BLOCKS:
        assert f"### {block.title}" in text
    for figure in figures.all_figures(10):
        assert f"{figure.name}.png" in text


def test_the_paper_s_grid_is_reachable():
    wanted = set(tables.tasks(targets.BLOCKS, 10))
    for name in ("lr-mortality", "lr-stay"):
        for method, seeds in (("flow", 10), ("dp-sgd", 10), ("dp-sgd-rdp", 5)):
            of = {t.epsilon for t in wanted if (t.data, t.method, t.seeds) == (name, method, seeds)}
            assert of == {1e-4, 1e-3, 0.01, 0.1, 0.5, 1, 2, 3.5, 5, 7, 10}
    of = [t for t in wanted if (t.data, t.method) == ("grud-stay", "flow")]
    assert [len(of), *{t.seeds for t in of}] == [4, 3]


def test_the_page_names_every_measurement_that_is_lacking(tmp_path):
    text = system.page_text(tmp_path, [])
    assert len(set(features.MEASUREMENTS)) == 104
    assert set(features.OPEN) < set(features.MEASUREMENTS)
    assert set(features.OPEN.values()) < {*data.SERIES, *data.DESCRIPTORS}
    assert all(name in text for name in features.LACKING)
    assert "from memory" not in text


def test_a_page_without_a_run_says_so(tmp_path):
    text = system.page_text(tmp_path, [])
    assert prose.NONE in text
