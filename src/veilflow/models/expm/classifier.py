"""ExpM+NF: private classifiers by one draw from the exponential mechanism.

After Bridges, Tombs and Stanley, "Differentially private training via the exponential mechanism and
normalizing flows" (2024), made sound: a proper public prior, exact sums of losses, samplers whose
guarantee rests on nothing, and for the others a sentence that says on what it rests.
"""

import hashlib
import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from veilflow._core import check
from veilflow._core.keys import Secret
from veilflow.engine.progress import counting_bar
from veilflow.models import domain as domains
from veilflow.models.domain import Domain
from veilflow.models.expm.choice import check_model, classes_of, network_of
from veilflow.models.expm.fitted_classifier import FittedExpMechClassifier
from veilflow.models.expm.inputs import places_of, read_inputs
from veilflow.models.expm.loss import BoundedLoss
from veilflow.models.expm.pricing import Prices, resting_on, settle
from veilflow.models.expm.prior import Prior, check_prior
from veilflow.models.expm.sampler import CountingSampler, Sampler, sampler_of
from veilflow.models.expm.target import Target
from veilflow.models.settings import make_whole, warn_before
from veilflow.privacy.budget import Budget
from veilflow.privacy.guarantees import Sensitive
from veilflow.privacy.ledger import Ledger
from veilflow.privacy.mechanisms import count_records


@dataclass(frozen=True, kw_only=True)
class ExpMechClassifier:
    """A classifier to be drawn privately.

    Guarantee:
        Everything `fit` returns is differentially private as `budget` says, for adding or removing one
        record with its label. With sampler "zoom", "rejection" or "grid" that is unconditional, and
        delta may be 0. With "flow" or "hmc" it is CONDITIONAL on a sentence that travels with the
        guarantee. Bounds, classes, the prior, and the number of records if given, count as declared
        public facts.

    Args:
        budget: What the whole fit may spend.
        prior: Where parameters come from before any record is seen: `vf.GaussianPrior(2.0)` or
            `vf.LaplacePrior(1.0)`. Features are scaled to [-1, 1], so a scale of 1 to 5 is usual.
        sampler: "zoom" for rows with up to a few dozen features, "rejection" where epsilon times
            records is below 15 or so, "grid" for one or two parameters, "flow" and "hmc" without proof;
            or settings of one of them, from `vf.expm`.
        model: "logistic", "mlp", "grud" for series with gaps; or a network from `vf.expm`.
        loss: "l2", "ramp" or "clipped-ce"; or a `vf.expm.BoundedLoss`.
        bounds: `(low, high)`, numbers or one per feature, from knowledge of the domain and not from
            the records. Values outside are clamped.
        row_norm: Instead of bounds: the largest Euclidean norm of a row.
        num_records: How many records there are, if that may be known. Samplers that have to know it
            pay for a private count otherwise, with 2 % of epsilon.
        num_models: How many parameter vectors are released; predictions are their mean. They share the
            budget.
        model_epsilon: What each of them costs, instead of an equal share of the budget.
        classes: All values a label may have, in the order that `predict_proba` has them.
        seed: For repeatable research, and for one fit only. What is exact is drawn from
            operating-system entropy, which no seed reaches.

    Example:
        >>> import numpy as np, veilflow as vf
        >>> rows = np.random.default_rng(0).uniform(-1, 1, (5000, 3))
        >>> budget = vf.Budget(epsilon=1.0, delta=0)
        >>> estimator = vf.ExpMechClassifier(
        ...     budget=budget, prior=vf.GaussianPrior(2.0), bounds=(-1, 1), num_records=5000
        ... )
        >>> model = estimator.fit(rows, (rows[:, 0] > 0).astype(int))  # doctest: +SKIP
    """

    budget: Budget
    prior: Prior | None = None
    sampler: Any = "zoom"
    model: Any = "logistic"
    loss: Any = "l2"
    bounds: Any = None
    row_norm: float | None = None
    num_records: int | None = None
    num_models: int = 1
    model_epsilon: float | None = None
    classes: tuple[Any, ...] = (0, 1)
    seed: int | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        _check_budget(self.budget)
        check_prior(self.prior)
        object.__setattr__(self, "sampler", sampler_of(self.sampler))
        self._domain()
        object.__setattr__(self, "classes", classes_of(self.classes))
        check_model(self.model)
        object.__setattr__(self, "loss", self._loss())
        make_whole(self, "num_models")
        make_whole(self, "num_records", optional=True)
        if self.model_epsilon is not None:
            check.positive(model_epsilon=self.model_epsilon)
        Secret.from_seed(self.seed)

    def fit(self, features: Any, labels: Any, *, progress: bool = True) -> FittedExpMechClassifier:
        """Draw the classifier. A second call is a second spend.

        Args:
            features: Rows: a two-dimensional array, a frame, or the path of a file. Series: a tuple of
                values, mask (1 where measured) and time since the last measurement, each of shape
                (records, time, features).
            labels: One of the declared classes for each record. That all have the same is no error:
                whether they do is a fact about them.
            progress: Show a progress bar on standard error.

        Returns:
            The fitted model, which may be published.

        Raises:
            BudgetError: The settings cost more than the budget. Nothing was spent.
            ValueError: Features or labels are not as declared, or the sampler cannot reach the target.
        """
        warn_before(self.budget, self.num_records)
        inputs = read_inputs(features)
        if not len(inputs):
            raise ValueError("there are no records. A fit needs at least one.")
        # everything that decides the price is settled here, from public facts
        domain, prices = self._domain(), self._prices(inputs.num_features)
        domain.check_dim(inputs.num_features)
        places = places_of(labels, self.classes, num=len(inputs))
        secret = Secret.from_seed(self.seed)
        records = Sensitive((inputs.scaled(domain), places), description="records with labels")
        sampler, count = self._counted(prices, Sensitive(places, description="records"))
        thetas = []
        with counting_bar("drawing", self.num_models, show=progress) as monitor:
            for index in range(self.num_models):
                drawn = sampler.draw(prices.target, records, secret=_secret_of(secret, index))
                thetas.append(np.asarray(drawn.value, np.float32))
                monitor(index + 1)
        ledger = self._assuming(prices)
        return FittedExpMechClassifier(
            thetas=np.stack(thetas),
            network=prices.target.network,
            domain=domain,
            columns=inputs.columns,
            classes=self.classes,
            ledger=ledger,
            guarantee=ledger.guarantee(delta=self.budget.delta),
            settings=self._settings(prices, sampler, count),
        )

    def ledger(self, num_features: int) -> Ledger:
        """All that a fit will spend: public, and known before the records are.

        Args:
            num_features: In a row, or at each time of a series.

        Raises:
            BudgetError: The settings cost more than the budget.
        """
        return self._assuming(self._prices(num_features))

    def _prices(self, num_features: int) -> Prices:
        check.count(num_features=num_features)
        assert self.prior is not None
        target = Target(
            network=network_of(
                self.model, num_features=num_features, num_classes=len(self.classes)
            ),
            loss=self.loss,
            prior=self.prior,
            epsilon=self.budget.epsilon,
        )
        return settle(
            target,
            self.sampler,
            self.budget,
            num_models=self.num_models,
            num_records=self.num_records,
            model_epsilon=self.model_epsilon,
        )

    def _assuming(self, prices: Prices) -> Ledger:
        return resting_on(
            prices.ledger,
            prices.target,
            prices.sampler,
            self._domain(),
            num_records=self.num_records,
            seeded=self.seed is not None,
        )

    def _counted(self, prices: Prices, records: Sensitive[Any]) -> tuple[Any, int | None]:
        """The sampler with the number of records, and that number: declared, or paid for here."""
        if not prices.count:
            return prices.sampler, self.num_records
        found = max(1, int(count_records(records, epsilon=prices.count).value))
        self.budget.warn_if_weak(found)
        assert isinstance(prices.sampler, CountingSampler)
        return prices.sampler.knowing(found), found

    def _settings(self, prices: Prices, sampler: Sampler, count: int | None) -> dict[str, Any]:
        return {
            "network": prices.target.network.to_json(),
            "loss": prices.target.loss.to_json(),
            "prior": prices.target.prior.to_json(),
            "sampler": sampler.name,
            "conditional": sampler.assumption is not None,
            "model_epsilon": float(prices.target.epsilon),
            "num_models": self.num_models,
            "facts": {
                "num_records": count,
                "declared": ["num_records"] if self.num_records is not None else [],
            },
        }

    def _domain(self) -> Domain:
        return domains.declared(bounds=self.bounds, row_norm=self.row_norm)

    def _loss(self) -> BoundedLoss:
        num = len(self.classes)
        if isinstance(self.loss, str):
            return BoundedLoss(self.loss, num)
        if not isinstance(self.loss, BoundedLoss):
            raise TypeError(
                f"loss must be a name or a vf.expm.BoundedLoss, got {type(self.loss).__name__}. The "
                "bound of a function cannot be seen, and the guarantee rests on it."
            )
        if self.loss.num_classes != num:
            raise ValueError(
                f"loss is for {self.loss.num_classes} classes and {num} are declared. Give both the "
                "same."
            )
        return self.loss


def _check_budget(budget: object) -> None:
    if not isinstance(budget, Budget):
        raise TypeError(
            f"budget must be a Budget, got {type(budget).__name__}. "
            "Write budget=vf.Budget(epsilon=1.0, delta=0)."
        )
    if budget.epsilon == math.inf:
        raise ValueError(
            "epsilon must be finite: the exponential mechanism has no limit that is drawn from. For a "
            "classifier without privacy use vf.expm.baselines.NonPrivateClassifier."
        )


def _secret_of(secret: Secret, index: int) -> Secret:
    """A secret for one of several models, so that no two of them share a key."""
    digest = hashlib.blake2b(
        index.to_bytes(8, "little"), key=secret.reveal(), person=b"one model", digest_size=32
    )
    return Secret(digest.digest(), chosen=secret.chosen)
