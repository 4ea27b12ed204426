"""The journal: what was spent is never forgotten, and never spent twice."""

import copy
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import veilflow as vf
from veilflow.models.detect.journal import InMemory, Journal

LINE = 32

SPENDER = """
import sys
from veilflow.models.detect.journal import Journal
from veilflow._core.errors import BudgetError
journal = Journal(sys.argv[1], id=sys.argv[2])
print("ready", flush=True)
sys.stdin.readline()
try:
    while True:
        journal.spend(int(sys.argv[4]), limit=int(sys.argv[3]))
        print("answer", flush=True)
except BudgetError:
    pass
"""


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal.create(tmp_path / "queries.journal")


def spender(journal: Journal, *, limit: int, at_once: int = 1) -> subprocess.Popen:
    command = [sys.executable, "-c", SPENDER, str(journal.path), journal.id, str(limit)]
    process = subprocess.Popen(
        [*command, str(at_once)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def again(journal: Journal) -> Journal:
    """As another process would open it."""
    return Journal(journal.path, id=journal.id)


def test_what_was_spent_is_read_back_and_the_limit_holds(journal):
    assert journal.spent() == 0
    journal.spend(3, limit=5)
    assert journal.spent() == again(journal).spent() == 3
    with pytest.raises(vf.BudgetError, match="3 more would be spent, but 2 of 5 are left"):
        again(journal).spend(3, limit=5)
    assert journal.spent() == 3
    again(journal).spend(2, limit=5)
    with pytest.raises(vf.BudgetError, match="0 of 5 are left"):
        journal.spend(1, limit=5)


def test_only_its_owner_can_read_it_and_none_is_overwritten(journal):
    assert journal.path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(FileExistsError, match="counts what another ensemble spent"):
        Journal.create(journal.path)


def test_lines_are_on_the_disk_before_spending_returns(journal, monkeypatch):
    flushed = []
    monkeypatch.setattr(os, "fsync", lambda file: flushed.append(os.fstat(file).st_size))
    journal.spend(2, limit=9)
    assert flushed == [journal.path.stat().st_size]


@pytest.mark.parametrize("kept", [1, 20, LINE - 1])
def test_a_torn_line_counts_as_spent(journal, kept):
    journal.spend(3, limit=9)
    os.truncate(journal.path, journal.path.stat().st_size - LINE + kept)
    other = again(journal)
    assert other.spent() == 3
    other.spend(1, limit=9)
    assert again(journal).spent() == journal.spent() == 4
    assert (journal.path.stat().st_size - 52) % LINE == 0  # mended: lines are whole again


def test_wherever_a_kill_cuts_the_file_what_is_there_counts(journal):
    journal.spend(3, limit=9)
    whole = journal.path.read_bytes()
    header = len(whole) - 3 * LINE
    for size in range(header, len(whole)):
        journal.path.write_bytes(whole[:size])
        assert again(journal).spent() == -(-(size - header) // LINE)
        again(journal).spend(1, limit=9)
        assert again(journal).spent() == -(-(size - header) // LINE) + 1


def test_a_tail_of_zeros_counts_as_the_lines_it_has_room_for(journal):
    journal.spend(2, limit=9)
    os.truncate(journal.path, journal.path.stat().st_size + 2 * LINE + 5)
    assert again(journal).spent() == 5
    again(journal).spend(1, limit=9)
    assert again(journal).spent() == 6


@pytest.mark.parametrize("place", [60, 75, 83, 84 + 5])
def test_a_changed_line_is_refused(journal, place):
    journal.spend(3, limit=9)
    data = bytearray(journal.path.read_bytes())
    data[place] ^= 1
    journal.path.write_bytes(data)
    for ask in (again(journal).spent, lambda: again(journal).spend(1, limit=9)):
        with pytest.raises(vf.PrivacyError, match="not written by veilflow"):
            ask()


def test_a_line_twice_or_out_of_order_is_refused(journal):
    journal.spend(2, limit=9)
    data = journal.path.read_bytes()
    journal.path.write_bytes(data + data[-LINE:])
    with pytest.raises(vf.PrivacyError, match="not written by veilflow"):
        again(journal).spent()


def test_a_deleted_shortened_or_foreign_journal_is_refused(journal, tmp_path):
    journal.spend(3, limit=9)
    other = Journal.create(tmp_path / "other.journal")
    with pytest.raises(vf.PrivacyError, match="not of this ensemble"):
        Journal(other.path, id=journal.id).spend(1, limit=9)
    os.truncate(journal.path, journal.path.stat().st_size - LINE)
    with pytest.raises(vf.PrivacyError, match="shorter than it was"):
        journal.spend(1, limit=9)
    journal.path.unlink()
    for ask in (journal.spent, lambda: journal.spend(1, limit=9)):
        with pytest.raises(vf.PrivacyError, match="is not where it was"):
            ask()
    assert not journal.path.exists()


def test_a_journal_replaced_while_waiting_for_its_lock_is_refused(journal, monkeypatch):
    import fcntl

    copied = journal.path.read_bytes()

    def replaced(file, how):
        journal.path.unlink()
        journal.path.write_bytes(copied)

    monkeypatch.setattr(fcntl, "flock", replaced)
    with pytest.raises(vf.PrivacyError, match="was replaced"):
        journal.spend(1, limit=9)


def test_a_folder_that_cannot_be_written_is_an_error_and_no_answer(journal, tmp_path, monkeypatch):
    with pytest.raises(OSError, match="No such file"):
        Journal.create(tmp_path / "nowhere" / "x.journal")

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(OSError, match="No space"):
            journal.spend(1, limit=9)
    assert journal.spent() == 0
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space"):
            journal.spend(1, limit=9)
    assert journal.spent() == 1  # it may have arrived


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write everywhere")
def test_a_read_only_folder_or_file_is_refused(journal, tmp_path):
    journal.path.chmod(0o400)
    with pytest.raises(PermissionError):
        journal.spend(1, limit=9)
    tmp_path.chmod(0o500)
    with pytest.raises(PermissionError):
        Journal.create(tmp_path / "x.journal")
    tmp_path.chmod(0o700)


@pytest.mark.parametrize("counted", ["file", "memory"])
def test_threads_do_not_overspend(journal, counted):
    counter = journal if counted == "file" else InMemory()
    answered = []

    def ask():
        try:
            while True:
                counter.spend(1, limit=40)
                answered.append(1)
        except vf.BudgetError:
            pass

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answered) == counter.spent() == 40


def test_processes_do_not_overspend(journal):
    processes = [spender(journal, limit=60) for _ in range(2)]
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    answered = [process.communicate(timeout=60)[0].count("answer") for process in processes]
    assert sum(answered) == journal.spent() == 60


def killed(journal: Journal, *, at_once: int, after: float) -> int:
    """How many answers a process gave before it was killed."""
    process = spender(journal, limit=10**6, at_once=at_once)
    process.stdin.write("go\n")
    process.stdin.flush()
    time.sleep(after)
    process.send_signal(signal.SIGKILL)
    return at_once * process.communicate(timeout=60)[0].count("answer")


@pytest.mark.parametrize(
    "times", [2, pytest.param(40, marks=pytest.mark.slow)], ids=["few", "many"]
)
def test_a_killed_process_forgets_nothing(journal, times):
    rng, answered = random.Random(0), 0
    for i in range(times):
        at_once = (1, 7)[i % 2]
        answered += killed(journal, at_once=at_once, after=rng.uniform(0.01, 0.15))
        spent = again(journal).spent()
        # what was under way when the kill came may be spent without an answer
        assert answered <= spent <= answered + 7 * (i + 1)
    assert answered > 0


def test_counters_are_not_copied(journal):
    for counter in (journal, InMemory()):
        with pytest.raises(TypeError, match="not copied"):
            copy.copy(counter)
