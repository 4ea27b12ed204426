"""DP-SGD: noisy sums of clipped gradients over Poisson batches, accounted for by PLD."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from veilflow._core import check
from veilflow._core.keys import Secret
from veilflow.engine import Flat, Optimizer, TrainingPlan, progress_bar, train
from veilflow.models.assumptions import assuming
from veilflow.models.expm.baselines.baseline import Baseline, Task
from veilflow.models.expm.baselines.trainable import LOSS_FNS, LOSSES, trainable_of
from veilflow.models.expm.network import Logistic, Network
from veilflow.models.table.recipe import count_epsilon
from veilflow.privacy import calibration
from veilflow.privacy.events import PureDP
from veilflow.privacy.guarantees import Sensitive
from veilflow.privacy.ledger import Ledger
from veilflow.privacy.mechanisms import count_records

_NOMINAL = 10_000
"""A number of records to plan with; the ledger does not depend on it."""


@dataclass(frozen=True, kw_only=True)
class DpSgdClassifier(Baseline):
    """A classifier trained by DP-SGD.

    Guarantee:
        (epsilon, delta) as `budget` says, for adding or removing one record with its label, given that
        float32 noise and sums count as exact. Without `num_records` a count is paid for with 2 % of
        epsilon; it divides sums, and decides nothing else.

    Args:
        loss: "bce", the cross-entropy; or "l2", the squared error of probabilities.
        steps: Noisy steps.
        sampling_rate: The probability that a record enters a step.
        clip_norm: The largest norm of one record's gradient.
        learning_rate: Of Adam; None for 0.01 for networks and, for logistic regression, half
            of one over the root of the number of parameters.
        weight_decay: Pull of all weights to zero.
    """

    loss: str = "bce"
    steps: int = 400
    sampling_rate: float = 0.25
    clip_norm: float = 1.0
    learning_rate: float | None = None
    weight_decay: float = 0.0

    name: ClassVar[str] = "dp-sgd"

    def __post_init__(self) -> None:
        super().__post_init__()
        check.one_of(LOSSES, loss=self.loss)
        if not self.budget.private:
            raise ValueError("epsilon must be finite. Without privacy use NonPrivateClassifier.")
        if self.budget.delta == 0:
            raise ValueError(
                "DP-SGD needs a delta above 0, well below 1 / number of records. At delta 0 use "
                "vf.ExpMechClassifier or a perturbation."
            )
        check.count(steps=self.steps)
        check.rate(sampling_rate=self.sampling_rate)
        check.positive(clip_norm=self.clip_norm)
        check.nonnegative(weight_decay=self.weight_decay)
        if self.learning_rate is not None:
            check.positive(learning_rate=self.learning_rate)

    def plan(self, network: Network, *, num_records: int) -> TrainingPlan:
        """Every public number of the run.

        Args:
            network: Of the classifier.
            num_records: Declared, or released by a private count.
        """
        rate = self.learning_rate
        if rate is None:
            # the noise moves every parameter alike, so more of them take smaller steps
            rate = 0.5 / math.sqrt(network.dim) if isinstance(network, Logistic) else 0.01
        noise = calibration.noise_multiplier(
            self.budget,
            sampling_rate=self.sampling_rate,
            steps=self.steps,
            ledger=self._counting(),
        )
        return TrainingPlan(
            clipping=Flat(self.clip_norm),
            noise_multiplier=noise,
            sampling_rate=self.sampling_rate,
            expected_batch_size=self.sampling_rate * num_records,
            steps=self.steps,
            optimizer=Optimizer(learning_rate=rate, weight_decay=self.weight_decay),
        )

    def _counting(self) -> Ledger:
        if self.num_records is not None:
            return Ledger()
        return Ledger().spend(PureDP(count_epsilon(self.budget)), purpose="number of records")

    def _spent(self, network: Network) -> Ledger:
        event = self.plan(network, num_records=_NOMINAL).event
        ledger = self._counting().spend(event, purpose="training")
        return assuming(ledger, hardened=False, generator=True, seeded=self.seed is not None)

    def _learn(
        self, task: Task, records: Sensitive[Any], secret: Secret, *, progress: bool
    ) -> Float[np.ndarray, " dim"]:
        num = self.num_records
        if num is None:
            labels = records.map(lambda data: data[1])
            found = count_records(labels, epsilon=count_epsilon(self.budget)).value
            num = max(1, int(found))
        plan = self.plan(task.network, num_records=num)
        model = trainable_of(task.network, records.open()[0], key=secret.key("start"))
        show = progress_bar(
            plan,
            self._counting(),
            delta=self.budget.delta,
            total_epsilon=self.budget.epsilon,
            show=progress,
        )
        with show as monitor:
            released = train(
                plan, LOSS_FNS[self.loss], model, records, secret=secret, monitor=monitor
            )
        return np.nan_to_num(released.value.theta())
