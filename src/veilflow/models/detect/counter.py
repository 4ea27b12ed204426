"""The number of queries an ensemble has answered, counted in memory or in a journal.

A query is on the disk before its answer is given (`_core/journal.py`). The file of an ensemble holds
the name of its journal and looks for it in its own folder, so that both can be moved together and no
file holds a path of the curator's machine. A journal that is missing, damaged or of another ensemble
is refused, and then nothing is answered.
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

_REFUSED = "Nothing is answered without it, because what was spent is not known."


class Counter(Protocol):
    """Counts spent queries."""

    def spent(self) -> int:
        """The number spent so far."""
        ...

    def spend(self, count: int, *, limit: int) -> None:
        """Spend `count` more; raises BudgetError, and spends nothing, where that exceeds `limit`."""
        ...


class InMemory:
    """A counter in this process, for ensembles that are not saved."""

    def __init__(self) -> None:
        self._spent = 0
        self._lock = threading.Lock()

    def spent(self) -> int:
        """The number spent so far."""
        return self._spent

    def spend(self, count: int, *, limit: int) -> None:
        """Spend `count` more; see `Counter`."""
        with self._lock:
            check_left(self._spent, count, limit=limit)
            self._spent += count

    def __reduce__(self):
        raise TypeError("a count of spent queries is not copied: two copies would spend twice.")


class InFile:
    """A counter in a journal, which several processes may share.

    Args:
        path: The file, made by `create`.
        id: Identifies the ensemble that it belongs to.
    """

    def __init__(self, path: str | os.PathLike[str], *, id: str):
        self._journal = Journal(path, title=_title(id))
        self.path = self._journal.path
        self.id = id

    @classmethod
    def create(cls, path: str | os.PathLike[str], *, id: str | None = None) -> "InFile":
        """A counter at 0 in a new file.

        Args:
            path: The new file. If it is the journal of this very ensemble, or empty, it is
                continued: a fit that was interrupted while it made its journal finds it again.
            id: Identifies the ensemble; random by default.

        Raises:
            FileExistsError: The file exists and counts what another ensemble spent.
            OSError: The file cannot be made there.
        """
        counter = cls(path, id=id or secrets.token_hex(16))
        try:
            Journal.create(path, title=_title(counter.id))
        except FileExistsError:
            # a fit that was killed here may have left it empty: its title comes before any count
            own = Journal(path, title=_title(counter.id), begin=True)
            try:
                with own.appending():
                    pass
            except ArtifactError:
                raise _taken(path) from None
        return counter

    def spent(self) -> int:
        """The number spent so far.

        Raises:
            PrivacyError: The journal is missing, damaged, or of another ensemble.
        """
        with self._refusing():
            return _total(self._journal.read())

    def spend(self, count: int, *, limit: int) -> None:
        """Write down `count` more and wait until they are on the disk; see `Counter`.

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
                f"{_REFUSED} Put it back, or give its new path with with_journal(path)."
            ) from None
        except ArtifactError as error:
            raise PrivacyError(f"the journal of the ensemble: {error}") from None

    def __reduce__(self):
        raise TypeError("a journal is not copied: open the ensemble's file again.")


class Unplaced:
    """The journal of an ensemble whose own folder is not known: it refuses to count.

    Args:
        name: The name of the file, without its folder.
        id: Identifies the ensemble that it belongs to.
    """

    def __init__(self, name: str, *, id: str):
        if Path(name).name != name or name in ("", "..") or "\\" in name or "\0" in name:
            raise ValueError("the name of a journal must be a file name without folders.")
        self.name = name
        self.id = id

    def spent(self) -> int:
        """Raises PrivacyError: the count is not known."""
        raise PrivacyError(
            f"it is not known in which folder the journal {self.name} lies. {_REFUSED} Open the "
            "ensemble with veilflow.load(path), or give the path with with_journal(path)."
        )

    def spend(self, count: int, *, limit: int) -> None:
        """Raises PrivacyError: see `spent`."""
        self.spent()

    def beside(self, path: str | os.PathLike[str]) -> InFile:
        """The counter in the folder of the ensemble's file."""
        # the folder of the file itself, whatever links lead to it
        return InFile(Path(os.path.realpath(path)).with_name(self.name), id=self.id)


def check_free(path: str | os.PathLike[str]) -> None:
    """Raise FileExistsError if the file exists: it counts what another ensemble spent."""
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
            "no more than that, or fit a new ensemble: on the same records that is a second spend."
        )


def _title(id: str) -> str:
    return f"veilflow: answers of the ensemble {id}"


def _total(entries: list[Entry]) -> int:
    """The last entry: each holds the sum so far."""
    total = entries[-1].get("spent") if entries else 0
    if type(total) is not int or total < 0:
        raise ArtifactError(f"an entry is not a count of queries. {_REFUSED}")
    return total
