"""What all baselines have in common: declared facts, a ledger before the fit, one fitted classifier."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from veilflow._core import check
from veilflow._core.keys import Secret
from veilflow.models import domain as domains
from veilflow.models.domain import Box, Domain
from veilflow.models.expm.choice import check_model, classes_of, network_of
from veilflow.models.expm.fitted_classifier import FittedExpMechClassifier
from veilflow.models.expm.inputs import places_of, read_inputs
from veilflow.models.expm.network import Network
from veilflow.models.settings import make_whole, warn_before
from veilflow.privacy.budget import Budget
from veilflow.privacy.guarantees import Sensitive
from veilflow.privacy.ledger import Ledger


@dataclass(frozen=True)
class Task:
    """What a fit is about: public facts, settled before a record is looked at."""

    network: Network
    domain: Domain
    ledger: Ledger
    """All that will be spent."""


@dataclass(frozen=True, kw_only=True)
class Baseline(ABC):
    """A classifier to be fitted. Bounds, classes and the number of records are declared facts.

    Args:
        budget: What the whole fit may spend.
        model: "logistic", "mlp" or "grud"; or a network from `vf.expm`.
        bounds: `(low, high)` of the features, from knowledge of the domain. Values outside are clamped.
        row_norm: Instead of bounds: the largest Euclidean norm of a row.
        num_records: How many records there are, if that may be known.
        classes: All values a label may have.
        seed: For repeatable research, and for one fit only.
    """

    budget: Budget
    model: Any = "logistic"
    bounds: Any = None
    row_norm: float | None = None
    num_records: int | None = None
    classes: tuple[Any, ...] = (0, 1)
    seed: int | None = field(default=None, repr=False)

    name: ClassVar[str] = ""

    def __post_init__(self) -> None:
        if not isinstance(self.budget, Budget):
            raise TypeError(
                f"budget must be a Budget, got {type(self.budget).__name__}. "
                "Write budget=vf.Budget(epsilon=1.0, delta=1e-5)."
            )
        check_model(self.model)
        self._domain()
        object.__setattr__(self, "classes", classes_of(self.classes))
        make_whole(self, "num_records", optional=True)
        Secret.from_seed(self.seed)

    def fit(self, features: Any, labels: Any, *, progress: bool = True) -> FittedExpMechClassifier:
        """Fit the classifier. A second call is a second spend.

        Args:
            features: Rows, or series with masks, as `vf.ExpMechClassifier.fit` takes them.
            labels: One of the declared classes for each record.
            progress: Show a progress bar on standard error, where there are steps to count.

        Raises:
            BudgetError: The settings cost more than the budget. Nothing was spent.
            ValueError: Features or labels are not as declared.
        """
        warn_before(self.budget, self.num_records)
        inputs = read_inputs(features)
        if not len(inputs):
            raise ValueError("there are no records. A fit needs at least one.")
        task = self._task(inputs.num_features)
        task.domain.check_dim(inputs.num_features)
        places = places_of(labels, self.classes, num=len(inputs))
        records = Sensitive((inputs.scaled(task.domain), places), description="records with labels")
        theta = self._learn(task, records, Secret.from_seed(self.seed), progress=progress)
        return FittedExpMechClassifier(
            thetas=np.asarray(theta, np.float32)[None],
            network=task.network,
            domain=task.domain,
            columns=inputs.columns,
            classes=self.classes,
            ledger=task.ledger,
            guarantee=task.ledger.guarantee(delta=self.budget.delta),
            settings=self._settings(task),
        )

    def ledger(self, num_features: int) -> Ledger:
        """All that a fit will spend: public, and known before the records are.

        Args:
            num_features: In a row, or at each time of a series.
        """
        return self._task(num_features).ledger

    @abstractmethod
    def _spent(self, network: Network) -> Ledger:
        """What a fit of this network costs, and what that rests on beside declared facts."""

    @abstractmethod
    def _learn(
        self, task: Task, records: Sensitive[Any], secret: Secret, *, progress: bool
    ) -> Float[np.ndarray, " dim"]:
        """The released parameters, at the price in the ledger."""

    def _task(self, num_features: int) -> Task:
        check.count(num_features=num_features)
        network = network_of(self.model, num_features=num_features, num_classes=len(self.classes))
        domain = self._domain()
        what = ["bounds" if isinstance(domain, Box) else "the largest norm of a row", "classes"]
        what += [] if self.num_records is None else ["number of records"]
        sentence = f"{', '.join(what[:-1])} and {what[-1]} were declared, not read from the records"
        return Task(network, domain, self._spent(network).assuming(sentence))

    def _domain(self) -> Domain:
        return domains.declared(bounds=self.bounds, row_norm=self.row_norm)

    def _settings(self, task: Task) -> dict[str, Any]:
        return {
            "network": task.network.to_json(),
            "sampler": self.name,
            "conditional": False,
            "num_models": 1,
            "facts": {
                "num_records": self.num_records,
                "declared": ["num_records"] if self.num_records is not None else [],
            },
        }
