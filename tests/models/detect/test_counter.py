"""The count of answers: what was spent is never forgotten, and never spent twice."""

import contextlib
import copy
import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import veilflow as vf
from tests import journals
from veilflow._core import journal as journal_module
from veilflow.models.detect.counter import InFile, InMemory

SPENDER = """
import sys
from veilflow.models.detect.counter import InFile
from veilflow._core.errors import BudgetError
counter = InFile(sys.argv[1], id=sys.argv[2])
print("ready", flush=True)
sys.stdin.readline()
try:
    while True:
        counter.spend(int(sys.argv[4]), limit=int(sys.argv[3]))
        print("answer", flush=True)
except BudgetError:
    pass
"""


@pytest.fixture
def counter(tmp_path: Path) -> InFile:
    return InFile.create(tmp_path / "queries.journal")


def spender(counter: InFile, *, limit: int, at_once: int = 1) -> subprocess.Popen:
    command = [sys.executable, "-c", SPENDER, str(counter.path), counter.id, str(limit)]
    process = subprocess.Popen(
        [*command, str(at_once)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def again(counter: InFile) -> InFile:
    """As another process would open it."""
    return InFile(counter.path, id=counter.id)


def refused(counter: InFile, match: str) -> None:
    for ask in (counter.spent, lambda: counter.spend(1, limit=9)):
        with pytest.raises(vf.PrivacyError, match=match):
            ask()


def test_what_was_spent_is_read_back_and_the_limit_holds(counter):
    assert counter.spent() == 0
    counter.spend(3, limit=5)
    assert counter.spent() == again(counter).spent() == 3
    with pytest.raises(vf.BudgetError, match="3 more would be spent, but 2 of 5 are left"):
        again(counter).spend(3, limit=5)
    assert counter.spent() == 3
    again(counter).spend(2, limit=5)
    with pytest.raises(vf.BudgetError, match="0 of 5 are left"):
        counter.spend(1, limit=5)
    assert again(counter).spent() == 5


def test_only_its_owner_can_read_it_and_none_is_overwritten(counter):
    assert counter.path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(FileExistsError, match="counts what another ensemble spent"):
        InFile.create(counter.path)


@pytest.mark.parametrize("size", [0, 1, 100, 4096, 8191])
def test_a_file_that_is_cut_short_is_refused(counter, size):
    counter.spend(3, limit=9)
    os.truncate(counter.path, size)
    refused(counter, "nothing may be spent|not a journal")
    refused(again(counter), "nothing may be spent|not a journal")
    assert counter.path.stat().st_size == size


@pytest.mark.parametrize("what", ["number", "body", "seal"])
def test_a_changed_entry_is_refused(counter, what):
    counter.spend(3, limit=9)
    value = {"number": "2", "body": "x'7B7D'", "seal": "x'00'"}[what]
    with contextlib.closing(sqlite3.connect(counter.path)) as db, db:
        db.execute("DROP TRIGGER unchanged")
        db.execute(f"UPDATE entries SET {what} = {value} WHERE number = 1")
        db.execute("DROP TRIGGER kept")
        for trigger in journal_module._SCHEMA[1:]:
            db.execute(trigger)
    refused(again(counter), "does not follow")


@pytest.mark.parametrize("body", [b"{}", b'{"spent": -1}', b'{"spent": true}', b'{"spent": 1.5}'])
def test_an_entry_that_is_no_count_is_refused(counter, body):
    title, *_ = journals.bodies(counter.path.read_bytes())
    counter.path.write_bytes(journals.forged([title, body]))
    refused(counter, "not a count")


def test_a_deleted_or_foreign_journal_is_refused(counter, tmp_path):
    counter.spend(3, limit=9)
    other = InFile.create(tmp_path / "other.journal")
    refused(InFile(other.path, id=counter.id), "of something else")
    older = tmp_path / "older.journal"
    older.write_bytes(b"veilflow journal 1 " + counter.id.encode() + b"\n")
    refused(InFile(older, id=counter.id), "not a journal of this version")
    counter.path.unlink()
    refused(counter, "is not where it was")
    assert not counter.path.exists()


def test_a_fit_that_was_killed_while_it_made_its_journal_finds_it_again(tmp_path):
    path = tmp_path / "journal"
    path.touch()  # a journal is made in two steps, and nothing is counted between them
    counter = InFile.create(path, id="mine")
    assert counter.spent() == 0
    counter.spend(2, limit=5)
    assert InFile.create(path, id="mine").spent() == 2
    with pytest.raises(FileExistsError, match="another ensemble"):
        InFile.create(path, id="theirs")
    path.write_bytes(b"no journal")
    with pytest.raises(FileExistsError, match="another ensemble"):
        InFile.create(path, id="mine")


def test_a_folder_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(OSError, match="No such file"):
        InFile.create(tmp_path / "nowhere" / "x.journal")


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write everywhere")
def test_a_read_only_folder_or_file_is_refused(counter, tmp_path):
    counter.path.chmod(0o400)
    with pytest.raises(PermissionError):
        counter.spend(1, limit=9)
    tmp_path.chmod(0o500)
    with pytest.raises(PermissionError):
        InFile.create(tmp_path / "x.journal")
    tmp_path.chmod(0o700)


@pytest.mark.parametrize("counted", ["file", "memory"])
def test_threads_do_not_overspend(counter, counted):
    shared = counter if counted == "file" else InMemory()
    answered = []

    def ask():
        try:
            while True:
                shared.spend(1, limit=40)
                answered.append(1)
        except vf.BudgetError:
            pass

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answered) == shared.spent() == 40


def test_processes_do_not_overspend(counter):
    processes = [spender(counter, limit=60) for _ in range(2)]
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    answered = [process.communicate(timeout=60)[0].count("answer") for process in processes]
    assert sum(answered) == counter.spent() == 60


def killed(counter: InFile, *, at_once: int, after: float) -> int:
    """How many answers a process gave before it was killed."""
    process = spender(counter, limit=10**6, at_once=at_once)
    process.stdin.write("go\n")
    process.stdin.flush()
    time.sleep(after)
    process.send_signal(signal.SIGKILL)
    return at_once * process.communicate(timeout=60)[0].count("answer")


@pytest.mark.parametrize(
    "times", [2, pytest.param(15, marks=pytest.mark.slow)], ids=["few", "many"]
)
def test_a_killed_process_forgets_nothing(counter, times):
    rng, answered = random.Random(0), 0
    for i in range(times):
        at_once = (1, 7)[i % 2]
        answered += killed(counter, at_once=at_once, after=rng.uniform(0.05, 0.25))
        spent = again(counter).spent()
        # what was under way when the kill came may be spent without an answer
        assert answered <= spent <= answered + 7 * (i + 1)
    assert answered > 0


def test_counters_are_not_copied(counter):
    for one in (counter, InMemory()):
        with pytest.raises(TypeError, match="not copied"):
            copy.copy(one)
