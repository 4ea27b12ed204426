"""What a fit may spend: the policy in force, and the ledger of a data set; and a look at the latter."""

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from veilflow.cli import options
from veilflow.cli.output import claim, emit, guarded, note, safe, statement

if TYPE_CHECKING:
    from veilflow.privacy.budget import Budget
    from veilflow.privacy.dataset_ledger import DatasetLedger
    from veilflow.privacy.ledger import Ledger
    from veilflow.privacy.policy import Policy

_MARK = ".reservation"
_LONGEST_NAME = 100


@dataclass(frozen=True)
class Spending:
    """What a fit was allowed to begin with."""

    budget: "Budget"
    policy: "Policy | None"
    journal: "DatasetLedger | None"
    dataset: str | None

    @contextlib.contextmanager
    def reserved(
        self, planned: "Callable[[], Ledger]", *, data: Path, checkpoint: Path | None = None
    ) -> "Iterator[Callable[[Ledger], None]]":
        """Write down what a fit will spend, then let it run; it says at its end what it spent.

        A fit that fails after this counts as spent: nobody knows what it has looked at.
        """
        if self.policy is not None:
            self.policy.check_assumptions(planned().assumptions)
        # whose reservation a checkpoint goes on with; one of another fit must not be taken over
        mark = None if checkpoint is None else checkpoint.with_name(checkpoint.name + _MARK)
        if self.journal is None or self.dataset is None:
            if mark is not None:
                mark.unlink(missing_ok=True)
            yield lambda _: None
            return
        if not os.access(data, os.R_OK):  # a slip of the pen costs nothing
            raise FileNotFoundError(2, "no such file, or it may not be read", str(data))
        name = self.journal.reserve(
            planned(),
            dataset=self.dataset,
            delta=self.budget.delta,
            policy=self.policy,
            resume=_read(mark) if checkpoint is not None and checkpoint.exists() else None,
        )
        if mark is not None:
            from veilflow._core import store

            store.write_atomic(mark, name.encode(), mode=0o600)
        ended = False

        def spent(ledger: "Ledger") -> None:
            nonlocal ended
            assert self.journal is not None
            self.journal.spent(name, ledger)
            ended = True
            if mark is not None:
                mark.unlink(missing_ok=True)

        try:
            yield spent
        finally:
            if not ended:
                note(f"the fit did not end: {self.journal.path} counts it as spent")
        from veilflow.privacy.dataset_ledger import total_delta

        delta = total_delta(self.policy, self.budget.delta)
        total = self.journal.total(dataset=self.dataset, delta=delta)
        note(f"all models of {self.dataset!r} together: {claim(total)}")


def _read(mark: Path | None) -> str | None:
    """The reservation that a checkpoint belongs to, if it began with one."""
    if mark is None or not mark.is_file():
        return None
    return mark.read_text("utf-8", errors="replace")[:_LONGEST_NAME]


def begin(
    epsilon: float,
    delta: float,
    policy: Path | None,
    data_ledger: Path | None,
    dataset: str | None,
    *,
    conditional: bool = False,
) -> Spending:
    """A budget and the policy's answer to it; called before data is opened.

    Raises:
        PolicyError: It is not allowed.
    """
    from veilflow.privacy.budget import Budget
    from veilflow.privacy.dataset_ledger import DatasetLedger

    budget = Budget(epsilon, delta)
    if (data_ledger is None) != (dataset is None):
        raise ValueError(
            "give --data-ledger and --dataset together: a file, and your own name for the data set."
        )
    found = in_force(policy)
    if found is not None:
        found.check(budget, conditional=conditional, dataset=dataset)
    journal = None if data_ledger is None else DatasetLedger(data_ledger)
    return Spending(budget, found, journal, dataset)


def in_force(policy: Path | None) -> "Policy | None":
    """The policy, if there is one; which, is said."""
    from veilflow.privacy.policy import Policy

    found = Policy.find(policy)
    if found is not None:
        note(f"policy: {found.source}")
    return found


@guarded
def spending(
    file: Annotated[Path, typer.Argument(help="The file of --data-ledger.")],
    dataset: Annotated[str | None, typer.Option(help="Only this data set.")] = None,
    delta: Annotated[float | None, typer.Option(help="Where totals are stated.")] = None,
    settle: Annotated[
        bool,
        typer.Option("--settle", help="Count a fit that is not in the file as all of its budget."),
    ] = False,
    epsilon: Annotated[float | None, typer.Option(help="With --settle: its epsilon.")] = None,
    policy: options.PolicyFile = None,
    as_json: options.AsJson = False,
) -> None:
    """What all models of each data set cost together."""
    from veilflow.privacy.budget import Budget
    from veilflow.privacy.dataset_ledger import DatasetLedger, total_delta

    journal = DatasetLedger(file)
    if not file.is_file() and not settle:
        raise FileNotFoundError(2, "no such file", str(file))
    if settle:
        if dataset is None or epsilon is None or delta is None:
            raise ValueError("--settle needs --dataset, --epsilon and --delta, those of the fit.")
        journal.settle(Budget(epsilon, delta), dataset=dataset)
    elif epsilon is not None:
        raise ValueError("--epsilon is for --settle.")
    if delta is None:
        delta = total_delta(in_force(policy), 1e-6)
    entries = journal.entries()
    names = dict.fromkeys(one.dataset for one in entries if dataset in (None, one.dataset))
    result: list[dict[str, Any]] = []
    lines = []
    for name in names:
        total = journal.total(dataset=name, delta=delta)
        states = [one.state for one in entries if one.dataset == name]
        result.append({"dataset": name, "guarantee": total.to_json(), "fits": states})
        open_ones = states.count("reserved")
        more = f", {open_ones} of them running or never ended" if open_ones else ""
        fits = "1 fit" if len(states) == 1 else f"{len(states)} fits"
        lines.append(f"{safe(name)}: {fits}{more}\n  {statement(total)}")
    emit({"datasets": result}, "\n".join(lines) or "nothing was spent", as_json=as_json)
