"""What a curator trips over: each was once silent, a traceback, or no help."""

import json

import numpy as np
import pandas as pd
import pytest

import veilflow as vf
from tests.models.table import small
from veilflow.tabular import decode, encode


@pytest.fixture
def table(veilflow, tmp_path):
    small.frame(60).to_csv(tmp_path / "t.csv", index=False)
    small.SCHEMA.to_file(tmp_path / "s.toml")
    return ("fit", "table", "t.csv", "--schema", "s.toml", "--epsilon", 1, "--out", "m.veil")


def test_an_error_is_an_object_in_json_with_the_same_exit_code(veilflow, table):
    for words, kind in (
        (("inspect", "none.veil"), "file"),
        ((*table, "--delta", 2), "usage"),
        (
            ("fit", "table", "t.csv", "--schema", "draft.toml", *table[5:], "--delta", 1e-6),
            "privacy",
        ),
    ):
        veilflow("schema", "t.csv", "--out", "draft.toml")
        plain, done = veilflow(*words), veilflow(*words, "--json")
        assert done.exit_code == plain.exit_code > 0
        found = json.loads(done.stdout)
        assert found["kind"] == kind
        assert found["error"] in plain.stderr
        assert plain.stdout == ""


@pytest.mark.filterwarnings("always")
def test_a_weak_delta_and_few_records_are_told_by_a_dry_run(veilflow, table):
    dry = (*table, "--dry-run", "--steps", 20)
    done = veilflow(*dry, "--delta", 1e-2, "--num-records", 1000)
    assert "delta=0.01 is not below 1/1000" in done.stderr
    done = veilflow(*dry, "--delta", 1e-5, "--num-records", 60)
    assert "60 records are few for this budget" in done.stderr
    done = veilflow(*dry, "--delta", 1e-7, "--num-records", 50_000)
    assert "few" not in done.stderr


@pytest.mark.parametrize("exists", [True, False])
def test_an_interrupt_says_what_is_kept(exists, veilflow, table, tmp_path, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(vf.TableFlow, "plan", interrupted)
    done = veilflow(*table, "--delta", 1e-5)
    assert done.exit_code == 130
    assert "With --checkpoint FILE, a fit can be resumed" in done.stderr
    if exists:
        (tmp_path / "c").write_text("")
    done = veilflow(*table, "--delta", 1e-5, "--checkpoint", "c")
    assert ("resumes from c" in done.stderr) is exists


def test_polars_that_is_not_installed_is_named(monkeypatch):
    rows = encode(small.frame(5), small.SCHEMA, vocabularies={"city": ()}, invalid="replace")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ImportError, match="needs polars, which is not installed"):
        decode(rows, small.SCHEMA, vocabularies={"city": ()}, like="polars")


def test_a_plan_is_read_by_people(table):
    plan = vf.TableFlow(schema=small.SCHEMA, budget=vf.Budget(1.0, 1e-6)).plan()
    assert repr(plan) == str(plan)
    assert repr(plan).startswith("plan of TableFlow")


def test_huge_numbers_are_moved_to_the_declared_bounds_without_a_warning():
    frame = pd.DataFrame({"x": [1e300, -1e300, 5.0]})
    declared = vf.Schema(x=vf.Numeric(0, 10))
    found = decode(encode(frame, declared), declared)  # warnings are errors
    assert found["x"].tolist() == pytest.approx([10, 0, 5])


def test_bounds_may_be_huge():
    rows = small.frame(200)
    rows.loc[3, "gain"] = 1e300
    wide = small.SCHEMA.with_columns({"gain": vf.Numeric(-50, 1e300)})
    with small.quick():  # warnings are errors
        model = small.estimator(schema=wide).fit(rows, progress=False)
        assert np.isfinite(model.sample(50, seed=1)["gain"]).all()


def test_a_report_makes_the_folders_above_it(veilflow, model, tmp_path):
    done = veilflow("report", model, "--out", "rep/a/card")
    assert done.exit_code == 0, done.stderr
    assert (tmp_path / "rep/a/card/card.html").is_file()
    (tmp_path / "file").write_text("")
    refused = veilflow("report", model, "--out", "file/card")
    assert refused.exit_code == 2
    assert "cannot be created in" in refused.stderr


def test_nothing_discovered_is_told():
    rows = small.frame()
    rows["city"] = [f"w{i}" for i in range(len(rows))]
    with (
        small.quick(),
        pytest.warns(UserWarning, match="nothing was discovered in the columns 'city'"),
    ):
        small.estimator().fit(rows, progress=False)


def test_a_dry_run_says_about_how_long_a_fit_takes(in_json, veilflow, table):
    dry = (*table, "--delta", 1e-7, "--num-records", 50_000, "--dry-run")
    assert "about" in veilflow(*dry).stdout
    short, long = (in_json(*dry, "--steps", steps)["about"] for steps in (100, 10_000))
    assert short["seconds"] < long["seconds"]


def test_a_long_fit_says_so_before_it_starts(veilflow, table, monkeypatch):
    """A wide table takes long, and nobody should wait for it unawares."""

    def stopped(*_, **__):
        raise ValueError("it has begun.")

    monkeypatch.setattr(vf.TableFlow, "fit", stopped)
    monkeypatch.setattr("veilflow.models.table.table_plan.TablePlan.takes", lambda _: (3600.0, 4.0))
    told = veilflow(*table, "--delta", 1e-7, "--num-records", 50_000).stderr
    assert told.index("about 60 minutes on two cores, and 4 GB") < told.index("it has begun")
