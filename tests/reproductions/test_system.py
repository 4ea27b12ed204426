"""What holds for every system: how it is asked for, its page, and the names of its runs."""

import math
import runpy
import sys

import pytest
from reproductions.tasks import Budgeted, OfSeed, OfSplit

from reproductions import SYSTEMS, get
from reproductions import records as record_files
from reproductions import system as module


def test_every_system_says_how_many_splits_it_takes():
    splits = {"dp-nf": 10, "dp-hflow": 3, "dp-lflow": 1, "expm-nf": 10, "dp-nf-vi": 5, "anomaly": 3}
    assert {name: get(name).splits for name in SYSTEMS} == splits
    assert all(get(name).name == name for name in SYSTEMS)


@pytest.mark.parametrize("name", SYSTEMS)
def test_the_committed_page_is_what_the_committed_results_say(name):
    system, path = get(name), module.PAGES / f"{name}.md"
    results = system.out / "results.json"
    assert results.exists() == path.exists()
    if results.exists():
        assert path.read_text("utf-8") == system.page_text(system.out, record_files.read(results))


@pytest.mark.parametrize("name", SYSTEMS)
def test_runs_have_names_of_their_own_that_files_can_have_and_a_kind(name):
    system = get(name)
    tasks, _ = system.chosen(system.most_splits)
    names = [task.name for task in tasks]
    assert len(names) == len(set(names))
    assert not [text for text in names if set(text) & set(" /:,")]
    assert {system.kind_of(task) for task in tasks} <= set(system.kinds)


@pytest.mark.parametrize(
    ("name", "option"),
    [(s, o) for s in SYSTEMS for o in ("small", "fid") if not getattr(get(s), o)],
)
def test_an_option_that_a_system_does_not_have_is_refused(name, option, tmp_path):
    with pytest.raises(ValueError, match=f"{name} has no --{option}"):
        get(name).reproduce(out=tmp_path, small=option == "small", fid=option == "fid")


@pytest.mark.parametrize("command", ["again", "index", "probes"])
def test_commands_stand_beside_the_systems(command, monkeypatch):
    given = []
    monkeypatch.setattr(f"reproductions.{command}.main", lambda words: given.append(words) or 1)
    monkeypatch.setattr(sys, "argv", ["reproductions", command, "dp-nf", "--seed", "1"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("reproductions", run_name="__main__")
    assert ended.value.code == 1
    assert given == [["dp-nf", "--seed", "1"]]


class Seeded(OfSeed):
    delta = 1e-6


def test_names_and_settings_by_which_finished_runs_are_found():
    which = {"data": "time/moons", "method": "flow, trained", "epsilon": math.inf}
    assert Budgeted(**which).name == "time-moons-flow-trained-inf"
    assert OfSplit(**which, split=2).name == "time-moons-flow-trained-inf-2"
    assert OfSplit(**which, split=2).settings == {**which, "epsilon": "inf", "split": 2}
    seeded = Seeded(**{**which, "epsilon": 0.5}, split=2)
    assert seeded.settings == {**which, "epsilon": 0.5, "split": 2, "delta": 1e-6}
    assert str(seeded) == "time/moons, flow, trained, epsilon 0.5, seed 2"
