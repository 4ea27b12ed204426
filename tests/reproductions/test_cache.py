"""Finished runs: kept whole, found again by their settings, never taken for others."""

import json

import numpy as np
import pytest
from reproductions.cache import Cache

from reproductions import cache

SETTINGS = {"data": "moons", "epsilon": 1.5, "split": 1}
ARRAYS = {"grid": np.arange(6.0).reshape(2, 3)}


@pytest.fixture
def store(tmp_path):
    return Cache(folder=tmp_path / "runs", code="a")


def kept(store, **changed):
    settings = {**SETTINGS, **changed}
    store.store("moons-1", settings, {"mean": -1.5}, seconds=2.0, arrays=ARRAYS)


def test_a_finished_run_is_found_with_all_it_had(store):
    assert store.find("moons-1", SETTINGS) is None
    kept(store)
    found = store.find("moons-1", SETTINGS)
    assert found.result == {"mean": -1.5}
    assert found.settings == SETTINGS
    assert found.seconds == 2.0
    assert found.code == "a"
    assert "cores" in found.device
    np.testing.assert_array_equal(found.arrays["grid"], ARRAYS["grid"])


def test_a_run_of_other_settings_is_another_run(store):
    kept(store)
    assert store.find("moons-1", {**SETTINGS, "epsilon": 1.6}) is None
    kept(store, epsilon=1.6)
    assert len(list(store.folder.glob("*.json"))) == 2


def test_a_run_of_other_code_is_not_taken_unless_asked_for(store):
    kept(store)
    newer = Cache(folder=store.folder, code="b")
    assert newer.find("moons-1", SETTINGS) is None
    assert newer.stale("moons-1", SETTINGS)
    lenient = Cache(folder=store.folder, code="b", any_code=True)
    assert lenient.find("moons-1", SETTINGS).result == {"mean": -1.5}
    kept(newer)
    assert newer.find("moons-1", SETTINGS) is not None


def test_a_run_that_was_interrupted_is_a_run_that_never_was(store, monkeypatch):
    def interrupted(path, value):
        raise KeyboardInterrupt

    monkeypatch.setattr(cache, "write_json", interrupted)
    with pytest.raises(KeyboardInterrupt):
        kept(store)
    assert store.find("moons-1", SETTINGS) is None


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"code": "a"}'])
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


def test_a_run_of_this_code_on_a_machine_without_git_is_of_this_commit(store, monkeypatch):
    monkeypatch.setattr(cache, "commit", lambda *paths: "unknown")
    kept(store)
    monkeypatch.setattr(cache, "commit", lambda *paths: "abc1234")
    assert store.find("moons-1", SETTINGS).commit == "abc1234"
    other = Cache(folder=store.folder, code="b", any_code=True)
    assert other.find("moons-1", SETTINGS).commit == "unknown"
