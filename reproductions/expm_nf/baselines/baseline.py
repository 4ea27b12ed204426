"""What all baselines have in common: declared facts, a ledger before the fit, one fitted classifier."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

import veilflow as vf
from reproductions.expm_nf.sets import scaled
from veilflow.engine import Secret
from veilflow.privacy.assumptions import declared
from veilflow.privacy.guarantees import Guarantee, Sensitive
from veilflow.privacy.ledger import Ledger
from veilflow.privacy.unit import Unit


@dataclass(frozen=True)
class Fitted:
    """A classifier of two classes, with what it cost."""

    theta: Float[np.ndarray, " dim"]
    network: Any
    bounds: tuple[float, float]
    ledger: Ledger
    guarantee: Guarantee

    def predict_proba(self, features: Any) -> Float[np.ndarray, "records two"]:
        """The probability of each class for every record."""
        records = jax.tree.map(jnp.asarray, scaled(features, self.bounds))
        second = np.asarray(_outputs(self.network, jnp.asarray(self.theta), records))
        return np.stack([1 - second, second], axis=1)


@partial(jax.jit, static_argnums=0)
def _outputs(network: Any, theta: Any, records: Any) -> Any:
    return jax.vmap(network.outputs, (None, 0))(theta, records)


@dataclass(frozen=True, kw_only=True)
class Baseline(ABC):
    """A classifier to be fitted. Bounds and the number of records are declared facts.

    Args:
        budget: What the whole fit may spend.
        model: A network of `vf.expm` for two classes.
        bounds: `(-b, b)` of all features. Values outside are clamped.
        num_records: How many records there are, if that may be known.
        seed: For repeatable research, and for one fit only.
    """

    budget: vf.Budget
    model: Any
    bounds: tuple[float, float]
    num_records: int | None = None
    seed: int | None = None

    def __post_init__(self) -> None:
        if self.bounds[0] != -self.bounds[1]:
            raise ValueError(f"bounds must lie around 0, got {self.bounds}.")
        if self.model.num_classes != 2:
            raise ValueError(f"baselines tell two classes apart, not {self.model.num_classes}.")

    def ledger(self) -> Ledger:
        """All that a fit will spend: public, and known before the records are."""
        return self._spent().assuming(declared("bounds", num_records=self.num_records))

    def fit(self, features: Any, labels: Any, *, progress: bool = False) -> Fitted:
        """Fit the classifier. A second call is a second spend.

        Args:
            features: Rows, or series with masks, as `vf.ExpMechClassifier.fit` takes them.
            labels: 0 or 1 for each record.
            progress: As other estimators take it. These are quick: there is no bar.

        Raises:
            BudgetError: The settings cost more than the budget. Nothing was spent.
        """
        ledger = self.ledger()
        self.budget.admit(ledger)
        records = Sensitive(
            (scaled(features, self.bounds), np.asarray(labels, np.int32)),
            description="records with labels",
            unit=Unit.RECORD,
        )
        theta = np.asarray(self._learn(records, Secret.from_seed(self.seed)), np.float32)
        guarantee = ledger.guarantee(delta=self.budget.delta)
        return Fitted(theta, self.model, self.bounds, ledger, guarantee)

    @abstractmethod
    def _spent(self) -> Ledger:
        """What a fit costs, and what that rests on beside declared facts."""

    @abstractmethod
    def _learn(self, records: Sensitive[Any], secret: Secret) -> Float[np.ndarray, " dim"]:
        """The released parameters, at the price in the ledger."""
