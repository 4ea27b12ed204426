"""Runs side by side: what is packed of them, what is not started, and what comes back."""

import tarfile
import time

import pytest
from reproductions.cache import Cache
from reproductions.dp_lflow import batch
from reproductions.dp_lflow.runs import Task

from reproductions import records
from tests.reproductions import lflow_stand_in as stand_in

TASK = Task(data="mnist", method="flows", epsilon=10.0, split=1)


@pytest.fixture
def made(tmp_path, monkeypatch):
    """The folder of one finished run with its distances."""
    stand_in.take_over(monkeypatch)
    stand_in.measure_quickly(monkeypatch)
    stand_in.install_inception(monkeypatch)
    monkeypatch.setattr("reproductions.cache.commit", lambda *paths: "abc1234")
    lines, failures = batch._perform(TASK, tmp_path, time.time() + 60)
    assert failures == []
    assert len(lines) == 4  # the fit, features of test images, and two distances
    return tmp_path


def test_samples_stay_where_their_distance_was_measured(made):
    with tarfile.open(batch.pack(made)) as packed:
        names = packed.getnames()
    assert sum(name.endswith(".json") for name in names) == 4
    (arrays,) = (name for name in names if name.endswith(".npz"))
    batch.merge([made / batch.PACKED], folder=made / "other")
    found = Cache(made / "other" / "runs").find(TASK.name, TASK.settings)
    assert found is not None
    assert arrays.startswith(TASK.name)
    assert found.arrays.keys() == {"shown_raw", "shown_sharpened"}


def test_records_and_figures_follow_from_what_was_packed(made):
    batch.pack(made)
    batch.merge([made / batch.PACKED], folder=made / "other")
    kept = records.read(made / "other" / "results.json")
    measured = {record.metric for record in kept if record.splits}
    assert {"CNN %", "FID (Inception)"} <= measured
    drawn = {path.stem for path in (made / "other" / "figures").glob("*.png")}
    assert drawn == {"figure-2-mnist"}


def test_no_run_starts_once_the_time_is_over(tmp_path):
    lines, left = batch._perform(TASK, tmp_path, time.time() - 1)
    assert (lines, left) == ([], [f"not started: {TASK}"])
    assert not (tmp_path / "runs").exists()
