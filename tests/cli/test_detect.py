"""`detect fit` and `detect query`: of a model, free and streamed; of records, paid and never lost."""

import json
import re
import stat

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv

import veilflow as vf
from tests.models.detect.models import mixture
from tests.models.table import small as tables
from veilflow._core.codec import plain
from veilflow.cli import detect, detect_query
from veilflow.privacy.events import ExponentialMechanism
from veilflow.releases.answers import METHODS, Answers
from veilflow.releases.quantile import Quantile
from veilflow.releases.run import Run
from veilflow.tabular import Rows, write_rows

FIT = ("detect", "fit", "m.veil", "--out", "d.veil", "--seed", 1)
ASK = ("detect", "query", "d.veil", "rows.csv", "--out", "flags.csv")
ENSEMBLE = ("detect", "fit", "data.csv", "--low", -4, "--high", 4, "--density", "mixture")
FEW = (*ENSEMBLE, "--parts", 4, "--components", 1, "--seed", 0, "--out", "e.private")
COUNTED = (*FEW, "--epsilon", 200, "--max-queries", 8)
QUERY = ("detect", "query", "e.private", "rows.csv", "--out", "flags.csv")


@pytest.fixture
def small(monkeypatch):
    """Blocks of three rows, and few samples for thresholds."""
    monkeypatch.setattr(detect_query, "_CHUNK", 3)
    whole = vf.LikelihoodDetector.from_samples
    monkeypatch.setattr(
        vf.LikelihoodDetector, "from_samples", lambda self, *, seed: whole(self, 2000, seed=seed)
    )


@pytest.fixture
def rows(veilflow, tmp_path, small):
    """Eight rows to ask about, the last two far out; returns them."""
    usual = [1, 0] + 0.1 * np.random.default_rng(3).normal(size=(6, 2))
    values = np.concatenate([usual, [[3.9, -3.9]] * 2])
    write_rows(Rows(values, ("a", "b")), tmp_path / "rows.csv")
    return values


@pytest.fixture
def model(rows, tmp_path):
    mixture(columns=("a", "b")).save(tmp_path / "m.veil")


@pytest.fixture
def records(rows, tmp_path):
    """A data file of records."""
    values = [1, 0] + 0.3 * np.random.default_rng(4).normal(size=(200, 2))
    write_rows(Rows(values, ("a", "b")), tmp_path / "data.csv")


def refused(done, message, code=2):
    assert done.exit_code == code, done.stderr
    assert done.stdout == ""
    assert re.search(message, done.stderr), done.stderr


def flags(tmp_path, name="flags.csv"):
    return csv.read_csv(tmp_path / name)


def test_words_are_those_of_the_library():
    assert tuple(detect.Method) == METHODS


# -- of a model ------------------------------------------------------------------------------------


def test_a_detector_of_a_model_is_made_for_nothing_and_streams_flags(
    in_json, model, rows, tmp_path
):
    found = in_json(*FIT, "--false-alarm-rate", 0.05)
    detector = vf.load(tmp_path / "d.veil")
    assert found["from"] == "samples"
    assert detector.threshold == found["threshold"]
    assert detector.ledger == mixture().ledger
    told = in_json(*ASK)
    assert told["protected"] is False
    said = flags(tmp_path)
    assert said.column_names == ["odd", "score"]
    assert np.array(said["odd"]).tolist() == detector.predict(rows).tolist()
    assert np.allclose(np.array(said["score"]), detector.score(rows))
    assert stat.S_IMODE((tmp_path / "flags.csv").stat().st_mode) == 0o600
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_an_explanation_names_the_oddest_column(in_json, model, rows, tmp_path):
    in_json(*FIT)
    rows[0] = [1.0, 4.5]
    write_rows(Rows(rows, ("a", "b")), tmp_path / "rows.csv")
    in_json(*ASK, "--explain")
    said = flags(tmp_path)
    assert said.column_names == ["odd", "score", "explain(a)", "explain(b)", "oddest"]
    wanted = vf.load(tmp_path / "d.veil").explain(rows)
    assert np.allclose(np.array(said["explain(b)"]), wanted[:, 1])
    assert said["oddest"][0].as_py() == "b"


@pytest.mark.parametrize("suffix", ["parquet", "npz"])
def test_rows_come_in_other_formats_and_without_names(suffix, in_json, model, rows, tmp_path):
    in_json(*FIT)
    write_rows(Rows(rows, ("a", "b")), tmp_path / f"rows.{suffix}")
    in_json("detect", "query", "d.veil", f"rows.{suffix}", "--out", "flags.parquet")
    bare = "\n".join(",".join(map(str, row)) for row in rows.tolist())
    (tmp_path / "rows.csv").write_text(bare)
    in_json(*ASK)
    assert np.array(flags(tmp_path)["odd"]).tolist() == [False] * 6 + [True] * 2


def test_public_rows_a_private_quantile_or_a_number_set_the_threshold(in_json, model, tmp_path):
    normal = Rows(vf.load(tmp_path / "m.veil").sample(400, seed=2), ("a", "b"))
    write_rows(normal, tmp_path / "normal.csv")
    free = in_json(*FIT, "--public", "normal.csv", "--false-alarm-rate", 0.1)
    assert any("declared public" in one["sentence"] for one in free["guarantee"]["assumptions"])
    paid = in_json(*FIT, "--private", "normal.csv", "--epsilon", 2, "--force")
    assert paid["from"] == "private"
    detector = vf.load(tmp_path / "d.veil")
    assert detector.plan.release(Quantile).event == ExponentialMechanism(2.0)
    assert in_json(*FIT, "--threshold", 5, "--force")["threshold"] == 5


def test_a_private_threshold_is_on_the_ledger_of_its_data(in_json, veilflow, model, tmp_path):
    write_rows(Rows(np.zeros((50, 2)), ("a", "b")), tmp_path / "normal.csv")
    ledger = ("--data-ledger", "spent.ledger", "--dataset", "people")
    in_json(*FIT, "--private", "normal.csv", "--epsilon", 2, *ledger)
    (total,) = in_json("spending", "spent.ledger", "--delta", 0)["datasets"]
    assert total["guarantee"]["epsilon"] == pytest.approx(2, rel=1e-3)


def test_tables_are_asked_by_their_schema_with_columns_to_spare(in_json, rows, tmp_path):
    with tables.quick():
        fitted = tables.fitted()
        fitted.save(tmp_path / "m.veil")
        in_json(*FIT, "--false-alarm-rate", 0.1)
        drawn = fitted.sample(7, seed=3, like="pyarrow")
        csv.write_csv(drawn.append_column("spare", pa.array(["x"] * 7)), tmp_path / "rows.csv")
        in_json(*ASK)
        detector = vf.load(tmp_path / "d.veil")
        assert np.array(flags(tmp_path)["odd"]).tolist() == detector.predict(drawn).tolist()


def test_slips_are_refused_before_anything_is_done(veilflow, model, records, tmp_path):
    refused(veilflow(*FIT, "--epsilon", 1), "pays for a threshold of --private")
    refused(veilflow(*FIT, "--private", "data.csv"), "give both")
    refused(veilflow(*FIT, "--public", "data.csv", "--threshold", 1), "give one of")
    refused(veilflow(*FIT, "--parts", 3), "--parts is for an ensemble")
    refused(veilflow(*FIT, "--components", 3), "error: --components is for an ensemble")
    refused(veilflow(*COUNTED, "--public", "rows.csv"), "--public is for the detector of a fitted")
    refused(veilflow(*FEW, "--max-queries", 3), "give --epsilon")
    refused(veilflow(*FEW, "--epsilon", 3), "needs max_queries")
    refused(veilflow(*COUNTED[:-6], "--out", "e.veil", *COUNTED[-4:]), "never released")
    refused(
        veilflow("detect", "query", "m.veil", "rows.csv", "--out", "f.csv"), "detect fit m.veil"
    )
    assert veilflow(*FIT).exit_code == 0
    refused(veilflow(*ASK[:-1], "flags.npz"), "must be .csv")
    (tmp_path / "rows.csv").write_text("a,b\n1,x\n")
    refused(veilflow(*ASK), "column 'b' is not numeric")
    (tmp_path / "rows.csv").write_text("a,b\n")
    write_rows(Rows(np.zeros((0, 2)), ("a", "b")), tmp_path / "rows.parquet")
    refused(veilflow("detect", "query", "d.veil", "rows.parquet", "--out", "f.csv"), "no rows")
    refused(veilflow("detect", "query", "d.veil", "gone.csv", "--out", "f.csv"), "no file", code=1)
    assert not (tmp_path / "flags.csv").exists()


# -- of records ------------------------------------------------------------------------------------


def test_an_ensemble_answers_until_its_budget_is_spent_and_loses_nothing(
    in_json, veilflow, records, tmp_path
):
    made = in_json(*COUNTED)
    assert made["guarantee"]["epsilon"] == pytest.approx(200, rel=1e-3)
    assert made["journal"] == "e.private.journal"
    assert stat.S_IMODE((tmp_path / "e.private").stat().st_mode) == 0o600
    told = in_json(*QUERY)
    assert (told["asked"], told["answered"], told["queries_left"]) == (8, 8, 0)
    assert np.array(flags(tmp_path)["odd"]).tolist() == [False] * 6 + [True] * 2
    again = veilflow(*QUERY, "--force")
    refused(again, "asks for 8 answers, and 0 are left", code=1)
    assert flags(tmp_path).num_rows == 8


def test_rows_outside_the_bounds_cost_nothing(in_json, records, tmp_path):
    in_json(*COUNTED)
    write_rows(Rows(np.full((20, 2), 9.0), ("a", "b")), tmp_path / "rows.csv")
    assert in_json(*QUERY)["queries_left"] == 8


def test_too_many_rows_are_refused_before_one_is_paid_for(
    in_json, veilflow, records, rows, tmp_path
):
    in_json(*COUNTED)
    write_rows(Rows(np.concatenate([rows, rows]), ("a", "b")), tmp_path / "rows.csv")
    refused(veilflow(*QUERY), "asks for 16 answers, and 8 are left", code=1)
    assert vf.load(tmp_path / "e.private").queries_left == 8
    assert not (tmp_path / "flags.csv").exists()


def test_what_was_paid_for_is_written_however_a_command_ends(
    in_json, veilflow, records, tmp_path, monkeypatch
):
    in_json(*COUNTED)
    whole, calls = vf.FittedEnsemble.query, []

    def stopped(self, values):
        calls.append(len(values))
        if len(calls) == 2:
            raise KeyboardInterrupt
        return whole(self, values)

    monkeypatch.setattr(vf.FittedEnsemble, "query", stopped)
    done = veilflow(*QUERY)
    assert done.exit_code == 130
    assert "answers to the first 3 rows" in done.stderr
    assert flags(tmp_path).num_rows == 3
    assert vf.load(tmp_path / "e.private").queries_left == 5


def test_a_stream_that_ends_leaves_its_answers_and_an_error(
    in_json, veilflow, records, rows, tmp_path
):
    sparse = ("--method", "sparse_vector", "--max-anomalies", 1, "--epsilon", 200, "--delta", 1e-6)
    in_json(*FEW, *sparse)
    rows[2] = rows[-1]
    write_rows(Rows(rows, ("a", "b")), tmp_path / "rows.csv")
    done = veilflow(*QUERY, "--json")
    assert done.exit_code == 1
    told = json.loads(done.stdout)
    assert (told["asked"], told["answered"], told["anomalies_left"]) == (8, 3, 0)
    assert "after 3 of 8 rows" in done.stderr
    assert np.array(flags(tmp_path)["odd"]).tolist() == [False, False, True]
    refused(veilflow(*QUERY, "--force"), "the stream is over", code=1)


def test_a_moved_folder_still_counts_and_a_lost_journal_stops_all(
    in_json, veilflow, records, tmp_path
):
    (tmp_path / "other").mkdir()
    refused(veilflow(*COUNTED, "--journal", "other/j"), "must lie in the folder of --out")
    assert not list((tmp_path / "other").iterdir())
    in_json(*COUNTED)
    for name in ("e.private", "e.private.journal"):
        (tmp_path / name).rename(tmp_path / "other" / name)
    ask = ("detect", "query", "other/e.private", "rows.csv", "--out", "flags.csv")
    assert in_json(*ask)["queries_left"] == 0
    (tmp_path / "other/e.private.journal").rename(tmp_path / "elsewhere")
    refused(veilflow(*ask, "--force"), "not where it was, beside the file", code=1)
    assert not (tmp_path / "other/e.private.journal").exists()


@pytest.mark.parametrize("kind", ["ensemble", "private threshold"])
def test_a_dry_run_prints_the_plan_and_does_nothing(
    kind, in_json, veilflow, model, records, tmp_path
):
    private = (*FIT, "--private", "data.csv", "--epsilon", 2)
    words = (*(COUNTED if kind == "ensemble" else private), "--dry-run")
    before = {path.name for path in tmp_path.iterdir()}
    told, said = in_json(*words), veilflow(*words).stdout
    assert {path.name for path in tmp_path.iterdir()} == before
    detector = vf.LikelihoodDetector(vf.load(tmp_path / "m.veil"))
    plan = detector.plan_private(vf.Budget(2.0, 0.0))
    if kind == "ensemble":
        estimator = vf.EnsembleDetector(
            budget=vf.Budget(200.0, 0.0),
            answers=vf.Answering(max_queries=8),
            bounds=([-4, -4], [4, 4]),
            parts=4,
            flow="mixture",
            num_components=1,
            seed=0,
        )
        plan = estimator.plan()
    assert told["plan"] == json.loads(json.dumps(plain(plan)))
    assert told["guarantee"] == plan.guarantee.to_json()
    assert said.startswith("nothing was spent")
    assert plan.releases[0].purpose in said


def test_a_dry_run_or_a_checkpoint_of_what_is_free_is_refused(veilflow, model):
    for flag in (("--dry-run",), ("--checkpoint", "run")):
        refused(veilflow(*FIT, *flag), f"{flag[0]} is for rows that are paid for")


def test_an_interrupted_fit_goes_on_from_its_checkpoint(veilflow, records, tmp_path, monkeypatch):
    words = (*COUNTED, "--checkpoint", "run")

    def killed(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Run, "finish", killed)
        assert veilflow(*words).exit_code == 130
    # the ensemble is saved, and may have begun to answer
    assert vf.load(tmp_path / "e.private").queries_left == 8
    assert (tmp_path / "run").exists()
    with monkeypatch.context() as patch:
        patch.setattr(Answers, "run", killed)  # parts are not trained again
        assert veilflow(*words, "--force").exit_code == 0
    assert not (tmp_path / "run").exists()
    assert vf.load(tmp_path / "e.private").queries_left == 8


def test_a_journal_of_another_ensemble_stays_as_it_was(veilflow, records, tmp_path):
    assert veilflow(*COUNTED).exit_code == 0
    journal = tmp_path / "e.private.journal"
    before = journal.read_bytes()
    done = veilflow(*COUNTED, "--force")
    assert done.exit_code != 0
    assert "counts what another ensemble spent" in done.stderr
    assert journal.read_bytes() == before
    assert vf.load(tmp_path / "e.private").queries_left == 8


def test_steps_are_those_of_flows(veilflow, in_json, records, tmp_path):
    flows = (*ENSEMBLE[:-1], "flow", "--parts", 4, *COUNTED[-4:], "--out", "e.private")
    in_json(*flows, "--steps", 2)
    assert vf.load(tmp_path / "e.private").answers.settings.steps == 2
    refused(veilflow(*COUNTED, "--steps", 2, "--force"), r"training \(steps\) is not used")


def test_a_policy_and_a_ledger_hear_of_all_answers_at_the_fit(in_json, veilflow, records, tmp_path):
    ledger = ("--data-ledger", "spent.ledger", "--dataset", "people")
    in_json(*COUNTED, *ledger)
    (total,) = in_json("spending", "spent.ledger", "--delta", 0)["datasets"]
    assert total["guarantee"]["epsilon"] == pytest.approx(200, rel=1e-3)
