"""An estimator: frozen settings, the plan that follows from them, and one way to execute it.

A model consists of two pure functions, `plan` and `assemble`, and of two that see only the form of the
data, `read` and `query`. Everything else in a fit is the same for all models, and is here.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, final

from veilflow._core.errors import PrivacyError
from veilflow._core.keys import Secret
from veilflow.models.fitted import Fitted
from veilflow.privacy.budget import Budget
from veilflow.privacy.guarantees import Sensitive
from veilflow.releases.count import Count
from veilflow.releases.plan import FitPlan
from veilflow.releases.release import Query, Release
from veilflow.releases.run import Run

Model = TypeVar("Model", bound=Fitted)


@dataclass(frozen=True)
class Source:
    """The data of a fit, in which each record was read by itself, by declared rules."""

    records: Sensitive[Any]
    facts: dict[str, Any] = field(default_factory=dict)
    """Public facts about the form of the data, as arguments of `plan`: the number of columns."""
    columns: tuple[str, ...] | None = None
    """Names of the columns, if there are any."""
    _views: dict[str, Sensitive[Any]] = field(default_factory=dict, repr=False)

    def view(self, name: str, make: Callable[[], Sensitive[Any]]) -> Sensitive[Any]:
        """A view of the records that several releases share, made once."""
        if name not in self._views:
            self._views[name] = make()
        return self._views[name]


@dataclass(frozen=True)
class Fit:
    """A fit in progress: its plan, its data, and what was released so far."""

    plan: Any
    """The plan that is executed: a `FitPlan` of the estimator's own type."""
    source: Source
    secret: Secret
    released: dict[str, Any] = field(default_factory=dict)
    """Results of the releases, by purpose."""

    @property
    def num_records(self) -> int:
        """The number of records: declared, or released by a private count."""
        if self.plan.num_records is not None:
            return self.plan.num_records
        return self.released[Count.purpose]


class Estimator(ABC, Generic[Model]):
    """Settings of a model that is to be fitted privately."""

    budget: Budget
    seed: int | None

    @abstractmethod
    def plan(self, *args: Any, **kwargs: Any) -> FitPlan:
        """Everything that a fit will release and pay for: public, and known before the records are."""

    @abstractmethod
    def read(self, *args: Any, **kwargs: Any) -> Source:
        """Read the data into `Sensitive` records, which only a release can open."""

    def query(self, release: Release, fit: Fit) -> Query:
        """The input of a release: by default the records as they were read."""
        return Query(fit.source.records)

    @abstractmethod
    def assemble(self, fit: Fit) -> Model:
        """Make the model from the released values. It reads no record."""

    @final
    def fit(
        self,
        data: Any,
        *labels: Any,
        plan: FitPlan | None = None,
        progress: bool = True,
        checkpoint: str | os.PathLike[str] | None = None,
        save_as: str | os.PathLike[str] | None = None,
        **reading: Any,
    ) -> Model:
        """Fit the model. Each call spends the budget again.

        Args:
            data: An array, a frame, or the path of a file, as `read` takes it.
            labels: The labels, for models of labeled records, as `read` takes them.
            plan: The plan from `plan(...)`, to state in the program what is executed. It must be the
                plan of this estimator for this data.
            progress: Show progress bars on standard error.
            checkpoint: A file for the state of the run. If it exists, the interrupted run is
                continued with the same secret, noise and released values, and pays for nothing
                twice. Keep it secret. It is removed when the fit is done.
            save_as: A file to save the model in before the checkpoint is removed, so that a full
                disk does not lose what was paid for.
            reading: Other arguments of `read`, such as `invalid="replace"`.

        Returns:
            The fitted model, which may be published.

        Raises:
            BudgetError: The plan costs more than the budget. Nothing was spent.
            ValueError: The data is not as declared.
            PrivacyError: The plan or the checkpoint belongs to other settings or other data.
        """
        source = self.read(data, *labels, **reading)
        own_plan = self.plan(**source.facts)
        if plan is not None and plan != own_plan:
            raise PrivacyError(
                "the plan is not the one of this estimator for this data. Nothing was spent. Leave "
                "plan out, or give estimator.plan(...) of the same settings."
            )
        with Run(
            own_plan, source.records, seed=self.seed, progress=progress, checkpoint=checkpoint
        ) as run:
            fit = Fit(run.plan, source, run.secret)
            for release in run.plan.releases:
                fit.released[release.purpose] = run.pay(release, self.query(release, fit))
            model = self.assemble(fit)
            if save_as is not None:
                model.save(save_as)
            run.finish()
        return model


def facts_of(plan: FitPlan, **facts: Any) -> dict[str, Any]:
    """The released facts of a fit. Warns if delta is too large for a released number of records."""
    if plan.num_records is None and "num_records" in facts:
        plan.budget.warn_if_weak(facts["num_records"])
    return facts
