"""Output perturbation: the exact minimum of a strongly convex objective, plus noise.

A record that joins or leaves moves the gradient of the objective by at most R, the largest length of
a row, since the logistic loss has slope 1 at most. The objective is L-strongly convex, so its minimum
moves by at most R / L; and what is computed is within t / L of the minimum, where t is the length of
the gradient there. Two computed minima of neighbors are therefore within s = (R + 2 t) / L. Noise
with a density proportional to exp(-epsilon |b| / s) is epsilon-private; with a delta above 0, Gaussian
noise on the same sensitivity is added instead.

The published form divides sums by the number of records and is for replacing one of them, which has
twice the sensitivity. Here sums stay sums, and their number enters no bound.

References:
    Chaudhuri, Monteleoni, Sarwate, "Differentially private empirical risk minimization", 2011.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from veilflow._core.keys import Secret
from veilflow.models.expm.baselines.baseline import Task
from veilflow.models.expm.baselines.convex import bounded, gradient_bound, minimum, signed
from veilflow.models.expm.baselines.perturbation import (
    DOUBLE_ASSUMPTION,
    TOLERANCE,
    Perturbation,
    spherical,
    standard_normals,
)
from veilflow.models.expm.network import Network
from veilflow.privacy import calibration
from veilflow.privacy.events import Event, Gaussian, PureDP
from veilflow.privacy.guarantees import Sensitive
from veilflow.privacy.ledger import Ledger

_NOISE = (1e-2, 1e6)
_LENGTH = 1 / 3
"""Of the noise, as the rule for regularization has it; tuned on generated problems."""


@dataclass(frozen=True, kw_only=True)
class OutputPerturbation(Perturbation):
    """Logistic regression with noise on its parameters.

    Guarantee:
        Pure epsilon for adding or removing one record, at a delta of 0; else (epsilon, delta) by one
        Gaussian release. Noise is drawn from operating-system entropy, which no seed reaches, in
        double precision, which counts as exact: it is not hardened against floating-point attacks.
    """

    name: ClassVar[str] = "output-perturbation"

    def pull(self, network: Network) -> float:
        """The regularization of a fit."""
        if self.regularization is not None:
            return self.regularization
        return self._usual(network, length=_LENGTH)

    def sensitivity(self, network: Network) -> float:
        """How far one record moves what is computed, at most."""
        return (gradient_bound(self._norm(network)) + 2 * TOLERANCE) / self.pull(network)

    def event(self) -> Event:
        """What the release costs."""
        if self.budget.delta == 0:
            return PureDP(self.budget.epsilon)
        return Gaussian(
            calibration.calibrate(
                Gaussian,
                self.budget,
                bracket=_NOISE,
                increasing=False,
                guess=1 / calibration.gaussian_mu(self.budget),
                what="noise_multiplier",
            )
        )

    def _spent(self, network: Network) -> Ledger:
        ledger = Ledger().spend(self.event(), purpose="parameters")
        return ledger.assuming(DOUBLE_ASSUMPTION)

    def _learn(
        self, task: Task, records: Sensitive[Any], secret: Secret, *, progress: bool
    ) -> Float[np.ndarray, " dim"]:
        rows, labels = records.open()
        data = signed(bounded(rows, norm=self._norm(task.network)), labels)
        found = minimum(data, regularization=self.pull(task.network), tolerance=TOLERANCE)
        event, sensitivity = self.event(), self.sensitivity(task.network)
        if isinstance(event, Gaussian):
            noise = event.noise_multiplier * sensitivity * standard_normals(len(found))
        else:
            noise = spherical(len(found), scale=sensitivity / self.budget.epsilon)
        return found + noise
