"""A run: one execution of a plan. Secret, progress and checkpoint are handled here and only here."""

import os
import warnings
from dataclasses import replace
from functools import cache
from typing import Any

from veilflow._core.errors import NotPrivateWarning, PrivacyError
from veilflow._core.keys import Secret
from veilflow.engine.checkpoint import Checkpoint
from veilflow.engine.progress import counting_bar
from veilflow.privacy.guarantees import Released, Sensitive
from veilflow.privacy.ledger import Ledger
from veilflow.releases.plan import FitPlan
from veilflow.releases.release import Query, Release, Tools

_MARKS = 100
"""A bar shows epsilon at so many places: accounting must not slow a release down."""


class Run:
    """Executes the releases of a plan in their order, each once.

    With a checkpoint, a run that was interrupted goes on where it was: with the same secret, hence the
    same noise, and with the values of all releases that were done. It pays for nothing twice.

    Args:
        plan: What is executed. Its budget must have room for it.
        records: As they were read; a checkpoint is bound to them by a keyed hash.
        seed: Of a run that repeats; None for a fresh secret.
        progress: Whether to show progress bars on standard error.
        checkpoint: A file for the state of the run.

    Raises:
        BudgetError: The plan costs more than its budget.
        PrivacyError: The checkpoint belongs to another plan or to other records.
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
                    "the checkpoint belongs to other settings. Going on would reuse its noise. "
                    "Use the settings of the interrupted run, or another checkpoint path."
                )
            self._file.check_records(saved, records)
            self.secret, self._kept = saved.secret, dict(saved.context["released"])
        # whoever goes on with a run need not know its seed; that somebody did stays true
        self.plan = replace(plan, seeded=self.secret.chosen)
        self._waiting = list(self.plan.releases)
        self._spent = Ledger(unit=plan.unit)

    def pay(self, release: Release, query: Query) -> Any:
        """What a release lets out: executed now, or kept from before an interruption.

        Raises:
            PrivacyError: It is not the next one of the plan, or its event is not the planned one.
        """
        if not self._waiting or self._waiting[0] != release:
            raise PrivacyError(f"{release.purpose} is not what the plan releases next.")
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
        """Remove the checkpoint: the model is safe, and the secret is not needed any more.

        Raises:
            PrivacyError: The plan has releases that were not executed.
        """
        if self._waiting:
            raise PrivacyError(f"{self._waiting[0].purpose} was planned and not released.")
        if self._file is not None:
            self._file.delete()

    def _note(self, *, paid: str | None = None) -> None:
        """Write down what is about to be paid, or all that was released."""
        if self._file is None:
            return
        context = self._file.context
        if paid in context["paid"]:
            return  # by the run that was interrupted: what it kept of a training under way stays
        names = [*context["paid"], *([paid] if paid else [])]
        self._file.note({**context, "paid": names, "released": self._kept}, self.secret)

    def _monitor(self, release: Release) -> Any:
        @cache
        def epsilon(mark: int) -> str:
            # at the end of the hundredth: what is shown is never too small
            return f"epsilon {self._epsilon(release, -(-mark * release.rounds // _MARKS)):.3g}"

        def note(done: int) -> str:
            if not self.plan.budget.private:
                return "no privacy"
            return epsilon(min(-(-done * _MARKS // release.rounds), _MARKS))

        shown = self._progress and release.rounds > 1
        return counting_bar(release.purpose, release.rounds, note=note, show=shown)

    def _epsilon(self, release: Release, done: int) -> float:
        """A bound on what is spent so far, by the fast RDP accountant, capped by the whole."""
        event = release.event_after(done)
        so_far = self._spent
        if done and event is not None:
            so_far = so_far.spend(event, purpose=release.purpose)
        if not so_far.entries:
            return 0.0
        budget = self.plan.budget
        return min(budget.epsilon, so_far.epsilon(delta=budget.delta, accountant="rdp"))


def _as_planned(released: Released[Any], release: Release) -> Any:
    """The released value, if it was paid for as the plan says."""
    if released.event != release.event:
        raise PrivacyError(
            f"{release.purpose} did not cost what was planned, so nothing is released. This is a "
            "mistake in veilflow: please report it with the settings of the fit."
        )
    return released.value


def warn_before(plan: FitPlan) -> None:
    """Warn of a budget that promises nothing, or too little for a declared number of records."""
    if not plan.budget.private:
        warnings.warn(
            "epsilon is infinite: nothing is added to hide a record, and the result is not private. "
            "Give a finite epsilon for whatever is to be released.",
            NotPrivateWarning,
            stacklevel=4,
        )
    if plan.num_records is not None:
        plan.budget.warn_if_weak(plan.num_records)
