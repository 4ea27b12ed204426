"""An append-only file of JSON entries that threads and processes share: an SQLite database.

An append is a transaction: it is on disk completely or not at all, even if a process is killed or the
power fails, and it excludes every other append. Every entry is sealed with a hash of itself and of
all entries before it, so that a changed, moved or removed entry is noticed. The first entry is the
title, which says what the journal is for. At rest there is one file. A crash may leave a second one
(`-journal`) of SQLite, with which the next reader undoes the unfinished transaction. Keep both
together.

No file can notice that it was replaced by an older copy, or that a copy of it is in use elsewhere.
"""

import contextlib
import errno
import hashlib
import json
import os
import sqlite3
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from veilflow._core import store
from veilflow._core.errors import ArtifactError

Entry = dict[str, Any]

_SCHEMA = (
    "CREATE TABLE entries (number INTEGER PRIMARY KEY, body BLOB NOT NULL, seal BLOB NOT NULL)",
    "CREATE TRIGGER unchanged BEFORE UPDATE ON entries BEGIN SELECT RAISE(ABORT, 'append only'); END",
    "CREATE TRIGGER kept BEFORE DELETE ON entries BEGIN SELECT RAISE(ABORT, 'append only'); END",
)
_SETTINGS = (
    # a file may come from anybody
    "PRAGMA trusted_schema = OFF",
    "PRAGMA cell_size_check = ON",
    "PRAGMA mmap_size = 0",
    # more than FULL: a commit deletes a file, and if the folder is not flushed, too, a power failure
    # could bring that file back and undo an append that was already acknowledged
    "PRAGMA synchronous = EXTRA",
    "PRAGMA fullfsync = ON",
)
_INSERT = "INSERT INTO entries VALUES (?, ?, ?)"
_SELECT = "SELECT number, body, seal FROM entries WHERE number >= ? ORDER BY number"
_PATIENCE = 60.0
"""Seconds to wait for other writers."""
_LARGEST = 256 * 2**20
_RESTORE = (
    "Nothing was changed. Restore the file from a copy; until then what was spent is not known, so "
    "nothing may be spent."
)


class Journal:
    """One file, which every call opens anew. Entries are added and never changed or removed.

    Args:
        path: The file, on a local disk: locks of network file systems are not reliable.
        title: What the journal is for; a file with another title is refused.
        begin: Whether a missing or empty file counts as a journal without entries, which the first
            append creates. Otherwise it is refused.
    """

    def __init__(self, path: str | os.PathLike[str], *, title: str, begin: bool = False):
        self.path = Path(path).absolute()
        self._begin = begin
        self._lock = threading.Lock()
        # entries are read once, so that n appends take linear and not quadratic time
        self._entries: list[Entry] = []
        self._last = (0, title.encode(), seal(b"", title.encode()))
        """The last row that was read: number, body, seal. The first row is the title."""

    @classmethod
    def create(cls, path: str | os.PathLike[str], *, title: str) -> "Journal":
        """Create a journal without entries, which only its owner can read.

        Raises:
            FileExistsError: The path already exists.
            OSError: The file cannot be created there.
        """
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        try:
            with cls(path, title=title, begin=True).appending():
                pass
        except BaseException:
            os.unlink(path)
            raise
        return cls(path, title=title)

    def read(self) -> list[Entry]:
        """All entries.

        Raises:
            ArtifactError: The file is damaged or is not a journal of this title. Nothing was changed.
            OSError: It does not exist or may not be read, or others write for too long.
        """
        if self._may_begin() and not _is_there(self.path):
            return []
        with self._transaction("BEGIN") as (db, is_empty):
            return [] if is_empty else self._caught_up(db)

    @contextlib.contextmanager
    def appending(self) -> Iterator[list[Entry]]:
        """All entries, while nobody else can append; entries that the block adds are written.

        If the block ends without an error, all new entries are on disk. After an error, none of them
        is.

        Raises:
            ArtifactError: As for `read`.
            OSError: As for `read`, or the disk is full, or the file may not be written.
        """
        with self._transaction("BEGIN IMMEDIATE") as (db, is_empty):
            if is_empty:
                for statement in _SCHEMA:
                    db.execute(statement)
                db.execute(_INSERT, self._last)
            entries = [] if is_empty else self._caught_up(db)
            yield entries
            last = self._last
            for entry in entries[last[0] :]:
                body = json.dumps(entry, sort_keys=True, allow_nan=False).encode()
                last = (last[0] + 1, body, seal(last[2], body))
                db.execute(_INSERT, last)
            db.execute("COMMIT")
            self._entries, self._last = entries, last

    @contextlib.contextmanager
    def _transaction(self, statement: str) -> Iterator[tuple[sqlite3.Connection, bool]]:
        """A transaction, undone unless the block commits it, and whether the file is empty."""
        with self._lock, _plain_errors(self.path):
            path = Path(os.path.realpath(self.path))
            if self._may_begin() and not _is_there(path):
                os.stat(path.parent)  # SQLite would not report that the folder is missing
                # not os.open: closing a file drops all locks that threads of this process hold on it
                sqlite3.connect(f"{path.as_uri()}?mode=rwc", uri=True).close()
            status = _usable(path)
            if self._may_begin() and not status.st_size:
                os.chmod(path, 0o600)
            uri = f"{path.as_uri()}?mode=rw"
            db = sqlite3.connect(uri, uri=True, timeout=_PATIENCE, isolation_level=None)
            with contextlib.closing(db):
                for setting in _SETTINGS:
                    db.execute(setting)
                db.execute(statement)
                _one(db, "PRAGMA schema_version")  # locks the file and undoes what a crash left
                now = os.stat(path)
                if not os.path.samestat(status, now):
                    raise _refused(self.path, "was replaced while it was in use")
                yield db, self._may_begin() and not now.st_size

    def _may_begin(self) -> bool:
        """Whether a missing or empty file is a journal without entries; not if it had some before."""
        return self._begin and not self._entries

    def _caught_up(self, db: sqlite3.Connection) -> list[Entry]:
        """All entries, after checking those that were not read before."""
        _check_form(db, self.path, thoroughly=not self._entries)
        last, new = self._last, []
        first, *rows = db.execute(_SELECT, last[:1]).fetchall() or [None]
        if first != last:
            shorter = "is shorter than it was, or was changed"
            foreign = "is the journal of something else, or its title was changed"
            raise _refused(self.path, shorter if self._entries else foreign)
        for number, body, sealed in rows:
            follows = number == last[0] + 1 and isinstance(body, bytes)
            if not follows or sealed != seal(last[2], body):
                what = f"was changed: entry {last[0] + 1} does not follow from those before it"
                raise _refused(self.path, what)
            new.append(store.parse_json(body, what=f"entry {number} of {self.path.name}"))
            last = (number, body, sealed)
        self._entries, self._last = [*self._entries, *new], last
        return list(self._entries)


def seal(last: bytes, body: bytes) -> bytes:
    """The seal of an entry: a hash of the entry and of the seal before it."""
    return hashlib.sha256(last + body).digest()


def _one(db: sqlite3.Connection, query: str) -> Any:
    return db.execute(query).fetchone()[0]


def _check_form(db: sqlite3.Connection, path: Path, *, thoroughly: bool) -> None:
    """Raise unless this module wrote the file, as far as SQLite can tell."""
    # databases of other programs have another schema; other journal modes would write more files
    schema = tuple(sql for (sql,) in db.execute("SELECT sql FROM sqlite_master ORDER BY rowid"))
    if schema != _SCHEMA or _one(db, "PRAGMA journal_mode") != "delete":
        raise _refused(path, "is not a journal that veilflow wrote")
    size = _one(db, "PRAGMA page_count") * _one(db, "PRAGMA page_size")
    whole = not thoroughly or _one(db, "PRAGMA quick_check(1)") == "ok"
    if not whole or os.stat(path).st_size != size:
        raise _refused(path, "is damaged or cut short")


def _is_there(path: Path) -> bool:
    """Whether the file exists; unlike `Path.exists`, this raises if that cannot be determined."""
    try:
        os.stat(path)
    except FileNotFoundError:
        return False
    return True


def _usable(path: Path) -> os.stat_result:
    """The status of the file; refused if SQLite could not keep it safe."""
    status = os.stat(path)
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "not a regular file", os.fspath(path))
    if status.st_size > _LARGEST:
        raise _refused(path, f"has more than {_LARGEST} bytes")
    if status.st_nlink > 1:
        # a crash under one name is undone under that name only, and appends under the other are lost
        raise ArtifactError(
            f"{path.name} has another name, too (a hard link). Keep one of them, as a copy of its own."
        )
    return status


def _refused(path: Path, what: str) -> ArtifactError:
    return ArtifactError(f"{path.name} {what}. {_RESTORE}")


@contextlib.contextmanager
def _plain_errors(path: Path) -> Iterator[None]:
    """Turns errors of SQLite into the file errors that they stand for."""
    try:
        yield
    except sqlite3.Error as error:
        raise _meaning(error, path) from None
    except UnicodeDecodeError:  # SQLite quotes damaged contents in its message
        raise _refused(path, "is damaged or cut short") from None


def _meaning(error: sqlite3.Error, path: Path) -> Exception:
    code, name = getattr(error, "sqlite_errorcode", 0) & 0xFF, os.fspath(path)
    if code == sqlite3.SQLITE_BUSY:
        busy = f"others have used it for {_PATIENCE:.0f} s. Nothing was written; try again later"
        return TimeoutError(errno.ETIMEDOUT, busy, name)
    if code == sqlite3.SQLITE_FULL:
        return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), name)
    if code == sqlite3.SQLITE_IOERR:
        return OSError(errno.EIO, f"{os.strerror(errno.EIO)} ({error})", name)
    locked_up = not all(os.access(where, os.W_OK) for where in (path, path.parent))
    if code == sqlite3.SQLITE_CANTOPEN or (code == sqlite3.SQLITE_READONLY and locked_up):
        return PermissionError(errno.EACCES, "the file or its folder may not be written", name)
    if code == sqlite3.SQLITE_NOTADB:
        return ArtifactError(
            f"{path.name} is not a journal of this version of veilflow. If an earlier one wrote it, as "
            "lines of text, begin a new file and enter there what was spent; if not, restore it from a "
            "copy. Nothing was changed."
        )
    return _refused(path, "is damaged or cut short")
