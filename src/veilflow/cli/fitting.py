"""What all fits share: their flags, the policy and ledger that allow them, and the run itself.

A command makes an estimator and its plan from its own flags. From there on every fit is the same: show
the plan for `--dry-run`; otherwise write down what will be spent, fit, save, and print the guarantee.
"""

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from veilflow.cli import options
from veilflow.cli.flags import given
from veilflow.cli.inspect import duration, show_plan
from veilflow.cli.output import claim, note, tell

if TYPE_CHECKING:
    from veilflow.privacy.budget import Budget
    from veilflow.privacy.dataset_ledger import DatasetLedger
    from veilflow.privacy.ledger import Ledger
    from veilflow.privacy.policy import Policy
    from veilflow.releases.plan import FitPlan

_MARK = ".reservation"
_LONGEST_NAME = 100
_LONG = 300
"""Seconds from which on a fit says beforehand how long it takes."""


@dataclass(frozen=True, kw_only=True)
class RunFlags(options.Output):
    """The flags of every command that fits a model, except for its budget.

    Attributes:
        out: The model file to write, such as m.veil.
        seed: For research only: weakens the guarantee, and says so.
        checkpoint: Secret file to resume from after a crash, at no further cost.
        dry_run: Show what would be done and spent, and do neither.
        data_ledger: File that adds up what all models of a data set cost.
        dataset: Your name for the data set, in --data-ledger.
    """

    seed: int | None = None
    checkpoint: Path | None = None
    dry_run: bool = False
    policy: options.PolicyFile = None
    data_ledger: Path | None = None
    dataset: str | None = None

    def begin_with(
        self, epsilon: float, delta: float, *inputs: Path | None, conditional: bool
    ) -> "Fitting":
        """Check the output file, the budget and the policy; called before data is opened.

        Args:
            epsilon: The budget's epsilon.
            delta: The budget's delta.
            inputs: Files that are read, which `--out` must not replace.
            conditional: Whether the guarantee is conditional.

        Raises:
            PolicyError: The policy does not allow such a fit.
        """
        self.check(*inputs)
        from veilflow.privacy.budget import Budget
        from veilflow.privacy.dataset_ledger import DatasetLedger

        budget = Budget(epsilon, delta)
        if (self.data_ledger is None) != (self.dataset is None):
            raise ValueError(
                "give --data-ledger and --dataset together: a file, and your own name for the data "
                "set."
            )
        policy = policy_in_force(self.policy)
        if policy is not None:
            policy.check(budget, conditional=conditional, dataset=self.dataset)
        journal = None if self.data_ledger is None else DatasetLedger(self.data_ledger)
        return Fitting(self, budget, policy, journal)


@dataclass(frozen=True, kw_only=True)
class FitFlags(RunFlags):
    """The flags of a fit that always has a budget.

    Attributes:
        delta: Well below 1 / number of rows.
    """

    epsilon: options.Epsilon
    delta: float

    def begin(self, *inputs: Path | None, conditional: bool | None = None) -> "Fitting":
        """`begin_with` the budget of the flags. A seed makes the guarantee conditional by default."""
        if conditional is None:
            conditional = self.seed is not None
        return self.begin_with(self.epsilon, self.delta, *inputs, conditional=conditional)


@dataclass(frozen=True)
class Fitting:
    """A fit that may begin."""

    flags: RunFlags
    budget: "Budget"
    policy: "Policy | None"
    journal: "DatasetLedger | None"

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of an estimator that every fit has flags for."""
        return given(budget=self.budget, seed=self.flags.seed)

    def finish(self, plan: "FitPlan", fit: Callable[..., Any], *, data: Path) -> None:
        """Execute a plan, and print where the model is and what it guarantees."""
        fitted, flags = self.run(plan, fit, data=data), self.flags
        tell({"out": flags.out}, f"wrote {flags.out}", fitted.guarantee, as_json=flags.as_json)

    def run(
        self,
        plan: "FitPlan",
        fit: Callable[..., Any],
        *,
        data: Path,
        ledger: "Ledger | None" = None,
    ) -> Any:
        """Execute a plan, or, for a dry run, show it and end the command.

        Args:
            plan: What the fit asks and pays.
            fit: Fits and saves; takes `progress`, `checkpoint` and `save_as`.
            data: The file of records.
            ledger: What the fit spends, where the ledger of the result says something else: one of
                an ensemble holds the answers so far, one of a detector also what its model cost.
        """
        if self.flags.dry_run:
            show_plan(plan, as_json=self.flags.as_json)
            raise typer.Exit
        about = plan.takes()
        if about is not None and about[0] >= _LONG:
            note(f"this fit takes {duration(*about)}")
        with self.reserved(plan, data=data) as spent:
            fitted = fit(progress=True, checkpoint=self.flags.checkpoint, save_as=self.flags.out)
            spent(fitted.ledger if ledger is None else ledger)
        return fitted

    @contextlib.contextmanager
    def reserved(self, plan: "FitPlan", *, data: Path) -> "Iterator[Callable[[Ledger], None]]":
        """Write down what a fit will spend, then let it run; at its end it says what it spent.

        A fit that fails after this counts as spent: nobody knows what it has looked at.
        """
        if self.policy is not None:
            self.policy.check_assumptions(plan.checked().ledger.assumptions)
        checkpoint, dataset = self.flags.checkpoint, self.flags.dataset
        # the reservation that a checkpoint continues; that of another fit must not be taken over
        mark = None if checkpoint is None else checkpoint.with_name(checkpoint.name + _MARK)
        if self.journal is None or dataset is None:
            if mark is not None:
                mark.unlink(missing_ok=True)
            yield lambda _: None
            return
        if not os.access(data, os.R_OK):  # a misspelled name costs nothing
            raise FileNotFoundError(2, "no such file, or it may not be read", str(data))
        name = self.journal.reserve(
            plan.checked().ledger,
            dataset=dataset,
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
        total = self.journal.total(dataset=dataset, delta=delta)
        note(f"all models of {dataset!r} together: {claim(total)}")


def _read(mark: Path | None) -> str | None:
    """The reservation that a checkpoint belongs to, if it began with one."""
    if mark is None or not mark.is_file():
        return None
    return mark.read_text("utf-8", errors="replace")[:_LONGEST_NAME]


def policy_in_force(path: Path | None) -> "Policy | None":
    """The policy, if there is one; a note says which."""
    from veilflow.privacy.policy import Policy

    policy = Policy.find(path)
    if policy is not None:
        note(f"policy: {policy.source}")
    return policy
