"""The DP-LFlow reproduction on tiny images and with a stand-in: what is run, kept, recorded, drawn."""

import json
import math

import numpy as np
import pytest
from reproductions.blocks import Column, cells
from reproductions.dp_lflow import SYSTEM as system
from reproductions.dp_lflow import (
    ablations,
    estimators,
    figures,
    measures,
    paper,
    pixels,
    runs,
    tables,
)
from reproductions.dp_lflow.runs import REAL, Task
from reproductions.dp_lflow.sharpening import SHARPENED
from reproductions.dp_lflow.targets import QUALITY, SMALL

from reproductions import records as record_files
from tests.reproductions import lflow_stand_in as stand_in
from veilflow.privacy.events import Gaussian, PoissonSampled, Repeated
from veilflow.privacy.ledger import Ledger

pytestmark = pytest.mark.slow  # the system has probes; these are its parts

MNIST = {"only": ["mnist/10/flows"], "splits": 2}


@pytest.fixture
def calls(monkeypatch):
    """Tiny images, stand-ins for models and measures, no Inception; returns what was built."""
    stand_in.measure_quickly(monkeypatch)
    stand_in.install_inception(monkeypatch, possible=False)
    monkeypatch.setattr("reproductions.cache.commit", lambda *paths: "abc1234")
    return stand_in.take_over(monkeypatch)


def quietly(tmp_path, **settings):
    lines: list[str] = []
    outcome = system.reproduce(out=tmp_path, say=lines.append, **settings)
    return outcome, lines


def one(outcome, table, metric, row=paper.OURS, column="MNIST, 10"):
    key = (table, row, column, metric)
    (found,) = [r for r in outcome.made if r.key == key]
    return found


def test_a_table_names_known_methods_and_none_stands_idle():
    blocks = tables.SHEET.blocks
    used = {row.method for block in blocks for row in block.rows if row.method}
    assert used == {*estimators.METHODS, *pixels.FLOWS, REAL}
    for block in blocks:
        for row in block.rows:
            assert (row.method is None) is bool(row.given)
            assert {*row.given, *row.paper, *row.must} <= set(block.columns)


def test_every_cell_of_a_record_is_named_once():
    keys = [tables.SHEET.key(*cell) for cell in tables.SHEET.cells()]
    assert len(keys) == len(set(keys))


def test_two_kinds_of_features_never_share_a_table():
    for block in tables.SHEET.blocks:
        kinds = {column.what for column in block.columns} & {measures.FID, measures.DISTANCE}
        assert len(kinds) <= 1, block.title


def test_every_cell_that_a_run_fills_is_measured_by_it():
    for _, row, column in tables.SHEET.cells():
        task = Task(data=column.data, method=str(row.method), epsilon=row.epsilon, split=1)
        assert row.part != SHARPENED or row.method in runs._BOTH
        if column.what in (measures.LR, measures.MLP):
            assert task.in_full or row.method == REAL
        if column.what is measures.FID:
            assert task.keeps_samples or row.method == REAL


def test_words_that_do_not_fill_a_row_are_refused():
    columns = (Column("mnist", measures.CNN), Column("mnist", measures.LR))
    assert cells(columns, ".5 -") == {columns[0]: "0.5"}
    with pytest.raises(ValueError, match="2 columns, got 1 words"):
        cells(columns, ".5")


@pytest.mark.parametrize("claimed", [10.0, 1.0])
def test_the_papers_true_epsilon_is_what_its_settings_spend(claimed):
    # two releases of sensitivity C each and noise of sigma C: one of sensitivity sqrt(2) C
    noise = paper.NOISE_MULTIPLIERS[claimed] / math.sqrt(2)
    step = PoissonSampled(paper.SAMPLING_RATE, Gaussian(noise))
    ledger = Ledger().spend(Repeated(paper.STEPS, step), purpose="training")
    assert ledger.epsilon(delta=1e-5) == pytest.approx(paper.TRUE_EPSILONS[claimed], abs=0.05)


def test_what_must_be_reached_is_no_worse_than_what_the_paper_reached():
    for row in QUALITY.rows:
        for column in row.must.keys() & row.paper.keys():
            sign = 1 if column.what.better == "higher" else -1
            assert sign * row.must[column] >= sign * row.paper[column]


def test_runs_are_made_once_and_seeds_are_the_splits(tmp_path, calls):
    quietly(tmp_path, **{**MNIST, "splits": 1})
    _, lines = quietly(tmp_path, **MNIST)
    quietly(tmp_path, **MNIST)
    assert calls == [("flows", 10.0, 1), ("flows", 10.0, 2)]
    assert any("seed 2: raw: LR 87.0 %, MLP 87.0 %, CNN 87.0 %; sharpened:" in x for x in lines)


def test_a_record_is_complete_and_true_to_its_runs(tmp_path, calls):
    outcome, _ = quietly(tmp_path, **MNIST)
    record = one(outcome, "targets", "CNN %", paper.OURS_RAW)
    assert record.ours == pytest.approx(86.5)
    assert record.spread == pytest.approx(1 / math.sqrt(2))
    assert (record.paper, record.must, record.better) == (95.3, 97.0, "higher")
    assert record.misses
    assert record.true_epsilon_of_paper == 15.7
    assert (record.paper_accountant, record.paper_sampling) == (
        "RDP",
        "shuffled, accounted as Poisson",
    )
    assert (record.delta, record.accountant, record.sampling) == (1e-5, "PLD", "Poisson")
    stored = [json.loads(p.read_text("utf-8")) for p in (tmp_path / "runs").glob("*.json")]
    assert {run["result"]["guarantee"]["epsilon"] for run in stored} == {record.epsilon}
    assert record_files.read(tmp_path / "results.json")[: len(outcome.made)] == outcome.made


def test_rows_of_one_run_tell_its_parts_apart(tmp_path, calls, monkeypatch):
    def measure(images, labels, found, *, seed, classifiers):
        bright = float(images.mean())
        return {"accuracies": {name: {"mean": bright} for name in classifiers}, "fidelity": {}}

    monkeypatch.setattr(runs.measuring, "measure", measure)
    outcome, _ = quietly(tmp_path, only=["mnist/10/flows"])
    sharp, raw = (one(outcome, "1", "CNN %", row) for row in (paper.OURS, paper.OURS_RAW))
    assert sharp.ours != raw.ours
    assert (sharp.paper, raw.paper) == (95.3, 94.8)


def test_each_class_has_its_area_and_the_mean_is_theirs(tmp_path, calls):
    outcome, _ = quietly(tmp_path, only=["mnist/10/flows"])
    areas = np.array([one(outcome, "3", f"class {place}").ours for place in range(10)], np.float64)
    assert one(outcome, "3", "OOD AUROC").ours == pytest.approx(areas.mean())
    assert areas.mean() > 0.9  # classes of the stand-in differ in brightness


@pytest.mark.parametrize(
    ("only", "table", "column", "must"),
    [
        ("mnist/10/flows", "time", "MNIST, 10", {"NVIDIA H200": 45, "a processor": None}),
        ("digits/10/flows", "small", "digits, 10", {"NVIDIA H200": None, "a processor": 120}),
    ],
)
def test_a_bound_on_time_is_for_one_kind_of_machine(only, table, column, must, tmp_path, calls):
    quietly(tmp_path, only=[only])
    for device, bound in must.items():
        for path in (tmp_path / "runs").glob("*.json"):
            text = json.loads(path.read_text("utf-8"))
            path.write_text(json.dumps({**text, "device": device}), "utf-8")
        outcome, _ = quietly(tmp_path, only=[only])
        assert one(outcome, table, "seconds to fit", column=column).must == bound


def test_what_was_not_run_and_must_reach_something_counts_as_missing(tmp_path, calls):
    outcome, _ = quietly(tmp_path, **MNIST)
    missing = [record for record in outcome.records if record.splits == 0]
    assert {"OOD AUROC", "CNN %", measures.FID.name} <= {record.metric for record in missing}
    assert all(record.misses and record.note == "not run yet" for record in missing)
    assert not [r for r in missing if (r.column, r.metric) == ("MNIST, 10", "CNN %")]


def test_a_run_that_fails_is_told_and_does_not_end_the_others(tmp_path, calls, monkeypatch):
    perform = runs.perform

    def failing(task):
        if task.method == "conditional":
            raise AttributeError("no condition")
        return perform(task)

    monkeypatch.setattr(runs, "perform", failing)
    both = ["mnist/10/conditional", "mnist/10/flows"]
    outcome, _ = quietly(tmp_path, only=both)
    assert outcome.failures == [
        "mnist, conditional, epsilon 10, seed 1: AttributeError: no condition"
    ]
    assert one(outcome, "4", "CNN %", "a flow for each class, one autoencoder").ours == 86.0


def test_no_image_of_the_data_is_kept(tmp_path, calls):
    quietly(tmp_path, only=["mnist/10/flows", "mnist/inf/real"])
    real = {image.tobytes() for part in stand_in.load("mnist") for image in part.pixels}
    files = list((tmp_path / "runs").glob("*.npz"))
    assert [file.name.split("-")[1] for file in files] == ["flows"]
    with np.load(files[0]) as arrays:
        assert {name: len(arrays[name]) for name in arrays.files} == {
            "samples": stand_in.KEPT,
            "shown_raw": runs.SHOWN,
            "shown_sharpened": runs.SHOWN,
        }
        for name in arrays.files:
            assert not real & {image.tobytes() for image in arrays[name]}


def test_everything_once_leaves_every_record_figure_and_the_page(at_home, calls, monkeypatch):
    stand_in.install_inception(monkeypatch)
    outcome = system.reproduce(say=lambda line: None)
    assert outcome.failures == []
    assert not [record for record in outcome.records if record.splits == 0]
    folder = at_home / "dp-lflow"
    drawn = {path.stem for path in (folder / "figures").glob("*.png")}
    assert drawn == {figure.name for figure in figures.all_figures(1)}
    text = (at_home / "dp-lflow.md").read_text("utf-8")
    for record in outcome.records:
        assert record.measured in text
    for name in drawn:
        assert f"dp-lflow/figures/{name}.png" in text
    assert "not run" not in text
    assert system.write_page().read_text("utf-8") == text
    assert ">= 97 misses" in text
    assert "<= 120 holds" in text
    assert "<= 45 (not for this machine)" in text


def test_the_page_tells_what_no_accountant_sees_and_what_was_not_made(tmp_path):
    text = system.page_text(tmp_path, [])
    for words in (
        "CelebA may not be redistributed",
        'its rows "at 10" are to be read as 15.7, those "at 1" as 2.3',
        "60,000 samples, as in the paper",
        "Figures 4, 5 and 6",
        "Images of the data** are nowhere shown",
        "did not charge for it",
    ):
        assert words in text
    assert text.count("Not drawn yet") == len(figures.all_figures(1))
    assert f"| **{paper.OURS}, ours** | 10 | not run |" in text
    assert "| DP-LFlow, paper (truly 15.7) | 10 | 95.3 |" in text
    assert "None of it was run yet" in text
    assert "#where-and-when-this-was-measured" not in text


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"splits": 0}, "splits must be from 1 to 10"),
        ({"table": [5]}, "the tables are 1, 2, 3, 4; got 5"),
        ({"only": ["celeba"]}, "data set of mnist"),
        ({"small": True, "table": [1]}, "small is a table of its own"),
        ({"fid": True}, "Inception is not installed here"),
    ],
)
def test_what_there_is_not_is_refused_before_any_run(settings, message, tmp_path, calls):
    with pytest.raises(ValueError, match=message):
        quietly(tmp_path, **settings)
    assert calls == []


def test_a_table_of_the_paper_asks_for_its_own_runs_only(tmp_path, calls):
    quietly(tmp_path, table=[4])
    assert sorted(calls) == [
        (method, epsilon, 1)
        for method in ("conditional", "flows", "models")
        for epsilon in (1.0, 10.0)
    ]
    assert not (tmp_path / "figures").exists()


def test_the_small_table_needs_digits_alone_and_draws_them(tmp_path, calls):
    outcome, _ = quietly(tmp_path, small=True)
    assert {record.column.split(", ")[0] for record in outcome.made} == {"digits"}
    assert {record.row for record in outcome.made} == {row.name for row in SMALL.rows}
    assert {path.stem for path in (tmp_path / "figures").glob("*.png")} == {"small-10", "small-1"}


def test_a_grid_is_of_samples_with_white_between_its_halves():
    left, right = (np.full((20, 1, 2, 2), value, np.uint8) for value in (10, 20))
    lines = figures._beside([left, right]).reshape(2, 21, 2, 2)
    assert [int(image[0, 0]) for image in lines[1]] == [10] * 10 + [255] + [20] * 10
    assert figures._enlarged(left).shape == (20, 1, 24, 24)
    assert figures._enlarged(np.zeros((1, 1, 28, 28))).shape == (1, 1, 28, 28)


def test_the_paper_stands_at_its_true_epsilon_beside_ours(tmp_path, calls, monkeypatch):
    drawn = {}
    monkeypatch.setattr(
        figures.drawing, "draw_curves", lambda path, lines, **look: drawn.update(lines)
    )
    budgets = [f"{name}/{e:g}/flows" for name in ("mnist", "fashion") for e in ablations.EPSILONS]
    quietly(tmp_path, figure=True, only=budgets)
    paper_line = drawn["MNIST, paper, at its true epsilon"]
    assert dict(zip(paper_line.x, paper_line.y, strict=True)) == {2.3: 88.9, 15.7: 95.3}
    assert list(drawn["MNIST, ours"].x) == [0.5, 1.0, 3.0, 10.0]
