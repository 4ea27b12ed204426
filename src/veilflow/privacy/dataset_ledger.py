"""What all models of a data set cost together: a journal that processes share.

A fit is written down twice: reserved, with all that it will spend, before it begins; spent, when it
has ended. Each time it is on the disk before anything goes on (`_core/journal.py`). A fit that dies in
between counts as spent, for nobody knows how far it got. Nothing is ever removed.

Data sets go by a name that a person gives. A hash of the records would be a release that no epsilon
pays for: whoever guesses the records can confirm the guess, and neighbors never have the same one.
"""

import os
import secrets
from dataclasses import dataclass
from pathlib import Path

from veilflow._core.errors import ArtifactError, PrivacyError
from veilflow._core.journal import Entry, Journal
from veilflow.privacy.assumptions import Conditional
from veilflow.privacy.budget import Budget
from veilflow.privacy.events import ApproximateDP, PureDP
from veilflow.privacy.guarantees import Guarantee
from veilflow.privacy.ledger import Ledger
from veilflow.privacy.policy import Policy
from veilflow.privacy.unit import Unit

ADAPTIVE = Conditional("settings of later fits were not chosen from what earlier fits released")
"""Composition of privacy loss distributions is proved for noise that is fixed beforehand."""
_TITLE = "veilflow: spending of data sets"
_STATES = ("reserved", "spent", "settled")
_LONGEST_NAME = 200


@dataclass(frozen=True)
class Spend:
    """One fit: reserved, or spent, or settled by a person because the file did not know of it."""

    id: str
    state: str
    dataset: str
    ledger: Ledger


class DatasetLedger:
    """A journal of spending in one file; made by the first reservation, readable by its owner only.

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
            ArtifactError: The file is damaged, or no ledger of data sets. Nothing was written.
        """
        _check_name(dataset)
        with self._journal.appending() as entries:
            spends = _spends(entries)
            if Spend(resume or "", "reserved", dataset, ledger) in spends.values():
                return resume or ""
            if policy is not None:
                at = total_delta(policy, delta)
                after = [*(s.ledger for s in spends.values() if s.dataset == dataset), ledger]
                together = _joined(after, dataset)
                policy.check_total(together.epsilon(delta=at), at, dataset=dataset)
            name = secrets.token_hex(8)
            entries.append(_entry(Spend(name, "reserved", dataset, ledger)))
        return name

    def spent(self, name: str, ledger: Ledger) -> None:
        """Write down what a reserved fit has spent, now that it has ended."""
        with self._journal.appending() as entries:
            spends = _spends(entries)
            if name not in spends:
                raise PrivacyError(f"{self.path} has no reservation {name!r}.")
            entries.append(_entry(Spend(name, "spent", spends[name].dataset, ledger)))

    def settle(self, budget: Budget, *, dataset: str) -> None:
        """Count a fit that the file does not know of as all of its budget.

        For a file that was restored from a copy older than the fit, or begun anew.

        Args:
            budget: The most that the fit was given: a person knows it from the command.
            dataset: The name that it was given.
        """
        _check_name(dataset)
        pure = budget.delta == 0
        event = PureDP(budget.epsilon) if pure else ApproximateDP(budget.epsilon, budget.delta)
        ledger = Ledger().spend(
            event, purpose="a fit that was not in the file, settled by a person"
        )
        with self._journal.appending() as entries:
            _spends(entries)
            entries.append(_entry(Spend(secrets.token_hex(8), "settled", dataset, ledger)))

    def entries(self) -> tuple[Spend, ...]:
        """All fits, each in its last state."""
        return tuple(_spends(self._journal.read()).values())

    def total(self, *, dataset: str, delta: float, accountant: str = "pld") -> Guarantee:
        """What all models of a data set together promise."""
        ledgers = [one.ledger for one in self.entries() if one.dataset == dataset]
        return _joined(ledgers, dataset).guarantee(delta=delta, accountant=accountant)

    @property
    def _journal(self) -> Journal:
        return Journal(self.path, title=_TITLE, begin=True)


def total_delta(policy: Policy | None, delta: float) -> float:
    """Where a total is stated: at the policy's delta if it has one."""
    return delta if policy is None or policy.max_delta >= 1 else policy.max_delta


def _joined(ledgers: list[Ledger], dataset: str) -> Ledger:
    """One ledger of several; they must speak of the same neighbors."""
    if not ledgers:
        return Ledger()
    first = ledgers[0]
    # a row, an image and a record are one record each, by the words of their models
    if len({(one.adjacency, one.unit.single) for one in ledgers}) > 1:
        raise PrivacyError(
            f"fits of {dataset!r} have different adjacencies or units, which do not add up."
        )
    units = {one.unit for one in ledgers}
    joined = Ledger(
        adjacency=first.adjacency,
        unit=first.unit if len(units) == 1 else Unit.RECORD,
        entries=tuple(entry for one in ledgers for entry in one.entries),
        assumptions=tuple(assumption for one in ledgers for assumption in one.assumptions),
    )
    return joined if len(ledgers) == 1 else joined.assuming(ADAPTIVE)


def _entry(spend: Spend) -> Entry:
    named = {"id": spend.id, "state": spend.state, "dataset": spend.dataset}
    return {**named, "ledger": spend.ledger.to_json()}


def _spends(entries: list[Entry]) -> dict[str, Spend]:
    """Every fit in its last state, by its name."""
    spends = [_spend(number, entry) for number, entry in enumerate(entries, 1)]
    return {spend.id: spend for spend in spends}


def _spend(number: int, entry: Entry) -> Spend:
    try:
        name, state, dataset = (entry[field] for field in ("id", "state", "dataset"))
        if not (isinstance(name, str) and isinstance(dataset, str) and state in _STATES):
            raise ValueError
        return Spend(name, state, dataset, Ledger.from_json(entry["ledger"]))
    except (ArtifactError, LookupError, TypeError, ValueError):
        raise ArtifactError(
            f"entry {number} of the ledger of data sets is no spend. Restore the file from a copy; "
            "until then no total is known, so nothing may be spent."
        ) from None


def _check_name(dataset: object) -> None:
    if not isinstance(dataset, str) or not dataset.strip() or len(dataset) > _LONGEST_NAME:
        raise ValueError(f"a data set needs a name of 1 to {_LONGEST_NAME} characters.")
    if not dataset.isprintable():
        raise ValueError("the name of a data set must be printable.")
