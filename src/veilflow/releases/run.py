"""A run: one execution of a plan. Secret, progress and checkpoint are handled here and only here."""

# JAX and jaxtyping leave types open (trees, loops, new arrays); see [tool.pyright] in pyproject.toml
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportUnknownLambdaType=false

import os
import warnings
from dataclasses import replace
from functools import cache
from typing import Any, Self

from veilflow._core.errors import FewRecordsWarning, NotPrivateWarning, PrivacyError
from veilflow._core.keys import Secret
from veilflow.engine.checkpoint import Checkpoint
from veilflow.engine.progress import counting_bar
from veilflow.privacy.guarantees import Released, Sensitive
from veilflow.privacy.ledger import Ledger
from veilflow.releases.plan import FitPlan
from veilflow.releases.release import Query, Release, Tools

_MARKS = 100
"""Number of places at which a bar updates epsilon: accounting must not slow a release down."""


class Run:
    """Executes the releases of a plan in order, each once.

    With a checkpoint, an interrupted run resumes where it stopped: with the same secret, hence the same
    noise, and with the values of all completed releases. It pays for nothing twice. While it runs, no
    other run can use the checkpoint; a copy of a checkpoint would be a further spend.

    Args:
        plan: The plan. Its budget must suffice.
        records: As they were read; a checkpoint is bound to them by a keyed hash.
        seed: The seed of a reproducible run; None for a fresh secret.
        progress: Whether to show progress bars on standard error.
        checkpoint: A file for the state of the run.

    Raises:
        BudgetError: If the plan costs more than its budget.
        PrivacyError: If the checkpoint belongs to another plan or to other records.
    """

    def __init__(
        self,
        plan: FitPlan,
        records: Sensitive[Any],
        *,
        seed: int | None,
        progress: bool = True,
        checkpoint: str | os.PathLike[str] | None = None,
    ):
        warn_before(plan)
        plan.checked()
        self._progress = progress
        self._file = None if checkpoint is None else Checkpoint(checkpoint)
        if self._file is not None:
            self._file.hold()
        try:
            self._begin(plan, records, seed)
        except BaseException:
            self.close()
            raise
        # whoever resumes a run need not know its seed; that somebody chose it remains true
        self.plan = replace(plan, seeded=self.secret.chosen)
        self._waiting = list(self.plan.releases)
        self._spent = Ledger(unit=plan.unit)

    def _begin(self, plan: FitPlan, records: Sensitive[Any], seed: int | None) -> None:
        """Take the secret and what was released from the checkpoint, or start it."""
        saved = None if self._file is None else self._file.read()
        if saved is None:
            self.secret = Secret.from_seed(seed)
            self._kept: dict[str, Any] = {}
            if self._file is not None:
                context = {"plan": plan.identity, "paid": [], "released": {}}
                self._file.begin(self.secret, context, records=records)
        else:
            assert self._file is not None
            if saved.context.get("plan") != plan.identity:
                raise PrivacyError(
                    "the checkpoint belongs to other settings. Resuming it would reuse its noise. "
                    "Use the settings of the interrupted run, or another checkpoint path."
                )
            self._file.check_records(saved, records)
            self.secret, self._kept = saved.secret, dict(saved.context["released"])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let another run use the checkpoint."""
        if self._file is not None:
            self._file.release()

    def pay(self, release: Release, query: Query) -> Any:
        """The value of a release: executed now, or stored before an interruption.

        Raises:
            PrivacyError: If it is not the next release of the plan, or has another event than planned.
        """
        if not self._waiting or self._waiting[0] != release:
            raise PrivacyError(f"{release.purpose} is not the next release of the plan.")
        if release.purpose not in self._kept:
            self._note(paid=release.purpose)
            with self._monitor(release) as monitor:
                tools = Tools(self.secret, monitor, self._file)
                value = release.run(query.records, tools, **query.known)
            if release.event is not None:
                value = _as_planned(value, release)
            self._kept[release.purpose] = value
            self._note()
        self._waiting.pop(0)
        if release.event is not None:
            self._spent = self._spent.spend(release.event, purpose=release.purpose)
        return release.result(self._kept[release.purpose])

    def finish(self) -> None:
        """Remove the checkpoint: the model is safe, and the secret is no longer needed.

        Raises:
            PrivacyError: If a release of the plan was not executed.
        """
        if self._waiting:
            raise PrivacyError(f"{self._waiting[0].purpose} was planned and not released.")
        if self._file is not None:
            self._file.delete()

    def _note(self, *, paid: str | None = None) -> None:
        """Record what is about to be paid, or everything released so far."""
        if self._file is None:
            return
        context = self._file.context
        if paid in context["paid"]:
            return  # already recorded by the interrupted run, whose training state is kept
        names = [*context["paid"], *([paid] if paid else [])]
        self._file.note({**context, "paid": names, "released": self._kept}, self.secret)

    def _monitor(self, release: Release) -> Any:
        @cache
        def epsilon(mark: int) -> str:
            # at the end of the interval, so that the displayed epsilon is never too small
            return f"epsilon {self._epsilon(release, -(-mark * release.rounds // _MARKS)):.3g}"

        def note(done: int) -> str:
            if not self.plan.budget.private:
                return "no privacy"
            return epsilon(min(-(-done * _MARKS // release.rounds), _MARKS))

        shown = self._progress and release.rounds > 1
        return counting_bar(release.purpose, release.rounds, note=note, show=shown)

    def _epsilon(self, release: Release, done: int) -> float:
        """A bound on the epsilon spent so far, by the fast RDP accountant and the budget."""
        event = release.event_after(done)
        so_far = self._spent
        if done and event is not None:
            so_far = so_far.spend(event, purpose=release.purpose)
        if not so_far.entries:
            return 0.0
        budget = self.plan.budget
        return min(budget.epsilon, so_far.epsilon(delta=budget.delta, accountant="rdp"))


def _as_planned(released: Released[Any], release: Release) -> Any:
    """The released value, if its event is the planned one."""
    if released.event != release.event:
        raise PrivacyError(
            f"{release.purpose} did not cost what was planned, so nothing is released. This is a "
            "bug in veilflow: please report it with the settings of the fit."
        )
    return released.value


def warn_before(plan: FitPlan) -> None:
    """Warn if the budget is infinite, or too large for the declared number of records."""
    if not plan.budget.private:
        warnings.warn(
            "epsilon is infinite: no noise is added, and the result is not private. Use a finite "
            "epsilon for anything that is to be released.",
            NotPrivateWarning,
            stacklevel=4,
        )
    if plan.num_records is not None:
        plan.budget.warn_if_weak(plan.num_records)
        for concern in plan.concerns(plan.num_records):
            warnings.warn(concern, FewRecordsWarning, stacklevel=4)
