"""Checkpoints: a killed run ends as if nothing had happened, and nothing else can use its noise."""

import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from veilflow import nn
from veilflow._core.errors import ArtifactError, PrivacyError
from veilflow._core.keys import Secret
from veilflow.engine import AdaptiveQuantile, Checkpoint, Flat, TrainingPlan, train
from veilflow.privacy.guarantees import Sensitive

ROOT = Path(__file__).parent.parent.parent
ROWS = np.random.default_rng(1).normal(size=(200, 3)).astype(np.float32)
SEED = 11
STEPS = 1500


class Stopped(Exception):
    """Raised between blocks, in place of a crash."""


def make_plan(**changes) -> TrainingPlan:
    """Adam, an average and an adaptive clip norm: everything that has a state."""
    settings = {
        "clipping": AdaptiveQuantile(),
        "noise_multiplier": 1.0,
        "sampling_rate": 0.1,
        "expected_batch_size": 20.0,
        "steps": STEPS,
        "ema_decay": 0.9,
    }
    return TrainingPlan(**{**settings, **changes})


def make_model(size: int = 2) -> nn.Dense:
    return nn.Dense.create(size, 1, key=jax.random.key(0))


def loss_fn(model, row, key):
    noise = 0.1 * jax.random.normal(key, (2,))
    return (model(row[:2] + noise)[0] - row[2]) ** 2


def run(path, *, plan=None, rows=ROWS, model=None, seed=SEED, monitor=None) -> np.ndarray:
    checkpoint = None if path is None else Checkpoint(path, seconds=0)
    released = train(
        make_plan() if plan is None else plan,
        loss_fn,
        make_model() if model is None else model,
        Sensitive(rows),
        secret=Secret.from_seed(seed),
        checkpoint=checkpoint,
        monitor=monitor,
    )
    return np.concatenate([np.ravel(x) for x in jax.tree.leaves(released.value)])


def run_slowly(path: str, result: str) -> None:
    """What the process to be killed does."""
    parameters = run(path, monitor=lambda done: time.sleep(0.03))
    np.save(result, parameters)


def stop_after(steps: int):
    def monitor(done: int) -> None:
        if done > steps:
            raise Stopped

    return monitor


def start(path: Path, result: Path, cache: Path) -> subprocess.Popen:
    """A process that runs slowly; what an earlier one compiled it takes from the cache."""
    code = (
        "import sys; from tests.engine.test_checkpoint import run_slowly; run_slowly(*sys.argv[1:])"
    )
    environment = {
        **os.environ,
        "JAX_COMPILATION_CACHE_DIR": str(cache),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.2",
    }
    command = [sys.executable, "-c", code, str(path), str(result)]
    return subprocess.Popen(command, cwd=ROOT, env=environment)


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory) -> bytes:
    """The checkpoint of a run that was stopped on its way."""
    path = tmp_path_factory.mktemp("interrupted") / "run.checkpoint"
    with pytest.raises(Stopped):
        run(path, monitor=stop_after(10))
    return path.read_bytes()


@pytest.fixture
def path(interrupted: bytes, tmp_path: Path) -> Path:
    path = tmp_path / "run.checkpoint"
    path.write_bytes(interrupted)
    path.chmod(0o600)
    return path


@pytest.fixture(scope="module")
def undisturbed() -> np.ndarray:
    return run(None)


def test_a_run_killed_again_and_again_ends_with_the_parameters_of_an_undisturbed_one(
    tmp_path: Path, tmp_path_factory, undisturbed: np.ndarray
):
    cache = tmp_path_factory.mktemp("compiled")
    path, result = tmp_path / "run.checkpoint", tmp_path / "result.npy"
    moments = np.random.default_rng(0)
    reached = 0
    for _ in range(2):
        process = start(path, result, cache)
        try:
            deadline = time.monotonic() + 120
            step = reached
            while step <= reached:
                assert process.poll() is None, "the run ended before it was killed"
                assert time.monotonic() < deadline, "the run makes no progress"
                time.sleep(0.002)
                saved = Checkpoint(path).read()  # whole at every moment
                step = 0 if saved is None else saved.step
            time.sleep(moments.uniform(0, 0.1))
        finally:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
        saved = Checkpoint(path).read()
        assert saved is not None
        assert reached < saved.step < STEPS
        reached = saved.step
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert start(path, result, cache).wait(timeout=120) == 0
    np.testing.assert_array_equal(np.load(result), undisturbed)
    # what a kill may have left half written holds the secret: it is gone
    assert {file.name for file in tmp_path.iterdir()} == {"run.checkpoint", "result.npy"}


def test_writing_checkpoints_does_not_change_the_result(tmp_path: Path, undisturbed: np.ndarray):
    np.testing.assert_array_equal(run(tmp_path / "run.checkpoint"), undisturbed)


def test_a_run_that_goes_on_tells_its_monitor_where_it_starts(path: Path):
    heard: list[int] = []

    def stop_at_once(done: int) -> None:
        heard.append(done)
        raise Stopped

    saved = Checkpoint(path).read()
    assert saved is not None
    with pytest.raises(Stopped):
        run(path, monitor=stop_at_once)
    assert heard == [saved.step]
    assert saved.step > 0


def _one_value_changed() -> np.ndarray:
    rows = ROWS.copy()
    rows[150, 1] = np.nextafter(rows[150, 1], np.float32(9))
    return rows


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"rows": _one_value_changed()}, "set of records"),
        ({"rows": ROWS[:-1]}, "set of records"),
        ({"rows": ROWS[::-1]}, "set of records"),
        ({"plan": make_plan(noise_multiplier=2.0)}, "plan"),
        ({"plan": make_plan(steps=STEPS + 1)}, "plan"),
        ({"plan": make_plan(clipping=AdaptiveQuantile(initial=2.0))}, "plan"),
        ({"plan": make_plan(clipping=Flat(1.0))}, "plan"),
        ({"seed": SEED + 1}, "secret"),
    ],
    ids=["one value", "one row less", "order", "noise", "steps", "clip norm", "clipping", "secret"],
)
def test_a_checkpoint_refuses_what_would_reuse_its_noise_elsewhere(
    path: Path, interrupted: bytes, changes, what
):
    with pytest.raises(PrivacyError, match=rf"another {what}\. Going on would reuse"):
        run(path, **changes)
    assert path.read_bytes() == interrupted


@pytest.mark.parametrize(
    "model",
    [make_model(5), {"w": jnp.zeros(2)}, [make_model(), jnp.zeros(3)]],
    ids=["larger", "another", "with one array more"],
)
def test_a_checkpoint_refuses_another_model(path: Path, interrupted: bytes, model):
    with pytest.raises(ArtifactError, match=r"run\.checkpoint holds the state of another model"):
        run(path, model=model)
    assert path.read_bytes() == interrupted


def test_a_flipped_bit_anywhere_is_noticed(path: Path, interrupted: bytes):
    """In the arrays it would be an error, in the step or the secret a reuse of noise."""
    for place in range(len(interrupted)):
        damaged = bytearray(interrupted)
        damaged[place] ^= 1 << place % 8
        path.write_bytes(damaged)
        with pytest.raises(ArtifactError, match="not a usable checkpoint"):
            Checkpoint(path).read()
    assert path.read_bytes() == damaged


def test_a_file_cut_short_anywhere_is_noticed(path: Path, interrupted: bytes):
    for size in range(0, len(interrupted), 5):
        path.write_bytes(interrupted[:size])
        with pytest.raises(ArtifactError, match="not a usable checkpoint"):
            Checkpoint(path).read()
    path.write_bytes(interrupted + b"\0")
    with pytest.raises(ArtifactError):
        Checkpoint(path).read()


NOISE = np.random.default_rng(0).bytes(1000)


@pytest.mark.parametrize(
    "content",
    [b"", b"PK\x03\x04 a model", b"a,b\n1,2\n", bytes(1000), NOISE],
)
def test_a_foreign_file_is_refused_and_left_alone(tmp_path: Path, content: bytes):
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    with pytest.raises(
        ArtifactError, match=r"notes\.txt is not a usable checkpoint .* spends anew"
    ):
        run(path)
    assert path.read_bytes() == content
    assert [file.name for file in tmp_path.iterdir()] == ["notes.txt"]


def test_only_its_owner_can_read_a_checkpoint(tmp_path: Path):
    path = tmp_path / "run.checkpoint"
    before = os.umask(0)
    try:
        Checkpoint(path).begin(Secret.fresh(), {}, records=Sensitive(ROWS))
        path.chmod(0o644)
        Checkpoint(path).begin(Secret.fresh(), {}, records=Sensitive(ROWS))
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_what_is_read_is_what_was_written_and_shows_no_secret(tmp_path: Path):
    path, secret = tmp_path / "run.checkpoint", Secret.fresh()
    Checkpoint(path).begin(secret, {"facts": {"num_records": 5}}, records=Sensitive(ROWS))
    saved = Checkpoint(path).read()
    assert saved is not None
    assert saved.secret.reveal() == secret.reveal()
    assert not saved.secret.chosen
    assert (saved.step, saved.context) == (0, {"facts": {"num_records": 5}})
    assert secret.reveal().hex() not in repr(saved) + repr(Checkpoint(path))


def test_no_row_and_no_bare_hash_of_the_rows_is_in_a_checkpoint(interrupted: bytes):
    import hashlib

    assert ROWS[17].tobytes() not in interrupted
    for name in ("blake2b", "sha256", "md5"):
        digest = hashlib.new(name, ROWS.tobytes())
        assert digest.digest()[:8] not in interrupted
        assert digest.hexdigest()[:16].encode() not in interrupted


def test_delete_removes_the_file_and_half_a_write(path: Path, tmp_path: Path):
    (tmp_path / ".run.checkpoint.partial").write_bytes(b"half")
    checkpoint = Checkpoint(path)
    checkpoint.delete()
    assert list(tmp_path.iterdir()) == []
    checkpoint.delete()  # twice is once
    assert checkpoint.read() is None


def test_a_missing_folder_is_named(tmp_path: Path):
    with pytest.raises(FileNotFoundError, match=r"does not exist\. Create it first"):
        Checkpoint(tmp_path / "missing" / "run.checkpoint").begin(
            Secret.fresh(), {}, records=Sensitive(ROWS)
        )


def test_checkpoints_are_written_no_more_often_than_asked(tmp_path: Path):
    path, steps = tmp_path / "run.checkpoint", []

    def look(done: int) -> None:
        saved = Checkpoint(path).read()
        steps.append(0 if saved is None else saved.step)

    train(
        make_plan(steps=300),
        loss_fn,
        make_model(),
        Sensitive(ROWS),
        secret=Secret.from_seed(0),
        checkpoint=Checkpoint(path, seconds=3600),
        monitor=look,
    )
    assert set(steps) == {0}
    saved = Checkpoint(path).read()
    assert saved is not None
    assert saved.step == 300


def test_a_run_killed_before_its_first_step_goes_on_with_its_own_records_only(tmp_path: Path):
    path, secret = tmp_path / "begun", Secret.from_seed(SEED)
    Checkpoint(path).begin(secret, {}, records=Sensitive(ROWS))
    with pytest.raises(PrivacyError, match="belongs to another set of records"):
        run(path, rows=_one_value_changed(), plan=make_plan(steps=1))
    with pytest.raises(PrivacyError, match="belongs to another secret"):
        run(path, seed=SEED + 1, plan=make_plan(steps=1))
    run(path, plan=make_plan(steps=1))


def begun(path: Path) -> Checkpoint:
    """A checkpoint begun with the records that training makes its own of."""
    checkpoint = Checkpoint(path, seconds=0)
    checkpoint.begin(Secret.from_seed(SEED), {}, records=Sensitive(ROWS))
    return checkpoint


def on_doubled(checkpoint: Checkpoint, rows: np.ndarray = ROWS) -> None:
    """Training that sees its records through a map."""
    train(
        make_plan(steps=1),
        loss_fn,
        make_model(),
        Sensitive(2 * rows),
        secret=Secret.from_seed(SEED),
        checkpoint=checkpoint,
    )


def test_a_run_may_be_begun_with_records_that_training_sees_through_a_map(tmp_path: Path):
    path = tmp_path / "run"
    on_doubled(begun(path))
    later = Checkpoint(path)
    saved = later.read()
    assert saved is not None
    later.check_records(saved, Sensitive(ROWS))
    on_doubled(later)


def test_records_other_than_those_it_was_begun_with_are_refused_at_once(tmp_path: Path):
    path = tmp_path / "run"
    begun(path)
    later = Checkpoint(path)
    saved = later.read()
    assert saved is not None
    for others in (_one_value_changed(), ROWS[:-1], 2 * ROWS):
        with pytest.raises(PrivacyError, match="belongs to another set of records"):
            later.check_records(saved, Sensitive(others))


def test_a_word_for_the_records_is_good_for_the_life_of_a_checkpoint_and_for_no_other(
    tmp_path: Path,
):
    checkpoint = begun(tmp_path / "run")
    for _ in range(2):  # a run may train several models, each on what it makes of its records
        checkpoint.note({}, Secret.from_seed(SEED))
        on_doubled(checkpoint)
    with pytest.raises(PrivacyError, match="belongs to another set of records"):
        on_doubled(Checkpoint(tmp_path / "run"))  # nobody vouched for these


RELEASED = {
    "count": 5,
    "share": 0.25,
    "nothing": None,
    "word": "columns",
    "list": [1, "a", [np.arange(3.0)]],
    "map": {"mean": np.float32([1.5, -0.0]), "cells": np.zeros((2, 0, 3), np.int64)},
    "number": np.float64(2.5),
    "flag": np.array(True),
    "infinite": np.array([np.inf, -np.inf, np.nan]),
    "across": np.arange(6.0).reshape(2, 3).T,
}


def assert_same(one, two) -> None:
    if isinstance(one, np.ndarray | np.generic):
        assert np.shape(one) == np.shape(two)
        assert one.dtype == two.dtype
        np.testing.assert_array_equal(one, two)
    elif isinstance(one, dict):
        assert one.keys() == two.keys()
        for name in one:
            assert_same(one[name], two[name])
    elif isinstance(one, list):
        for a, b in zip(one, two, strict=True):
            assert_same(a, b)
    else:
        assert (one, type(one)) == (two, type(two))


def test_released_values_come_back_as_they_were(tmp_path: Path):
    path, secret = tmp_path / "run", Secret.fresh()
    checkpoint = Checkpoint(path)
    checkpoint.begin(secret, {"plan": "p"}, records=Sensitive(ROWS))
    checkpoint.note({"plan": "p", "released": RELEASED}, secret)
    for file in (Checkpoint(path), checkpoint):
        saved = file.read()
        assert saved is not None
        assert saved.context.keys() == {"plan", "released"}
        assert_same(RELEASED, saved.context["released"])
        assert_same(RELEASED, file.context["released"])
        assert saved.arrays == {}


def test_what_was_released_stays_while_a_training_keeps_its_state(tmp_path: Path):
    path, secret = tmp_path / "run", Secret.from_seed(SEED)
    checkpoint = Checkpoint(path, seconds=0)
    checkpoint.begin(secret, {"released": RELEASED}, records=Sensitive(ROWS))
    with pytest.raises(Stopped):
        train(
            make_plan(),
            loss_fn,
            make_model(),
            Sensitive(ROWS),
            secret=secret,
            checkpoint=checkpoint,
            monitor=stop_after(10),
        )
    saved = Checkpoint(path).read()
    assert saved is not None
    assert saved.step > 0
    assert len(saved.arrays) > 3
    assert_same(RELEASED, saved.context["released"])
    # the next release: of the training, its result is all that is left
    checkpoint.note({"released": {"training": [np.ones(2)]}}, secret)
    saved = Checkpoint(path).read()
    assert saved is not None
    assert (saved.step, saved.arrays) == (0, {})
    assert_same({"training": [np.ones(2)]}, saved.context["released"])


def test_no_records_have_a_checkpoint_like_any(tmp_path: Path):
    path = tmp_path / "run"
    with pytest.raises(Stopped):
        run(path, rows=ROWS[:0], monitor=stop_after(3))
    np.testing.assert_array_equal(run(path, rows=ROWS[:0]), run(None, rows=ROWS[:0]))
    with pytest.raises(PrivacyError, match="set of records"):
        run(path, rows=ROWS[:1])


def test_a_checkpoint_that_others_can_write_is_not_trusted(path: Path):
    path.chmod(0o666)
    with pytest.raises(PrivacyError, match="its secret may be known"):
        run(path)
