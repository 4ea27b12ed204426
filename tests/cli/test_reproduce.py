import json
import sys

import pytest

from tests.reproductions import stand_in
from veilflow.cli import reproduce

LOOK = ("reproduce", "dp-nf", "--splits", 1, "--only", "moons/1.5", "--out", "out")


@pytest.fixture
def calls(monkeypatch):
    """Tiny rows and stand-ins for the models; returns what was built."""
    return stand_in.take_over(monkeypatch)


@pytest.fixture
def measured(veilflow, calls):
    done = veilflow(*LOOK)
    assert done.exit_code == 0, done.stderr
    return done


def test_it_prints_the_papers_number_beside_ours_and_keeps_the_runs(measured, tmp_path):
    assert "-2.23" in measured.stdout
    assert "Half-Moons, 1.5" in measured.stdout
    assert "split 1: log-likelihood" in measured.stderr
    assert len(list((tmp_path / "out" / "runs").glob("*.json"))) == 3
    assert (tmp_path / "out" / "results.json").exists()


def test_with_json_it_prints_one_object(in_json, measured):
    found = in_json(*LOOK)
    assert found["system"] == "dp-nf"
    assert found["failures"] == []
    assert [record["row"] for record in found["records"]] == ["DP-NF", "private grid", "DP-MoG_3"]
    assert any("Life Science" in key for key in found["missing"])


def test_paper_accounting_prints_every_claim_with_its_label(veilflow, measured):
    done = veilflow(*LOOK, "--paper-accounting")
    claims = [line for line in done.stdout.splitlines() if ": epsilon" in line]
    assert len(claims) == 3 * 5
    assert any("by MA, fixed size (as the paper computed it)" in line for line in claims)
    assert all("not a bound" in line for line in claims if "GDP" in line)


def test_check_runs_nothing_prints_what_misses_and_exits_1(veilflow, measured, calls, tmp_path):
    before = len(calls)
    done = veilflow("reproduce", "dp-nf", "--check", "--out", "out")
    assert done.exit_code == 1
    assert "Life Science, 0.5" in done.stdout  # not run, so not shown to be met
    assert "DP-MoG_3" not in done.stdout
    assert len(calls) == before
    path = tmp_path / "out" / "results.json"
    items = [{**item, "must": None} for item in json.loads(path.read_text("utf-8"))]
    path.write_text(json.dumps(items), "utf-8")
    done = veilflow("reproduce", "dp-nf", "--check", "--out", "out")
    assert done.exit_code == 0
    assert done.stdout == "no record misses what it must reach\n"


@pytest.mark.parametrize("flag", ["--check", "--page", "--draw"])
def test_without_results_there_is_nothing_to_check_or_to_write(flag, veilflow):
    done = veilflow("reproduce", "dp-nf", flag, "--out", "nowhere")
    assert done.exit_code == 1
    assert done.stderr == "error: no results yet: run veilflow reproduce dp-nf first.\n"


def test_the_page_is_written_again_from_the_results(veilflow, measured, monkeypatch, tmp_path):
    stand_in.move_home(monkeypatch, tmp_path)
    done = veilflow("reproduce", "dp-nf", "--page", "--out", "out")
    assert done.exit_code == 0, done.stderr
    assert "# DP-NF" in (tmp_path / "dp-nf.md").read_text("utf-8")


def test_figures_are_drawn_from_what_is_there_and_nothing_is_run(
    veilflow, measured, calls, monkeypatch, tmp_path
):
    stand_in.move_home(monkeypatch, tmp_path)
    (tmp_path / "out").rename(tmp_path / "dp-nf")
    before = len(calls)
    done = veilflow("reproduce", "dp-nf", "--draw")
    assert done.exit_code == 0, done.stderr
    assert len(calls) == before
    assert "figure-3 is not drawn: " in done.stderr
    drawn = {path.name for path in (tmp_path / "dp-nf" / "figures").iterdir()}
    assert "figure-9.png" in drawn
    assert "figure-3.png" not in drawn
    assert "figures/figure-9.png" in (tmp_path / "dp-nf.md").read_text("utf-8")


def test_a_run_that_fails_makes_the_command_fail(veilflow, calls, monkeypatch):
    from reproductions.dp_nf import runs

    monkeypatch.setattr(runs, "perform", lambda task: 1 / 0)
    done = veilflow(*LOOK)
    assert done.exit_code == 1
    assert "failed: Half-Moons, flow, epsilon 1.5, split 1: ZeroDivisionError" in done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("dp-xx",), "system must be one of dp-nf"),
        (("dp-nf", "--table", 3), "the tables are 1, 2, 4, 5"),
        (("dp-nf", "--only", "mars"), "data set of lifesci"),
        (("dp-nf", "--small"), "dp-nf has no --small"),
        (("dp-hflow", "--fid"), "dp-hflow has no --fid"),
        (("dp-lflow", "--small", "--table", 1), "small is a table of its own"),
    ],
)
def test_what_there_is_not_is_one_line_on_standard_error(words, message, veilflow):
    done = veilflow("reproduce", *words)
    assert done.exit_code == 2
    assert done.stdout == ""
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_an_installed_package_without_the_reproductions_says_what_to_do(
    veilflow, monkeypatch, tmp_path
):
    installed = tmp_path / "lib" / "python3" / "site" / "veilflow" / "cli" / "reproduce.py"
    monkeypatch.setattr(reproduce, "__file__", str(installed))
    done = veilflow("reproduce", "dp-nf")
    assert done.exit_code == 1
    assert "in a checkout of its repository" in done.stderr
    assert done.stderr.count("\n") == 1


def test_the_current_folder_is_looked_at_too(veilflow, monkeypatch, tmp_path):
    (tmp_path / "reproductions").mkdir()
    (tmp_path / "reproductions" / "__init__.py").write_text(
        "def get(system):\n    raise ValueError(f'found {system}')\n"
    )
    monkeypatch.setattr(reproduce, "__file__", str(tmp_path / "a" / "b" / "c" / "d" / "e.py"))
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "reproductions", raising=False)
    done = veilflow("reproduce", "dp-nf")
    monkeypatch.delitem(sys.modules, "reproductions", raising=False)
    assert done.stderr == "error: found dp-nf\n"
