"""Which queries were spent, in a file that is written before an answer is given.

One line of fixed width per spent query, in append mode, flushed to the disk under a lock on the file.
Line n is a function of the journal's id and n alone, so a reader knows what each line must say: a file
with another line in it, or of another ensemble, is refused. A line that a kill cut short counts as
spent, though its answer was never given. Two processes on one journal wait for each other and read
what the other wrote.

An ensemble's file knows its journal by name and looks for it in its own folder, so that both can be
moved together and no file holds a path of the curator's machine.

What no file can notice: that it was put back to an older copy, or copied together with its ensemble.
"""

import contextlib
import errno
import hashlib
import os
import secrets
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from veilflow._core.appending import flush_folder, read_range, write_all
from veilflow._core.errors import BudgetError, PrivacyError

_TITLE = b"veilflow journal 1 "
_WIDTH = 32
"""Bytes of a line, its end included."""
_REFUSED = "Nothing is answered without it: what was spent is not known."


class Counter(Protocol):
    """What counts spent queries."""

    def spent(self) -> int:
        """How many were spent so far."""
        ...

    def spend(self, count: int, *, limit: int) -> None:
        """Spend `count` more, or raise BudgetError and spend nothing if that were above `limit`."""
        ...


class InMemory:
    """Counts within one process, for ensembles that are not saved."""

    def __init__(self) -> None:
        self._spent = 0
        self._lock = threading.Lock()

    def spent(self) -> int:
        """How many were spent so far."""
        return self._spent

    def spend(self, count: int, *, limit: int) -> None:
        """Spend `count` more; see `Counter`."""
        with self._lock:
            check_left(self._spent, count, limit=limit)
            self._spent += count

    def __reduce__(self):
        raise TypeError("a count of spent queries is not copied: two copies would spend twice.")


class Unplaced:
    """The journal of an ensemble whose file was read without saying where it lies: it counts nothing.

    Args:
        name: Of the file, without its folder.
        id: Of the ensemble it belongs to.
    """

    def __init__(self, name: str, *, id: str):
        if name in ("", ".", "..") or "/" in name or "\\" in name or "\0" in name:
            raise ValueError("the name of a journal must be that of a file, without folders.")
        self.name = name
        self.id = id

    def spent(self) -> int:
        """Nobody knows: raises PrivacyError."""
        raise PrivacyError(
            f"it is not known in which folder the journal {self.name} lies. {_REFUSED} Open the "
            "ensemble with veilflow.load(path), or give the place with with_journal(path)."
        )

    def spend(self, count: int, *, limit: int) -> None:
        """Raises PrivacyError: see `spent`."""
        self.spent()

    def beside(self, path: str | os.PathLike[str]) -> "Journal":
        """The journal in the folder of the ensemble's file."""
        # where the file itself is, whatever links lead to it
        return Journal(Path(os.path.realpath(path)).with_name(self.name), id=self.id)


class Journal:
    """Counts in a file that survives the process, and that several processes share.

    Args:
        path: The file, which `create` made.
        id: Of the ensemble it belongs to.
    """

    def __init__(self, path: str | os.PathLike[str], *, id: str):
        self.path = Path(path).absolute()
        self.id = id
        self._seen = 0
        """Lines read and found right; the file never gets shorter than that."""
        self._lock = threading.Lock()

    @classmethod
    def create(cls, path: str | os.PathLike[str]) -> "Journal":
        """A new, empty journal with a random id.

        Raises:
            FileExistsError: There is a file already: it counts what another ensemble spent.
            OSError: The file cannot be made there.
        """
        journal = cls(path, id=secrets.token_hex(16))
        try:
            file = os.open(journal.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        except FileExistsError:
            raise FileExistsError(
                errno.EEXIST,
                "the journal exists already and counts what another ensemble spent. Choose another "
                "name; do not delete it while that ensemble is kept",
                os.fspath(path),
            ) from None
        try:
            write_all(file, journal._header)
            os.fsync(file)
        finally:
            os.close(file)
        with contextlib.suppress(OSError):  # not every system can flush a folder
            flush_folder(journal.path)
        return journal

    def spent(self) -> int:
        """How many were spent so far.

        Raises:
            PrivacyError: The journal is missing, damaged, or of another ensemble.
        """
        with self._lock, self._opened() as file:
            return self._read(file)[0]

    def spend(self, count: int, *, limit: int) -> None:
        """Write `count` more lines and wait until they are on the disk; see `Counter`.

        Raises:
            BudgetError: Fewer than `count` are left. Nothing was spent.
            PrivacyError: The journal is missing, damaged, or of another ensemble.
            OSError: It cannot be written. No answer may be given then.
        """
        with self._lock, self._opened() as file:
            spent, torn_at = self._read(file)
            if torn_at is not None:
                self._mend(torn_at, spent)
            check_left(spent, count, limit=limit)
            write_all(file, b"".join(self._line(spent + i) for i in range(count)))
            os.fsync(file)
            self._seen = spent + count

    @contextlib.contextmanager
    def _opened(self) -> Iterator[int]:
        """The file, locked, and still the one that goes by its name."""
        fcntl = _fcntl()
        try:
            file = os.open(self.path, os.O_RDWR | os.O_APPEND)
        except FileNotFoundError:
            raise PrivacyError(
                f"the journal {self.path.name} is not where it was, beside the file of its ensemble. "
                f"{_REFUSED} Put it back, or give its new place with with_journal(path)."
            ) from None
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            if not _same_file(file, self.path):
                raise PrivacyError(
                    f"the journal {self.path.name} was replaced while it was in use. {_REFUSED}"
                )
            yield file
        finally:
            os.close(file)  # which lets the lock go

    def _read(self, file: int) -> tuple[int, int | None]:
        """How many were spent, and where a line is torn, if one is."""
        size, header = os.fstat(file).st_size, self._header
        start = len(header) + self._seen * _WIDTH
        if size < start:
            raise self._damaged("is shorter than it was")
        if os.pread(file, len(header), 0) != header:
            raise self._damaged("is not of this ensemble, or its first line was changed")
        # what was read before is not read again, so that n queries take time n and not n squared
        rest = read_range(file, start, size)
        whole = len(rest) // _WIDTH
        for i in range(whole):
            expected = self._line(self._seen + i)
            if rest[i * _WIDTH : (i + 1) * _WIDTH] == expected:
                continue
            # after a loss of power a file may be longer than what was written to it: zeros to its
            # end are lines of which nothing arrived
            if any(rest[i * _WIDTH :]):
                raise self._damaged("has a line that was not written by veilflow")
            whole = i
            break
        torn = len(rest) - whole * _WIDTH
        self._seen += whole
        if not torn:
            return self._seen, None
        return self._seen + -(-torn // _WIDTH), len(header) + self._seen * _WIDTH

    def _mend(self, torn_at: int, spent: int) -> None:
        """Write the torn lines in full over what is there of them; they stay spent.

        Whenever this is cut short, too, at least as many lines are there.
        """
        lines = b"".join(self._line(n) for n in range(self._seen, spent))
        file = os.open(self.path, os.O_RDWR)
        try:
            os.lseek(file, torn_at, os.SEEK_SET)
            write_all(file, lines)
            os.fsync(file)
        finally:
            os.close(file)
        self._seen = spent

    @property
    def _header(self) -> bytes:
        return _TITLE + self.id.encode() + b"\n"

    def _line(self, number: int) -> bytes:
        text = f"{number:014d}".encode()
        tag = hashlib.blake2b(text, key=self.id.encode(), digest_size=8).hexdigest()
        return text + b" " + tag.encode() + b"\n"

    def _damaged(self, what: str) -> PrivacyError:
        return PrivacyError(f"the journal {self.path.name} {what}. {_REFUSED}")

    def __reduce__(self):
        raise TypeError("a journal is not copied: open the ensemble's file again.")


def check_left(spent: int, count: int, *, limit: int) -> None:
    """Raise unless `count` more fit."""
    left = max(0, limit - spent)
    if count > left:
        raise BudgetError(
            f"{count} more would be spent, but {left} of {limit} are left. Nothing was spent. Ask for "
            "at most as many, or fit a new ensemble: on the same records that is a second spend."
        )


def _same_file(file: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file), os.stat(path))
    except FileNotFoundError:
        return False


def _fcntl():  # the type is a module that some systems do not have
    try:
        import fcntl
    except ImportError:
        raise OSError(
            "a journal needs locks on files as POSIX systems have them. Leave journal out; the "
            "ensemble then answers in this process only."
        ) from None
    return fcntl
