"""DP-SGD: noisy sums of clipped gradients over Poisson batches, accounted for by PLD."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

import veilflow as vf
from reproductions.expm_nf.baselines.baseline import Baseline
from reproductions.expm_nf.baselines.trainable import LOSS_FNS, trainable_of
from veilflow.engine import Flat, Optimizer, Secret, TrainingPlan, train
from veilflow.engine.loop import noise_slack
from veilflow.privacy import calibration
from veilflow.privacy.assumptions import of_noise
from veilflow.privacy.guarantees import Sensitive
from veilflow.privacy.ledger import Ledger
from veilflow.privacy.unit import Unit


@dataclass(frozen=True, kw_only=True)
class DpSgdClassifier(Baseline):
    """A classifier trained by DP-SGD. The number of records must be declared.

    Guarantee:
        (epsilon, delta) as `budget` says, for adding or removing one record with its label, given that
        sums of floats count as exact.

    Args:
        loss: "bce", the cross-entropy; or "l2", the squared error of probabilities.
        steps: Noisy steps.
        sampling_rate: The probability that a record enters a step.
        clip_norm: The largest norm of one record's gradient.
        learning_rate: Of Adam; None for 0.01 for networks and, for logistic regression, half
            of one over the root of the number of parameters.
        weight_decay: Pull of weights to zero, times the learning rate.
        dropout: The share of a series's last state that is left out in training.
        accountant: What finds the noise: "pld", or "rdp" for comparison. The ledger is accounted for
            by PLD in any case.
    """

    loss: str = "bce"
    steps: int = 400
    sampling_rate: float = 0.25
    clip_norm: float = 1.0
    learning_rate: float | None = None
    weight_decay: float = 0.0
    dropout: float = 0.0
    accountant: str = "pld"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.loss not in LOSS_FNS:
            raise ValueError(f"loss must be one of {', '.join(LOSS_FNS)}, got {self.loss!r}.")
        if not (self.budget.private and self.budget.delta > 0):
            raise ValueError("DP-SGD needs a finite epsilon and a delta above 0.")
        if self.num_records is None:
            raise ValueError("DP-SGD needs a declared number of records, which divides its sums.")

    def plan(self) -> TrainingPlan:
        """Every public number of the run."""
        assert self.num_records is not None
        rate = self.learning_rate
        if rate is None:
            # the noise moves every parameter alike, so more of them take smaller steps
            is_linear = isinstance(self.model, vf.expm.Logistic)
            rate = 0.5 / math.sqrt(self.model.dim) if is_linear else 0.01
        noise = calibration.noise_multiplier(
            self.budget,
            sampling_rate=self.sampling_rate,
            steps=self.steps,
            ledger=self._before(),
            accountant=self.accountant,
        )
        return TrainingPlan(
            clipping=Flat(self.clip_norm),
            noise_multiplier=noise,
            sampling_rate=self.sampling_rate,
            expected_batch_size=self.sampling_rate * self.num_records,
            steps=self.steps,
            optimizer=Optimizer(learning_rate=rate, weight_decay=self.weight_decay),
        )

    def _before(self) -> Ledger:
        """What is paid beside the steps: noise on a grid is only almost Gaussian."""
        slack = noise_slack(self.model.dim, steps=self.steps)
        return Ledger(unit=Unit.RECORD).spend(slack, purpose="distance of grid noise from Gaussian")

    def _spent(self) -> Ledger:
        ledger = self._before().spend(self.plan().event, purpose="training")
        return ledger.assuming(*of_noise(seeded=self.seed is not None))

    def _learn(self, records: Sensitive[Any], secret: Secret) -> Float[np.ndarray, " dim"]:
        # of the records, only how many hours a series has
        key = secret.key("start")
        model = trainable_of(self.model, records.open()[0], key=key, dropout=self.dropout)
        released = train(self.plan(), LOSS_FNS[self.loss], model, records, secret=secret)
        return np.nan_to_num(released.value.theta())
