"""Finished runs once more: which are taken, and what is said of their numbers."""

import math

import pytest
from reproductions.again import again, difference, main
from reproductions.dp_nf import RUN, runs
from reproductions.dp_nf import SYSTEM as system

QUICK = {"only": ["moons/1.5/flow", "moons/1.5/mixture-3"], "splits": 2}


@pytest.fixture
def finished(at_home, quick, monkeypatch):
    """Two runs of each of two methods by older code; of all, the second flow was the quickest."""
    perform = runs.perform

    def timed(task):
        done = perform(task)
        seconds = 1.0 if (task.method, task.split) == ("flow", 2) else 2.0
        return runs.Finished(done.result, done.arrays, seconds)

    monkeypatch.setattr(runs, "perform", timed)
    system.reproduce(say=lambda line: None, **QUICK)
    monkeypatch.setattr("reproductions.system.System.code", lambda self, kind: "newer")
    quick.clear()
    return quick


def told(**settings):
    lines: list[str] = []
    return again(system, say=lines.append, **settings), lines


def shifted(monkeypatch, by):
    """Let runs give other numbers, by what a function says of each in turn."""
    perform = runs.perform

    def other(task):
        done = perform(task)
        mean = done.result["log_likelihood"]["mean"] * (1 + by())
        found = {**done.result["log_likelihood"], "mean": mean}
        return runs.Finished({**done.result, "log_likelihood": found}, {}, done.seconds)

    monkeypatch.setattr(runs, "perform", other)


def test_the_quickest_run_is_made_again_and_nothing_is_written(finished, at_home):
    before = {path: path.read_bytes() for path in at_home.rglob("*.json")}
    assert told() == (True, [f"dp-nf, {RUN}, moons-flow-1.5-2: equal to the last bit"])
    assert [call[1] for call in finished] == ["flow"]
    assert {path: path.read_bytes() for path in at_home.rglob("*.json")} == before


def test_other_numbers_are_told_and_the_command_fails(finished, monkeypatch, capsys):
    shifted(monkeypatch, lambda: 1e-3)
    same, (line,) = told()
    assert not same
    assert line.endswith("moons-flow-1.5-2: differs by 1.0e-03 at log_likelihood.mean")
    assert main(["dp-nf"]) == 1
    assert line in capsys.readouterr().out


def test_a_run_that_never_repeats_tells_nothing(finished, monkeypatch):
    shifts = iter([1e-3, 2e-3])
    shifted(monkeypatch, lambda: next(shifts))
    same, (line,) = told()
    assert same
    assert line.endswith("and from itself by 1.0e-03: tells nothing")


def test_in_the_place_of_a_run_that_never_repeats_one_without_privacy_is_taken(
    finished, monkeypatch
):
    system.reproduce(only=["lifesci/inf/flow"], splits=1, say=lambda line: None)
    perform, shifts = runs.perform, iter([1e-3, 2e-3])
    shifted(monkeypatch, lambda: next(shifts))
    noisy = runs.perform
    monkeypatch.setattr(
        runs, "perform", lambda task: (perform if task.epsilon == math.inf else noisy)(task)
    )
    same, lines = told()
    assert same
    assert lines[1:] == [f"dp-nf, {RUN}, lifesci-flow-inf-1: equal to the last bit"]


def test_a_run_that_fails_is_no_equal_one(finished, monkeypatch):
    monkeypatch.setattr(runs, "perform", lambda task: 1 / 0)
    same, (line,) = told()
    assert not same
    assert "failed: ZeroDivisionError" in line


def test_what_took_long_or_ran_elsewhere_is_left_out(finished, monkeypatch):
    same, (line,) = told(seconds=0.5)
    assert same
    assert line.endswith("left out, it took 1 s")
    monkeypatch.setattr("reproductions.again.machine", lambda: "another")
    assert told() == (True, [f"dp-nf, {RUN}: no finished run of this machine"])
    assert finished == []


@pytest.mark.parametrize(
    ("old", "new", "size", "where"),
    [
        ({"a": 1.0, "b": [1, 2]}, {"a": 1.0, "b": [1, 4]}, 0.5, "b[1]"),
        ({"a": 0.0, "fit_seconds": 1.0}, {"a": 0.0, "fit_seconds": 9.0}, 0.0, "a"),
        ({"a": {"b": None}}, {"a": {"b": 1.0}}, math.inf, "a.b"),
        ({"a": "x"}, {"a": "y"}, math.inf, "a"),
        ({"a": 1}, {"a": 1, "b": 2}, math.inf, ""),
        ([1], [1, 2], math.inf, ""),
        ({}, {}, 0.0, ""),
    ],
)
def test_differences_are_relative_and_leave_out_what_a_clock_tells(old, new, size, where):
    assert difference(old, new) == (size, where)
