"""Output perturbation: the exact minimum of a strongly convex objective, plus noise.

A record that joins or leaves moves the gradient of the objective by at most R, the largest length of
a row, since the logistic loss has slope 1 at most. The objective is L-strongly convex, so its minimum
moves by at most R / L; and what is computed is within t / L of the minimum, where t is the length of
the gradient there. Two computed minima of neighbors are therefore within s = (R + 2 t) / L. Noise
with a density proportional to exp(-epsilon |b| / s) is epsilon-private.

The published form divides sums by the number of records and is for replacing one of them, which has
twice the sensitivity. Here sums stay sums, and their number enters no bound.

References:
    Chaudhuri, Monteleoni, Sarwate, "Differentially private empirical risk minimization", 2011.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from reproductions.expm_nf.baselines.convex import bounded, gradient_bound, minimum, signed
from reproductions.expm_nf.baselines.perturbation import (
    DOUBLE_ASSUMPTION,
    TOLERANCE,
    Perturbation,
    spherical,
)
from veilflow.engine import Secret
from veilflow.privacy.events import PureDP
from veilflow.privacy.guarantees import Sensitive
from veilflow.privacy.ledger import Ledger
from veilflow.privacy.unit import Unit

_LENGTH = 1 / 3
"""Of the noise, as the rule for regularization has it; tuned on generated problems."""


@dataclass(frozen=True, kw_only=True)
class OutputPerturbation(Perturbation):
    """Logistic regression with noise on its parameters.

    Guarantee:
        Pure epsilon for adding or removing one record. Noise is drawn from operating-system entropy,
        which no seed reaches, in double precision, which counts as exact: it is not safe from
        floating-point attacks.
    """

    def pull(self) -> float:
        """The regularization of a fit."""
        return self.regularization or self._usual(length=_LENGTH)

    def sensitivity(self) -> float:
        """How far one record moves what is computed, at most."""
        return (gradient_bound(self._norm()) + 2 * TOLERANCE) / self.pull()

    def _spent(self) -> Ledger:
        ledger = Ledger(unit=Unit.RECORD).spend(PureDP(self.budget.epsilon), purpose="parameters")
        return ledger.assuming(DOUBLE_ASSUMPTION)

    def _learn(self, records: Sensitive[Any], secret: Secret) -> Float[np.ndarray, " dim"]:
        rows, labels = records.open()
        data = signed(bounded(rows, norm=self._norm()), labels)
        found = minimum(data, regularization=self.pull(), tolerance=TOLERANCE)
        return found + spherical(len(found), scale=self.sensitivity() / self.budget.epsilon)
