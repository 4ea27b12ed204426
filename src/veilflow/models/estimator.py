"""An estimator: frozen settings, a plan made of them, and one way to execute it.

A model is two pure functions, `plan` and `assemble`, and two that only look at the form of the data,
`read` and `query`. Everything a fit does beyond that is the same for all of them, and is here.
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
    """Data as it was read: each record by itself, by declared rules."""

    records: Sensitive[Any]
    facts: dict[str, Any] = field(default_factory=dict)
    """What may be known of the form of the data, as arguments of `plan`: the number of columns."""
    columns: tuple[str, ...] | None = None
    """Names of the columns, where there are any."""
    _views: dict[str, Sensitive[Any]] = field(default_factory=dict, repr=False)

    def view(self, name: str, make: Callable[[], Sensitive[Any]]) -> Sensitive[Any]:
        """The records as several releases see them, made once."""
        if name not in self._views:
            self._views[name] = make()
        return self._views[name]


@dataclass(frozen=True)
class Fit:
    """A fit under way: what is executed, on what, and what came out so far."""

    plan: FitPlan
    source: Source
    secret: Secret
    released: dict[str, Any] = field(default_factory=dict)
    """Results by the purpose of their release."""

    @property
    def num_records(self) -> int:
        """Declared, or counted for a price."""
        if self.plan.num_records is not None:
            return self.plan.num_records
        return self.released[Count.purpose]


class Estimator(ABC, Generic[Model]):
    """Settings of a model that is fitted privately."""

    budget: Budget
    seed: int | None

    @abstractmethod
    def plan(self, *args: Any, **kwargs: Any) -> FitPlan:
        """Everything that a fit will ask and pay: public, and known before the records are."""

    @abstractmethod
    def read(self, *args: Any, **kwargs: Any) -> Source:
        """The records in `data`, behind the door."""

    def query(self, release: Release, fit: Fit) -> Query:
        """What a release is run on: by default the records as they were read."""
        return Query(fit.source.records)

    @abstractmethod
    def assemble(self, fit: Fit) -> Model:
        """The model that the released values make. It reads no record."""

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
        """Fit the model. A second call is a second spend.

        Args:
            data: What `read` takes: an array, a frame, or the path of a file.
            labels: For models of labeled records, as `read` takes them.
            plan: What is to be executed, from `plan(...)`: for a reader of the program. It has to be
                the plan of this estimator for this data.
            progress: Show progress bars on standard error.
            checkpoint: A file for the state of the run. If it is there already, the run it belongs to
                goes on, with the same secret, noise and released values, and pays for nothing twice.
                Keep it secret. It is removed when the fit is done.
            save_as: A file to save the model in before the checkpoint is removed, so that a full
                disk does not lose what was paid for.
            reading: How to read the data, such as `invalid="replace"`: arguments of `read`.

        Returns:
            The fitted model, which may be published.

        Raises:
            BudgetError: The plan costs more than the budget. Nothing was spent.
            ValueError: The data is not as declared.
            PrivacyError: The plan or the checkpoint belongs to other settings or other data.
        """
        source = self.read(data, *labels, **reading)
        made = self.plan(**source.facts)
        if plan is not None and plan != made:
            raise PrivacyError(
                "the plan is not the one of this estimator for this data. Nothing was spent. Leave "
                "plan out, or give estimator.plan(...) of the same settings."
            )
        run = Run(made, source.records, seed=self.seed, progress=progress, checkpoint=checkpoint)
        state = Fit(run.plan, source, run.secret)
        for release in run.plan.releases:
            state.released[release.purpose] = run.pay(release, self.query(release, state))
        model = self.assemble(state)
        if save_as is not None:
            model.save(save_as)
        run.finish()
        return model


def facts_of(plan: FitPlan, **facts: Any) -> dict[str, Any]:
    """Released facts of a fit. A paid number of records warns of a delta that is too large for it."""
    if plan.num_records is None and "num_records" in facts:
        plan.budget.warn_if_weak(facts["num_records"])
    return facts
