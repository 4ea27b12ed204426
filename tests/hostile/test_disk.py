"""A disk that is full, folders that may not be written, clocks that jump."""

import contextlib
import errno
import os
import resource
import time

import numpy as np
import pytest

import veilflow as vf
from tests.engine import test_checkpoint as runs
from tests.hostile import seeds
from tests.hostile.victims import artifacts
from veilflow._core import store
from veilflow.engine import Flat, Secret, TrainingPlan
from veilflow.engine.checkpoint import Checkpoint
from veilflow.models import artifact
from veilflow.models.detect.counter import InFile
from veilflow.privacy.dataset_ledger import DatasetLedger
from veilflow.privacy.guarantees import Sensitive
from veilflow.tabular.io import write_rows

SMALL, LARGE = artifacts(10)[0], artifacts(50_000)[1]
PLAN = TrainingPlan(
    clipping=Flat(1.0), noise_multiplier=1.0, sampling_rate=0.5, expected_batch_size=4, steps=9
)


@contextlib.contextmanager
def room_for(size: int):
    """Files cannot grow beyond `size` bytes, as on a disk that is full then."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def full(*_, **__):
    raise OSError(errno.ENOSPC, "No space left on device")


def in_folder(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("size", [0, 100, 5_000])
def test_a_full_disk_leaves_the_old_model_and_no_litter(size, tmp_path):
    path = tmp_path / "m.veil"
    artifact.save(SMALL, path)
    before = path.read_bytes()
    with room_for(size), pytest.raises(OSError):
        artifact.save(LARGE, path)
    assert path.read_bytes() == before
    assert artifact.read(path).model == SMALL.model
    assert in_folder(tmp_path) == ["m.veil"]


@pytest.mark.parametrize("call", ["fsync", "replace", "open"])
def test_a_disk_that_fails_at_any_call_leaves_the_old_file(call, tmp_path, monkeypatch):
    path = tmp_path / "schema.toml"
    store.write_atomic(path, b"old")
    with monkeypatch.context() as patch:
        patch.setattr(os, call, full)
        with pytest.raises(OSError, match="No space"):
            seeds.SCHEMA.to_file(path)
    assert path.read_bytes() == b"old"
    assert in_folder(tmp_path) == ["schema.toml"]


@pytest.mark.parametrize("name", ["rows.csv", "rows.parquet", "rows.arrow", "rows.npz"])
def test_rows_on_a_full_disk_are_whole_or_not_there(name, tmp_path):
    rows = np.random.default_rng(0).uniform(size=(3000, 3))
    with room_for(4096), pytest.raises(OSError):
        write_rows(rows, tmp_path / name)
    assert in_folder(tmp_path) == []


@pytest.mark.parametrize("size", [0, 60, 300])
def test_a_checkpoint_on_a_full_disk_leaves_the_last_whole_one(size, tmp_path):
    secret, file = Secret.from_seed(1), Checkpoint(tmp_path / "run")
    file.begin(secret, {}, records=Sensitive(np.ones((3, 2)), description="x"))
    file.save({"w": np.ones(3, np.float32)}, 4, plan=PLAN, secret=secret)
    with room_for(size), pytest.raises(OSError):
        file.save({"w": np.zeros(3000, np.float32)}, 5, plan=PLAN, secret=secret)
    saved = Checkpoint(tmp_path / "run").read()
    assert saved is not None
    assert saved.step == 4
    # half of a secret is a secret: only its owner may read it, and the next write removes it
    for path in tmp_path.iterdir():
        assert path.stat().st_mode & 0o077 == 0
    file.save({"w": np.zeros(3, np.float32)}, 5, plan=PLAN, secret=secret)
    assert in_folder(tmp_path) == ["run"]


# none, a part of what is needed to undo an append, and all of that but not of the append itself
ROOM = pytest.mark.parametrize("size", [0, 100, 512, 600, 4096, 5000, 8192])


@ROOM
def test_a_fit_does_not_begin_if_its_spending_cannot_be_written(size, tmp_path):
    one = DatasetLedger(tmp_path / "spending")
    for _ in range(8):
        one.reserve(seeds.ledger(), dataset="people", delta=1e-6)
    before = one.path.read_bytes()
    assert len(before) > 8192
    with room_for(size), pytest.raises(OSError):
        one.reserve(seeds.ledger(), dataset="people", delta=1e-6)
    assert one.path.read_bytes() == before
    assert in_folder(tmp_path) == ["spending"]
    assert len(one.entries()) == 8


@ROOM
def test_no_answer_without_room_to_write_it_down(size, tmp_path):
    one = InFile.create(tmp_path / "journal")
    one.spend(3, limit=10)
    before = one.path.read_bytes()
    with room_for(size), pytest.raises(OSError):
        one.spend(1, limit=10)
    assert one.path.read_bytes() == before
    assert in_folder(tmp_path) == ["journal"]
    again = InFile(one.path, id=one.id)
    assert again.spent() == one.spent() == 3  # nothing was answered
    again.spend(1, limit=10)
    assert one.spent() == 4


@ROOM
def test_a_journal_on_a_full_disk_is_not_begun(size, tmp_path):
    room = min(size, 5000)  # all of it takes 8192 bytes
    with room_for(room), pytest.raises(OSError):
        InFile.create(tmp_path / "journal")
    assert in_folder(tmp_path) == []
    one = DatasetLedger(tmp_path / "spending")
    with room_for(room), pytest.raises(OSError):
        one.reserve(seeds.ledger(), dataset="people", delta=1e-6)
    assert one.entries() == ()
    one.reserve(seeds.ledger(), dataset="people", delta=1e-6)
    assert len(one.entries()) == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written_is_an_error_and_stays_as_it_is(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    artifact.save(SMALL, folder / "m.veil")
    folder.chmod(0o500)
    writes = [
        lambda: artifact.save(LARGE, folder / "m.veil"),
        lambda: artifact.save(LARGE, folder / "new.veil"),
        lambda: DatasetLedger(folder / "s").reserve(seeds.ledger(), dataset="x", delta=1e-6),
        lambda: InFile.create(folder / "journal"),
        lambda: seeds.SCHEMA.to_file(folder / "schema.toml"),
    ]
    try:
        for write in writes:
            with pytest.raises(PermissionError):
                write()
        assert in_folder(folder) == ["m.veil"]
        assert artifact.read(folder / "m.veil").model == SMALL.model
    finally:
        folder.chmod(0o700)


def test_a_clock_that_jumps_changes_nothing(tmp_path, monkeypatch):
    undisturbed = runs.run(tmp_path / "before")
    artifact.save(SMALL, tmp_path / "before.veil")
    jumps = np.random.default_rng(0)
    # back, ahead, before the epoch: zip files have no such years
    monkeypatch.setattr(time, "time", lambda: float(jumps.choice([-1e9, 0.0, 4e9, 1e12])))
    monkeypatch.setattr(time, "localtime", lambda *_: time.gmtime(0))
    np.testing.assert_array_equal(runs.run(tmp_path / "after"), undisturbed)
    artifact.save(SMALL, tmp_path / "after.veil")
    assert (tmp_path / "after.veil").read_bytes() == (tmp_path / "before.veil").read_bytes()
    one = DatasetLedger(tmp_path / "spending")
    one.spent(one.reserve(seeds.ledger(), dataset="x", delta=1e-6), seeds.ledger())
    assert [entry.state for entry in one.entries()] == ["spent"]
    counter = InFile.create(tmp_path / "journal")
    counter.spend(2, limit=3)
    assert counter.spent() == 2
    with pytest.raises(vf.BudgetError):
        counter.spend(2, limit=3)
