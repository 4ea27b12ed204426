"""What all models of a data set cost together: a journal that processes share.

A fit is recorded twice: as reserved, with everything that it will spend, before it begins; and as
spent, when it has ended. Each record is on disk before the fit goes on (`_core/journal.py`). A fit
that dies in between counts as spent, because nobody knows how far it got. Nothing is ever removed.

A data set is identified by a name that a person gives it. A hash of the records would be a release that
no epsilon pays for: anyone who guesses the records could confirm the guess, and neighboring data sets
never have the same hash.
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

ADAPTIVE = Conditional("the settings of later fits do not depend on what earlier fits released")
"""Composition of privacy loss distributions is proved for noise that is fixed in advance."""
_TITLE = "veilflow: spending of data sets"
_STATES = ("reserved", "spent", "settled")
_LONGEST_NAME = 200


@dataclass(frozen=True)
class Spend:
    """One fit: reserved, spent, or settled by a person because the file did not know of it."""

    id: str
    state: str
    dataset: str
    ledger: Ledger


class DatasetLedger:
    """A journal of spending in one file, which the first reservation creates for its owner only.

    Guarantee:
        Every fit that is allowed to begin is in the file before it begins. The total is one
        composition over all of them, so two processes cannot exceed a policy together.

    Args:
        path: The file, on a local disk: locks of network file systems are not reliable.
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
        """Record what a fit will spend before it begins, or raise if the policy forbids it.

        Args:
            ledger: Everything that the fit will spend, known in advance.
            dataset: The name of the data set, chosen by a person.
            delta: The delta at which the total is stated, unless the policy has one.
            policy: What is allowed.
            resume: The id of an open reservation of the same ledger. A fit that continues from its
                checkpoint draws the same noise and spends nothing new. It must name its own
                reservation; any other one may belong to a fit that died.

        Returns:
            The id of the reservation, for `spent`.

        Raises:
            PolicyError: All fits together would cost too much. Nothing was written.
            ArtifactError: The file is damaged or is not a ledger of data sets. Nothing was written.
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
        """Record what a reserved fit has spent, now that it has ended."""
        with self._journal.appending() as entries:
            spends = _spends(entries)
            if name not in spends:
                raise PrivacyError(f"{self.path} has no reservation {name!r}.")
            entries.append(_entry(Spend(name, "spent", spends[name].dataset, ledger)))

    def settle(self, budget: Budget, *, dataset: str) -> None:
        """Count a fit that the file does not know of, at the price of its whole budget.

        This is for a file that was restored from a copy older than the fit, or started afresh.

        Args:
            budget: The budget of the fit, which a person knows from the command.
            dataset: The name of the data set.
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
        """All fits, each in its latest state."""
        return tuple(_spends(self._journal.read()).values())

    def total(self, *, dataset: str, delta: float, accountant: str = "pld") -> Guarantee:
        """The guarantee of all models of a data set together."""
        ledgers = [one.ledger for one in self.entries() if one.dataset == dataset]
        return _joined(ledgers, dataset).guarantee(delta=delta, accountant=accountant)

    @property
    def _journal(self) -> Journal:
        return Journal(self.path, title=_TITLE, begin=True)


def total_delta(policy: Policy | None, delta: float) -> float:
    """The delta at which a total is stated: that of the policy if it has one."""
    return delta if policy is None or policy.max_delta >= 1 else policy.max_delta


def _joined(ledgers: list[Ledger], dataset: str) -> Ledger:
    """Several ledgers as one; they must have the same neighboring relation."""
    if not ledgers:
        return Ledger()
    first = ledgers[0]
    # a row, an image and a record are one record each; models only name them differently
    if len({(one.adjacency, one.unit.single) for one in ledgers}) > 1:
        raise PrivacyError(
            f"fits of {dataset!r} have different adjacencies or units, so their costs do not compose."
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
    """Every fit in its latest state, by its id."""
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
            f"entry {number} of the ledger of data sets is not a valid record of spending. Restore the "
            "file from a copy; until then no total is known, so nothing may be spent."
        ) from None


def _check_name(dataset: object) -> None:
    if not isinstance(dataset, str) or not dataset.strip() or len(dataset) > _LONGEST_NAME:
        raise ValueError(f"a data set needs a name of 1 to {_LONGEST_NAME} characters.")
    if not dataset.isprintable():
        raise ValueError("the name of a data set must be printable.")
