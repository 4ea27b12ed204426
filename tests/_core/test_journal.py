"""The journal: what was appended stays, as a whole or not at all, whoever else is writing."""

import contextlib
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests import journals
from veilflow._core import journal as module
from veilflow._core.errors import ArtifactError
from veilflow._core.journal import Journal

TITLE = "a test"
ENTRIES = [{"number": i, "text": "x" * 40 * i} for i in range(60)]


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    """With enough entries to fill some pages."""
    return filled(tmp_path / "journal")


def filled(path: Path) -> Journal:
    one = Journal.create(path, title=TITLE)
    with one.appending() as entries:
        entries += ENTRIES
    return one


def again(journal: Journal) -> Journal:
    """As another process would open it."""
    return Journal(journal.path, title=TITLE)


def append(journal: Journal, *entries) -> None:
    with journal.appending() as all_entries:
        all_entries += entries


@contextlib.contextmanager
def unchanged(path: Path):
    """Nothing is written, here or beside."""
    before = {one: one.read_bytes() for one in path.parent.iterdir() if one.is_file()}
    yield
    assert {one: one.read_bytes() for one in path.parent.iterdir() if one.is_file()} == before


def refused(journal: Journal, match: str | None = None) -> None:
    """Neither read nor added to, and left as it is."""
    for attempt in (again(journal).read, lambda: append(again(journal), {})):
        with unchanged(journal.path), pytest.raises(ArtifactError, match=match):
            attempt()


def edit(path: Path, *statements: str) -> None:
    """As with any program that knows SQLite."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        for statement in statements:
            db.execute(statement)


def test_entries_are_read_back_by_everyone_in_order(journal):
    assert journal.read() == again(journal).read() == ENTRIES
    append(again(journal), {"a": 1}, {"b": [None, 0.5, "ü"]})
    append(journal, {"c": {}})
    assert (
        journal.read()
        == again(journal).read()
        == [
            *ENTRIES,
            {"a": 1},
            {"b": [None, 0.5, "ü"]},
            {"c": {}},
        ]
    )


def test_an_error_in_the_block_undoes_it(journal):
    with unchanged(journal.path):
        with contextlib.suppress(KeyboardInterrupt), journal.appending() as entries:
            entries.append({"x": 1})
            raise KeyboardInterrupt
        for nothing in ({"x": float("nan")}, {"x": b""}):
            with pytest.raises((TypeError, ValueError)):
                append(journal, {"x": 1}, nothing)
    assert journal.read() == ENTRIES


def test_there_is_one_file_which_only_its_owner_can_read(tmp_path):
    mask = os.umask(0)
    try:
        append(Journal(tmp_path / "begun", title=TITLE, begin=True), {})
        filled(tmp_path / "created")
        (tmp_path / "empty").touch(0o666)  # as a crash at the beginning may leave it
        append(Journal(tmp_path / "empty", title=TITLE, begin=True), {})
    finally:
        os.umask(mask)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["begun", "created", "empty"]
    for path in tmp_path.iterdir():
        assert path.stat().st_mode & 0o777 == 0o600
        assert str(tmp_path).encode() not in path.read_bytes()


@pytest.mark.parametrize("name", ["a b", "a?mode=memory", "a#b", "%41%00", ":memory:", "ü\udcff"])
def test_any_name_of_a_file_is_that_of_the_file(tmp_path, name):
    append(Journal(tmp_path / name, title=TITLE, begin=True), {"a": 1})
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert Journal(tmp_path / name, title=TITLE).read() == [{"a": 1}]


def test_a_new_journal_replaces_nothing(journal, tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for path in (journal.path, tmp_path / "link"):
        with unchanged(journal.path), pytest.raises(FileExistsError):
            Journal.create(path, title=TITLE)
    with pytest.raises(FileNotFoundError):
        Journal.create(tmp_path / "no" / "folder", title=TITLE)


def test_a_new_journal_that_cannot_be_begun_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_SCHEMA", ("no statement",))
    with pytest.raises(ArtifactError):
        Journal.create(tmp_path / "new", title=TITLE)
    assert not list(tmp_path.iterdir())


def test_a_missing_or_empty_file_is_begun_only_where_that_is_asked_for(tmp_path):
    path = tmp_path / "journal"
    with pytest.raises(FileNotFoundError):
        Journal(path, title=TITLE).read()
    one = Journal(path, title=TITLE, begin=True)
    (tmp_path / "link").symlink_to(path)
    assert one.read() == Journal(tmp_path / "link", title=TITLE, begin=True).read() == []
    assert not path.exists()
    for bad in (tmp_path / "link" / "below", tmp_path / "none" / "below"):
        with pytest.raises(OSError, match=r"No such|Not a dir"):
            append(Journal(bad, title=TITLE, begin=True), {})
    path.touch()
    refused(one, "not a journal")
    assert one.read() == []
    append(one, {"a": 1})
    assert Journal(path, title=TITLE).read() == [{"a": 1}]
    # whoever has seen entries does not take a missing or empty file for a new one
    path.write_bytes(b"")
    for attempt in (one.read, lambda: append(one, {})):
        with unchanged(path), pytest.raises(ArtifactError):
            attempt()
    path.unlink()
    for attempt in (one.read, lambda: append(one, {})):
        with pytest.raises(FileNotFoundError):
            attempt()
    assert not path.exists()


def test_a_file_of_another_title_is_refused(journal):
    other = Journal(journal.path, title="another", begin=True)
    for attempt in (other.read, lambda: append(other, {})):
        with unchanged(journal.path), pytest.raises(ArtifactError, match="of something else"):
            attempt()


@pytest.mark.parametrize(
    "data",
    [
        b"veilflow journal 1 " + b"0" * 32 + b"\n00000000000000 0123456789abcdef\n",
        b'{"format": 1, "id": "0", "state": "reserved"}\n',
        b"PK\x03\x04",
        b"SQLite format 3\0" + bytes(100),
        bytes(8192),
    ],
    ids=["older answers", "older ledger", "zip", "head", "zeros"],
)
def test_a_file_that_is_no_journal_is_refused_and_says_what_to_do(tmp_path, data):
    path = tmp_path / "journal"
    path.write_bytes(data)
    refused(Journal(path, title=TITLE), r"(begin a new file and enter there|[Rr]estore)")


@pytest.mark.parametrize("mode", ["delete", "wal"])
def test_a_database_of_another_program_is_refused(tmp_path, mode):
    path = tmp_path / "journal"
    edit(path, f"PRAGMA journal_mode = {mode}", "CREATE TABLE entries (number, body, seal)")
    refused(Journal(path, title=TITLE), "not a journal")


def test_only_regular_files_of_one_name_are_used(journal, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(OSError, match="not a regular file"):
            Journal(path, title=TITLE).read()
    (tmp_path / "link").symlink_to(journal.path)
    append(Journal(tmp_path / "link", title=TITLE), {})
    assert journal.read() == [*ENTRIES, {}]
    os.link(journal.path, tmp_path / "second")
    refused(journal, "hard link")


def test_a_file_that_is_too_large_is_refused(journal, monkeypatch):
    monkeypatch.setattr(module, "_LARGEST", journal.path.stat().st_size - 1)
    refused(journal, "more than")


def test_wherever_a_file_is_cut_that_is_noticed(journal):
    whole = journal.path.read_bytes()
    places = {*range(0, len(whole), 211), *range(0, len(whole), 4096), len(whole) - 1}
    for size in places:
        journal.path.write_bytes(whole[:size])
        refused(journal)
    for tail in (b"\0", bytes(4096), b"x" * 5000):
        journal.path.write_bytes(whole + tail)
        refused(journal, "damaged")


def test_a_changed_byte_is_noticed_or_changes_nothing(journal, monkeypatch):
    hasty = [setting for setting in module._SETTINGS if "sync" not in setting]
    monkeypatch.setattr(module, "_SETTINGS", (*hasty, "PRAGMA synchronous = OFF"))
    whole, rng = journal.path.read_bytes(), random.Random(0)
    noticed = 0
    for place in (*range(100), *range(100, 4096, 67), *range(4096, len(whole), 337)):
        data = bytearray(whole)
        data[place] ^= 1 << rng.randrange(8)
        journal.path.write_bytes(data)
        try:
            assert again(journal).read() == ENTRIES
            append(again(journal), {"more": 1})
        except ArtifactError:
            assert journal.path.read_bytes() == data
            noticed += 1
        else:
            assert again(journal).read() == [*ENTRIES, {"more": 1}]
    assert noticed > 100


def test_entries_cannot_be_changed_by_a_slip(journal):
    for statement in ("UPDATE entries SET body = x'00'", "DELETE FROM entries WHERE number = 60"):
        with pytest.raises(sqlite3.IntegrityError, match="append only"):
            edit(journal.path, statement)
    edit(journal.path, "DROP TRIGGER kept")
    refused(journal, "not a journal")


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE entries SET body = x'7B7D' WHERE number = 7",
        "UPDATE entries SET body = x'7B7D' WHERE number = 60",
        "UPDATE entries SET body = 'text' WHERE number = 60",
        "UPDATE entries SET body = x'00' WHERE number = 0",
        "UPDATE entries SET seal = x'00' WHERE number = 60",
        "UPDATE entries SET number = number + 1 WHERE number = 60",
        "DELETE FROM entries WHERE number = 30",
        "DELETE FROM entries WHERE number = 0",
        "INSERT INTO entries SELECT 61, body, seal FROM entries WHERE number = 60",
    ],
)
def test_an_entry_that_is_changed_moved_or_taken_out_is_noticed(journal, change):
    triggers = module._SCHEMA[1:]
    edit(journal.path, "DROP TRIGGER kept", "DROP TRIGGER unchanged", change, *triggers)
    refused(journal, "changed")


def test_entries_that_one_has_seen_cannot_be_taken_away(journal):
    assert journal.read() == ENTRIES
    triggers = module._SCHEMA[1:]
    last = "DELETE FROM entries WHERE number = 60"
    edit(journal.path, "DROP TRIGGER kept", "DROP TRIGGER unchanged", last, *triggers)
    for attempt in (journal.read, lambda: append(journal, {})):
        with unchanged(journal.path), pytest.raises(ArtifactError, match="shorter than it was"):
            attempt()


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"x": NaN}', b"\xff", b"[" * 10**5])
def test_an_entry_that_is_no_object_is_refused(journal, body):
    journal.path.write_bytes(journals.forged([TITLE.encode(), b"{}", body]))
    refused(journal, "entry 2")


def test_a_file_that_is_replaced_meanwhile_is_refused(journal, monkeypatch):
    copied, connect = journal.path.read_bytes(), sqlite3.connect

    def replaced(*args, **kwargs):
        db = connect(*args, **kwargs)
        journal.path.rename(journal.path.with_name("old"))
        journal.path.write_bytes(copied)
        return db

    monkeypatch.setattr(sqlite3, "connect", replaced)
    with pytest.raises(ArtifactError, match="was replaced"):
        append(journal, {})
    assert journal.path.read_bytes() == copied


def test_every_append_is_flushed_with_its_folder(journal):
    with journal._transaction("BEGIN IMMEDIATE") as (db, _):
        assert module._one(db, "PRAGMA synchronous") == 3  # EXTRA: the folder as well
        assert module._one(db, "PRAGMA fullfsync") == 1
        assert module._one(db, "PRAGMA journal_mode") == "delete"


def test_half_a_transaction_is_undone(journal, tmp_path):
    """A crash in the middle of an append: pages are written, and nothing is committed."""
    crashed, alone = tmp_path / "crashed", tmp_path / "alone"
    crashed.mkdir()
    alone.mkdir()
    with contextlib.closing(sqlite3.connect(journal.path, isolation_level=None)) as db:
        db.execute("PRAGMA cache_size = 1")  # so that pages do not wait in memory
        db.execute("BEGIN IMMEDIATE")
        for number in range(61, 200):
            db.execute(module._INSERT, (number, bytes(3000), bytes(32)))
        shutil.copy(journal.path, alone / "journal")
        for name in ("journal", "journal-journal"):
            shutil.copy(tmp_path / name, crashed / name)
    assert (crashed / "journal").read_bytes() != journal.path.read_bytes()
    survivor = Journal(crashed / "journal", title=TITLE)
    assert survivor.read() == ENTRIES
    assert [path.name for path in crashed.iterdir()] == ["journal"]
    append(survivor, {})
    assert again(survivor).read() == [*ENTRIES, {}]
    # without what SQLite left beside it, half a transaction is noticed
    refused(Journal(alone / "journal", title=TITLE))
    assert journal.read() == ENTRIES


def test_a_crash_at_the_beginning_leaves_a_journal_that_can_be_begun(tmp_path):
    path = tmp_path / "journal"
    crashed = tmp_path / "crashed"
    crashed.mkdir()
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA cache_size = 1")
        db.execute("BEGIN IMMEDIATE")
        db.execute(module._SCHEMA[0])
        for number in range(100):
            db.execute(module._INSERT, (number, bytes(3000), bytes(32)))
        for name in ("journal", "journal-journal"):
            shutil.copy(tmp_path / name, crashed / name)
    assert (crashed / "journal").stat().st_size > 0
    one = Journal(crashed / "journal", title=TITLE, begin=True)
    assert one.read() == []
    append(one, {"a": 1})
    assert again(one).read() == [{"a": 1}]


def test_waiting_ends_with_an_error_and_nothing_written(journal, monkeypatch):
    monkeypatch.setattr(module, "_PATIENCE", 0.05)
    with contextlib.closing(sqlite3.connect(journal.path, isolation_level=None)) as db:
        db.execute("BEGIN IMMEDIATE")
        assert journal.read() == ENTRIES  # who only reads need not wait
        with unchanged(journal.path), pytest.raises(TimeoutError, match="Nothing was written"):
            append(journal, {})
        db.execute("ROLLBACK")
        db.execute("BEGIN EXCLUSIVE")
        with unchanged(journal.path), pytest.raises(TimeoutError, match="try again later"):
            journal.read()
    append(journal, {})
    assert journal.read() == [*ENTRIES, {}]


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write everywhere")
def test_what_may_not_be_written_can_still_be_read(journal, tmp_path):
    journal.path.chmod(0o400)
    assert journal.read() == ENTRIES
    with pytest.raises(PermissionError):
        append(journal, {})
    journal.path.chmod(0o600)
    tmp_path.chmod(0o500)
    try:
        assert journal.read() == ENTRIES
        with pytest.raises(PermissionError):
            append(journal, {})
        with pytest.raises(PermissionError):
            Journal.create(tmp_path / "new", title=TITLE)
        with pytest.raises(PermissionError):
            append(Journal(tmp_path / "new", title=TITLE, begin=True), {})
    finally:
        tmp_path.chmod(0o700)
    assert journal.read() == ENTRIES


def test_threads_wait_for_each_other(tmp_path):
    path = tmp_path / "journal"
    shared = Journal(path, title=TITLE, begin=True)

    def count(one: Journal) -> None:
        for _ in range(15):
            with one.appending() as entries:
                entries.append({"number": len(entries)})

    own = [Journal(path, title=TITLE, begin=True) for _ in range(2)]
    threads = [threading.Thread(target=count, args=(one,)) for one in (shared, shared, *own)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert again(shared).read() == [{"number": i} for i in range(60)]


COUNT = """
import sys
from veilflow._core.journal import Journal
journal = Journal(sys.argv[1], title="a test", begin=True)
print("ready", flush=True)
sys.stdin.readline()
for _ in range(int(sys.argv[2])):
    with journal.appending() as entries:
        entries += [{"number": len(entries) + i} for i in range(3)]
    print(len(entries), flush=True)
"""


def counting(path: Path, times: int) -> subprocess.Popen:
    command = [sys.executable, "-c", COUNT, str(path), str(times)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdin is not None
    assert process.stdout.readline() == "ready\n"
    process.stdin.write("\n")
    process.stdin.flush()
    return process


def test_processes_wait_for_each_other_from_the_first_entry_on(tmp_path):
    path = tmp_path / "journal"
    for process in [counting(path, 15) for _ in range(3)]:
        process.communicate(timeout=120)
        assert process.returncode == 0
    assert Journal(path, title=TITLE).read() == [{"number": i} for i in range(135)]
    assert [one.name for one in tmp_path.iterdir()] == ["journal"]


def test_a_killed_process_forgets_nothing_and_leaves_no_half(tmp_path):
    path, rng, said = tmp_path / "journal", random.Random(0), 0
    for _ in range(6):
        process = counting(path, 10**6)
        time.sleep(rng.uniform(0.0, 0.15))
        process.send_signal(signal.SIGKILL)
        lines = process.communicate(timeout=60)[0].split()
        said = max(said, *map(int, lines), 0)
        entries = Journal(path, title=TITLE, begin=True).read()
        assert entries == [{"number": i} for i in range(len(entries))]
        assert said <= len(entries) <= said + 3
        assert len(entries) % 3 == 0
        said = len(entries)
    assert said > 0
