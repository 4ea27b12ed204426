"""What all models of a data set cost together: an append-only journal that processes share.

A fit is written down twice: reserved, with all that it will spend, before it begins; spent, when it
has ended. Each line is flushed to the disk before anything goes on, under a lock. A fit that dies in
between counts as spent, for nobody knows how far it got. Nothing is ever removed.

Data sets go by a name that a person gives. A hash of the records would be a release that no epsilon
pays for: whoever guesses the records can confirm the guess, and neighbors never have the same one.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from veilflow._core import store
from veilflow._core.appending import flush_folder, read_range, write_all
from veilflow._core.errors import ArtifactError, PrivacyError
from veilflow.privacy.budget import Budget
from veilflow.privacy.events import ApproximateDP, PureDP
from veilflow.privacy.guarantees import Guarantee
from veilflow.privacy.ledger import Ledger
from veilflow.privacy.policy import Policy

FORMAT = 1
ADAPTIVE = "settings of later fits were not chosen from what earlier fits released"
"""Composition of privacy loss distributions is proved for noise that is fixed beforehand."""
_STATES = ("reserved", "spent", "settled")
_FIELDS = {"format", "id", "state", "dataset", "ledger", "check"}
_LARGEST = 256 * 2**20
_LONGEST_NAME = 200


class TornError(PrivacyError):
    """The end of a journal cannot be read, so what was reserved there is unknown."""


@dataclass(frozen=True)
class Spend:
    """One fit: reserved, or spent, or, after a torn line, settled by a person."""

    id: str
    state: str
    dataset: str
    ledger: Ledger


class DatasetLedger:
    """A journal of spending in one file; made by the first reservation.

    Guarantee:
        Every fit that was allowed to begin is in the file before it does. The total is that of
        one composition over all of them, so two processes cannot together exceed a policy.

    Args:
        path: The file. On one machine: locks of network file systems are not to be relied on.
    """

    def __init__(self, path: str | os.PathLike[str]):
        self.path = Path(path)

    def reserve(
        self,
        ledger: Ledger,
        *,
        dataset: str,
        delta: float,
        policy: Policy | None = None,
        resume: str | None = None,
    ) -> str:
        """Write down what a fit will spend, unless that is beyond the policy. Call it before.

        Args:
            ledger: All that the fit will spend, known beforehand.
            dataset: The name of the data set, chosen by a person.
            delta: Where the total is stated, unless the policy says so.
            policy: What is allowed.
            resume: The name of an open reservation of the same ledger to go on with: a fit that
                continues from its checkpoint draws the same noise and spends nothing new. Only its
                own will do; any other may be that of a fit that died.

        Returns:
            The name of the reservation, for `spent`.

        Raises:
            PolicyError: All fits together would cost too much. Nothing was written.
            TornError: The file ends in a line that cannot be read.
        """
        _check_name(dataset)
        with self._locked() as file:
            entries, last = _parsed(_read(file), self.path)
            if Spend(resume or "", "reserved", dataset, ledger) in entries:
                return resume or ""
            if policy is not None:
                at = total_delta(policy, delta)
                after = [*(e.ledger for e in entries if e.dataset == dataset), ledger]
                together = _joined(after, dataset)
                policy.check_total(together.epsilon(delta=at), at, dataset=dataset)
            name = secrets.token_hex(8)
            _append(file, Spend(name, "reserved", dataset, ledger), last)
        return name

    def spent(self, name: str, ledger: Ledger) -> None:
        """Write down what a reserved fit has spent, now that it has ended."""
        with self._locked() as file:
            entries, last = _parsed(_read(file), self.path)
            found = [one for one in entries if one.id == name]
            if not found:
                raise PrivacyError(f"{self.path} has no reservation {name!r}.")
            _append(file, Spend(name, "spent", found[0].dataset, ledger), last)

    def settle(self, budget: Budget, *, dataset: str) -> None:
        """Go on after a torn line: count the fit that was being written as all of its budget.

        Args:
            budget: The most that the fit was given: a person knows it from the command.
            dataset: The name that it was given.
        """
        _check_name(dataset)
        pure = budget.delta == 0
        event = PureDP(budget.epsilon) if pure else ApproximateDP(budget.epsilon, budget.delta)
        ledger = Ledger().spend(event, purpose="a fit whose line was torn, settled by a person")
        with self._locked() as file:
            data = _read(file)
            _, last, torn = _lines(data, self.path)
            if not torn:
                raise ValueError(f"{self.path} has no torn line: there is nothing to settle.")
            name = _torn_name(torn.split(b"\n"))
            start = b"" if data.endswith(b"\n") else b"\n"
            _append(file, Spend(name, "settled", dataset, ledger), last, start=start)

    def entries(self) -> tuple[Spend, ...]:
        """All fits, each in its last state."""
        if not self.path.exists():
            return ()
        with self._locked(write=False) as file:
            return tuple(_parsed(_read(file), self.path)[0])

    def total(self, *, dataset: str, delta: float, accountant: str = "pld") -> Guarantee:
        """What all models of a data set together promise."""
        ledgers = [one.ledger for one in self.entries() if one.dataset == dataset]
        return _joined(ledgers, dataset).guarantee(delta=delta, accountant=accountant)

    @contextlib.contextmanager
    def _locked(self, *, write: bool = True) -> Iterator[int]:
        new = write and not self.path.exists()
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT if write else os.O_RDONLY
        handle = os.open(self.path, flags | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX if write else fcntl.LOCK_SH)
            yield handle
            if new:  # the name of a new file is in its folder, which is flushed apart
                flush_folder(self.path.resolve())
        finally:
            os.close(handle)  # which also unlocks


def total_delta(policy: Policy | None, delta: float) -> float:
    """Where a total is stated: at the policy's delta if it has one."""
    return delta if policy is None or policy.max_delta >= 1 else policy.max_delta


def _joined(ledgers: list[Ledger], dataset: str) -> Ledger:
    """One ledger of several; they must speak of the same neighbors."""
    if not ledgers:
        return Ledger()
    first = ledgers[0]
    if any((one.adjacency, one.unit) != (first.adjacency, first.unit) for one in ledgers):
        raise PrivacyError(
            f"fits of {dataset!r} have different adjacencies or units, which do not add up."
        )
    joined = Ledger(
        adjacency=first.adjacency,
        unit=first.unit,
        entries=tuple(entry for one in ledgers for entry in one.entries),
    )
    for sentence in (text for one in ledgers for text in one.assumptions):
        joined = joined.assuming(sentence)
    return joined if len(ledgers) == 1 else joined.assuming(ADAPTIVE)


def _read(handle: int) -> bytes:
    size = os.fstat(handle).st_size
    if size > _LARGEST:
        raise ArtifactError(f"the data-set ledger has more than {_LARGEST} bytes.")
    return read_range(handle, 0, size)


def _append(handle: int, spend: Spend, last: str, *, start: bytes = b"") -> None:
    body = {
        "format": FORMAT,
        "id": spend.id,
        "state": spend.state,
        "dataset": spend.dataset,
        "ledger": spend.ledger.to_json(),
    }
    line = start + _dump({**body, "check": _check(last, body)}) + b"\n"
    size = os.fstat(handle).st_size
    try:
        write_all(handle, line)
        os.fsync(handle)
    except OSError:  # a full disk: the fit does not begin, so half a line need not stay
        os.ftruncate(handle, size)
        raise


def _dump(document: dict[str, Any]) -> bytes:
    return json.dumps(document, sort_keys=True, allow_nan=False).encode()


def _check(last: str, body: dict[str, Any]) -> str:
    """Of a line and of all before it: a line that is cut, changed or taken out shows."""
    return hashlib.sha256(last.encode() + _dump(body)).hexdigest()[:32]


def _parsed(data: bytes, path: Path) -> tuple[list[Spend], str]:
    """Every fit in its last state, and the check of the last line."""
    found, last, torn = _lines(data, path)
    if torn:
        raise TornError(
            f"the end of {path} is cut off or damaged. A fit was being written down there and "
            "counts as spent, but how much cannot be read. Look up the budget it was given, then go "
            f"on with: veilflow spending {path} --settle --dataset NAME --epsilon E --delta D. That "
            "counts all of its budget; the damaged line stays."
        )
    return list(found.values()), last


def _lines(data: bytes, path: Path) -> tuple[dict[str, Spend], str, bytes]:
    """What can be read, the check of its last line, and the torn end that nobody has settled.

    A line that was cut is no JSON. One that is, and has another check than follows from the lines
    before it, was not cut: something was changed, moved or taken out.
    """
    found: dict[str, Spend] = {}
    last, torn = "", []
    for number, line in enumerate(data.split(b"\n")[:-1], 1):
        document = _document(line)
        if document is None:
            torn.append(line)
            continue
        spend = _spend(document, last)
        settled = spend is not None and spend.state == "settled"
        if spend is None or settled != bool(torn) or (torn and spend.id != _torn_name(torn)):
            raise ArtifactError(
                f"line {number} of {path} does not follow from those before it: lines were changed, "
                "moved or taken out. Restore the file from a copy; until then no total is known, so "
                "nothing may be spent."
            )
        found[spend.id], last, torn = spend, document["check"], []
    rest = data[data.rfind(b"\n") + 1 :]
    return found, last, b"\n".join([*torn, *([rest] if rest else [])])


def _torn_name(lines: list[bytes]) -> str:
    """Which torn lines a person has settled."""
    return "torn-" + hashlib.sha256(b"\n".join(lines)).hexdigest()[:16]


def _document(line: bytes) -> dict[str, Any] | None:
    try:
        return store.parse_json(line, what="a line of the data-set ledger")
    except ArtifactError:
        return None


def _spend(document: dict[str, Any], last: str) -> Spend | None:
    """What a whole line says; None if it is not ours or not in its place."""
    body = {name: value for name, value in document.items() if name != "check"}
    if set(document) != _FIELDS or document["format"] != FORMAT:
        return None
    if document["check"] != _check(last, body) or document["state"] not in _STATES:
        return None
    if not all(isinstance(document[name], str) for name in ("id", "dataset")):
        return None
    try:
        ledger = Ledger.from_json(document["ledger"])
    except (ArtifactError, TypeError, ValueError):
        return None
    return Spend(document["id"], document["state"], document["dataset"], ledger)


def _check_name(dataset: str) -> None:
    if not isinstance(dataset, str) or not dataset.strip() or len(dataset) > _LONGEST_NAME:
        raise ValueError(f"a data set needs a name of 1 to {_LONGEST_NAME} characters.")
    if not dataset.isprintable():
        raise ValueError("the name of a data set must be printable.")
