"""Objective perturbation: the exact minimum of a strongly convex objective with a random tilt.

The objective is the sum of losses, plus L/2 |w|^2, plus b.w with b drawn from a density proportional to
exp(-beta |b|). At the minimum w the tilt is known: b = -(sum of gradients of losses + L w). So w has
the density of that b, times the determinant of the second derivative A of the objective without tilt.
A record that joins or leaves
- moves b by at most R, the largest length of a row, which changes the first factor by e^(beta R);
- adds to A, or takes from it, one direction with an eigenvalue of at most R^2 / 4, which changes the
  second factor by 1 + R^2 / (4 L).

Together epsilon = beta R + log(1 + R^2 / (4 L)), in both directions; hence beta, and a least L. The
published form is for replacing a record and has both terms twice.

The proof is about the exact minimum. What is computed has a gradient of 1e-7 or less in double
precision, and the guarantee says that this counts as exact.

References:
    Chaudhuri, Monteleoni, Sarwate, "Differentially private empirical risk minimization", 2011.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from reproductions.expm_nf.baselines.convex import (
    bounded,
    curvature_bound,
    gradient_bound,
    minimum,
    signed,
)
from reproductions.expm_nf.baselines.perturbation import (
    DOUBLE_ASSUMPTION,
    TOLERANCE,
    Perturbation,
    spherical,
)
from veilflow.engine import Secret
from veilflow.privacy.assumptions import Conditional
from veilflow.privacy.events import PureDP
from veilflow.privacy.guarantees import Sensitive
from veilflow.privacy.ledger import Ledger
from veilflow.privacy.unit import Unit

EXACT_ASSUMPTION = Conditional(f"a minimum to a gradient of {TOLERANCE:g} counts as the exact one")
_LENGTH = 2.0
"""That the tilt alone moves parameters by, as the rule for regularization has it; likewise tuned."""
_SHARE = 0.25
"""Of epsilon, that the rule lets the determinants have at most."""


@dataclass(frozen=True, kw_only=True)
class ObjectivePerturbation(Perturbation):
    """Logistic regression with noise in its objective.

    Guarantee:
        Pure epsilon for adding or removing one record, whatever delta the budget has. The tilt is drawn
        from operating-system entropy, which no seed reaches, in double precision, which counts as
        exact; so does the minimum.
    """

    def pull(self) -> float:
        """The regularization of a fit.

        Raises:
            ValueError: So little that the determinants alone would cost more than epsilon.
        """
        bend, epsilon = curvature_bound(self._norm()), self.budget.epsilon
        if self.regularization is None:
            least = bend / math.expm1(_SHARE * epsilon)
            return max(self._usual(length=_LENGTH), least)
        if math.log1p(bend / self.regularization) >= epsilon:
            raise ValueError(
                f"regularization={self.regularization:g} is too small for epsilon={epsilon:g}: give "
                f"more than {bend / math.expm1(epsilon):.4g}."
            )
        return self.regularization

    def beta(self) -> float:
        """The rate at which the density of the tilt falls with its length."""
        norm = self._norm()
        paid = math.log1p(curvature_bound(norm) / self.pull())
        return (self.budget.epsilon - paid) / gradient_bound(norm)

    def _spent(self) -> Ledger:
        self.pull()  # refused before a record is looked at
        ledger = Ledger(unit=Unit.RECORD).spend(PureDP(self.budget.epsilon), purpose="parameters")
        return ledger.assuming(DOUBLE_ASSUMPTION, EXACT_ASSUMPTION)

    def _learn(self, records: Sensitive[Any], secret: Secret) -> Float[np.ndarray, " dim"]:
        rows, labels = records.open()
        data = signed(bounded(rows, norm=self._norm()), labels)
        tilt = spherical(data.shape[1], scale=1 / self.beta())
        return minimum(data, regularization=self.pull(), tolerance=TOLERANCE, tilt=tilt)
