"""How many queries an ensemble has answered, counted in memory or in a journal.

A query is on the disk before its answer is given (`_core/journal.py`). An ensemble's file knows its
journal by name and looks for it in its own folder, so that both can be moved together and no file
holds a path of the curator's machine. A journal that is missing, damaged or of another ensemble is
refused, and then nothing is answered.
"""

import contextlib
import errno
import os
import secrets
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from veilflow._core.errors import ArtifactError, BudgetError, PrivacyError
from veilflow._core.journal import Entry, Journal

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


class InFile:
    """Counts in a journal, which several processes share.

    Args:
        path: The file, which `create` made.
        id: Of the ensemble it belongs to.
    """

    def __init__(self, path: str | os.PathLike[str], *, id: str):
        self._journal = Journal(path, title=_title(id))
        self.path = self._journal.path
        self.id = id

    @classmethod
    def create(cls, path: str | os.PathLike[str], *, id: str | None = None) -> "InFile":
        """A counter at 0 in a new file.

        Args:
            path: Where. If the journal of this very ensemble is there, it goes on: a fit that was
                interrupted after it made its journal finds it again.
            id: Of the ensemble; random unless given.

        Raises:
            FileExistsError: There is a file already: it counts what another ensemble spent.
            OSError: The file cannot be made there.
        """
        counter = cls(path, id=id or secrets.token_hex(16))
        try:
            Journal.create(path, title=_title(counter.id))
        except FileExistsError:
            if not counter.is_here():
                raise _taken(path) from None
        return counter

    def is_here(self) -> bool:
        """Whether the file is there and the journal of this ensemble."""
        try:
            self.spent()
        except PrivacyError:
            return False
        return True

    def spent(self) -> int:
        """How many were spent so far.

        Raises:
            PrivacyError: The journal is missing, damaged, or of another ensemble.
        """
        with self._refusing():
            return _total(self._journal.read())

    def spend(self, count: int, *, limit: int) -> None:
        """Write down `count` more and wait until that is on the disk; see `Counter`.

        Raises:
            BudgetError: Fewer than `count` are left. Nothing was spent.
            PrivacyError: The journal is missing, damaged, or of another ensemble.
            OSError: It cannot be written. No answer may be given then.
        """
        with self._refusing(), self._journal.appending() as entries:
            spent = _total(entries)
            check_left(spent, count, limit=limit)
            entries.append({"spent": spent + count})

    @contextlib.contextmanager
    def _refusing(self) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            raise PrivacyError(
                f"the journal {self.path.name} is not where it was, beside the file of its ensemble. "
                f"{_REFUSED} Put it back, or give its new place with with_journal(path)."
            ) from None
        except ArtifactError as error:
            raise PrivacyError(f"the journal of the ensemble: {error}") from None

    def __reduce__(self):
        raise TypeError("a journal is not copied: open the ensemble's file again.")


class Unplaced:
    """The journal of an ensemble whose file was read without saying where it lies: it counts nothing.

    Args:
        name: Of the file, without its folder.
        id: Of the ensemble it belongs to.
    """

    def __init__(self, name: str, *, id: str):
        if Path(name).name != name or name in ("", "..") or "\\" in name or "\0" in name:
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

    def beside(self, path: str | os.PathLike[str]) -> InFile:
        """The counter in the folder of the ensemble's file."""
        # where the file itself is, whatever links lead to it
        return InFile(Path(os.path.realpath(path)).with_name(self.name), id=self.id)


def check_free(path: str | os.PathLike[str]) -> None:
    """Raise FileExistsError if there is a file already: it counts what another ensemble spent."""
    if os.path.lexists(path):
        raise _taken(path)


def _taken(path: str | os.PathLike[str]) -> FileExistsError:
    return FileExistsError(
        errno.EEXIST,
        "the journal exists already and counts what another ensemble spent. Choose another name; do "
        "not delete it while that ensemble is kept",
        os.fspath(path),
    )


def check_left(spent: int, count: int, *, limit: int) -> None:
    """Raise unless `count` more fit."""
    left = max(0, limit - spent)
    if count > left:
        raise BudgetError(
            f"{count} more would be spent, but {left} of {limit} are left. Nothing was spent. Ask for "
            "at most as many, or fit a new ensemble: on the same records that is a second spend."
        )


def _title(id: str) -> str:
    return f"veilflow: answers of the ensemble {id}"


def _total(entries: list[Entry]) -> int:
    """What the last entry says: each holds the sum so far."""
    total = entries[-1].get("spent") if entries else 0
    if type(total) is not int or total < 0:
        raise ArtifactError(f"an entry is no count of queries. {_REFUSED}")
    return total
