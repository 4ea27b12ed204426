"""Finished runs: kept whole, found again by their settings, never taken for others."""

import datetime
import json

import numpy as np
import pytest
from benchmarks import provenance
from reproductions.cache import Cache, Run
from reproductions.tasks import Finished

from reproductions import cache

SETTINGS = {"data": "moons", "epsilon": 1.5, "split": 1}
ARRAYS = {"grid": np.arange(6.0).reshape(2, 3)}


@pytest.fixture
def store(tmp_path):
    return Cache(tmp_path / "runs")


def kept(store, *, mean=-1.5, **changed):
    done = Finished({"mean": mean}, ARRAYS, seconds=2.0)
    return store.store("moons-1", Run.now({**SETTINGS, **changed}, done))


def test_a_finished_run_is_found_with_all_it_had(store):
    assert store.find("moons-1", SETTINGS) is None
    kept(store)
    found = store.find("moons-1", SETTINGS)
    assert found.result == {"mean": -1.5}
    assert found.settings == SETTINGS
    assert found.seconds == 2.0
    assert "cores" in found.device
    assert found.commit
    assert found.versions.keys() == {"jax", "numpy", "veilflow"}
    assert datetime.date.fromisoformat(found.date)
    np.testing.assert_array_equal(found.arrays["grid"], ARRAYS["grid"])


def test_a_run_of_other_settings_is_another_run(store):
    kept(store)
    assert store.find("moons-1", {**SETTINGS, "epsilon": 1.6}) is None
    kept(store, epsilon=1.6)
    assert len(list(store.folder.glob("*.json"))) == 2


def test_a_finished_run_is_never_changed(store, monkeypatch):
    assert kept(store)
    monkeypatch.setattr(cache, "commit", lambda *paths: "another")
    assert not kept(store, mean=0.0)
    found = store.find("moons-1", SETTINGS)
    assert found.result == {"mean": -1.5}
    assert found.commit != "another"


def test_what_an_older_run_did_not_record_is_not_made_up(store):
    kept(store)
    (path,) = store.folder.glob("*.json")
    stored = json.loads(path.read_text("utf-8"))
    del stored["versions"], stored["date"]
    path.write_text(json.dumps({**stored, "code": "a hash of older days"}), "utf-8")
    found = store.find("moons-1", SETTINGS)
    assert (found.versions, found.date) == (None, None)


def test_a_run_that_was_interrupted_is_a_run_that_never_was(store, monkeypatch):
    def interrupted(path, value):
        raise KeyboardInterrupt

    monkeypatch.setattr(cache, "write_json", interrupted)
    with pytest.raises(KeyboardInterrupt):
        kept(store)
    assert store.find("moons-1", SETTINGS) is None


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"settings": {}}'])
def test_a_damaged_run_is_named_with_the_way_out(store, text):
    kept(store)
    (path,) = store.folder.glob("*.json")
    path.write_text(text, "utf-8")
    with pytest.raises(ValueError, match=rf"{path.name} .* Delete it"):
        store.find("moons-1", SETTINGS)


def test_a_run_whose_settings_were_edited_is_refused(store):
    kept(store)
    (path,) = store.folder.glob("*.json")
    stored = json.loads(path.read_text("utf-8"))
    stored["settings"]["epsilon"] = 9
    path.write_text(json.dumps(stored), "utf-8")
    with pytest.raises(ValueError, match="settings are not those of its name"):
        store.find("moons-1", SETTINGS)


def test_a_copy_without_git_is_told_its_commit(monkeypatch):
    def no_git(command):
        raise FileNotFoundError("git")

    monkeypatch.setattr(provenance, "_output", no_git)
    assert provenance.commit("src") == "unknown"
    monkeypatch.setenv("VEILFLOW_COMMIT", "abc1234")
    assert provenance.commit("src") == "abc1234"
