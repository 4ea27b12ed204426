"""A released model fitted again to its own samples, which costs no budget.

Rows of no fit are odder to a model than its own samples are: it has learned accidents of its records,
and noise has moved its components. By how much follows from a second fit with the plan of the first, to
as many samples of the first as there were records. To that fit the first model is the truth.

All of it is post-processing: samples are public once the model is, and the noise of the second fit
hides nothing.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from veilflow._core.keys import Secret
from veilflow.models.density import DensityFlow
from veilflow.models.density_base import SIMPLE
from veilflow.models.density_parts import openly_behind_maps
from veilflow.models.density_plan import DensityPlan
from veilflow.models.detect.thresholds import rate_above, threshold_of
from veilflow.models.domain import Ball, Box, Domain
from veilflow.models.estimator import Fit
from veilflow.models.fitted_density import FittedDensityFlow
from veilflow.models.mixture import FittedMixtureDensity, MixtureDensity
from veilflow.models.rehearsal import release_openly
from veilflow.models.rehearsed_training import Program, Rehearsed, rehearsed, why_not
from veilflow.models.rows import RowDensity, RowEstimator
from veilflow.releases.training import PrivateTraining, arrays_of

Rows = Float[np.ndarray, "rows dim"]

_COUNT = "num_records"
"""The released fact that says how many samples a second fit needs."""


@dataclass(frozen=True)
class SecondFit:
    """Scores by a second fit, to which samples of the first model are rows of no fit.

    Attributes:
        further: Of samples of the first model that the second fit has not seen.
        own: Of samples of the second model itself.
    """

    further: Float[np.ndarray, " rows"]
    own: Float[np.ndarray, " rows"]

    @classmethod
    def of(cls, model: Any, num_samples: int, *, seed: int | None) -> "SecondFit":
        """Fit again and score; see `refitted`."""
        # the samples that are scored are not those of the fit
        seeds = (None,) * 3 if seed is None else np.random.SeedSequence(seed).generate_state(3)
        again = refitted(model, seed=seeds[0])
        further = model.sample(num_samples, seed=seeds[1])
        own = again.sample(num_samples, seed=seeds[2])
        return cls(-again.log_prob(further), -again.log_prob(own))

    def rate(self, asked: float) -> float:
        """How many of its own samples exceed the threshold that further rows exceed at `asked`."""
        return rate_above(threshold_of(self.further, asked, "num_samples"), self.own)


def can_refit(model: Any) -> bool:
    """Whether a second fit is possible: for private densities and mixtures of their own records alone.

    A base that was given has seen other records, and the second fit would need samples of it as well.
    Other ways to clip than the default, and correlated noise, are not rehearsed.
    """
    if not isinstance(model, FittedDensityFlow | FittedMixtureDensity):
        return False
    plan, known = model.plan, _COUNT in model.facts
    training = plan.release(PrivateTraining)
    plain = training is None or why_not(training.settings) is None
    own = not isinstance(plan, DensityPlan) or plan.base is None or plan.base in SIMPLE
    return known and plain and own and plan.budget.private


def refitted(model: Any, *, seed: int | None) -> RowDensity:
    """A model of the same plan, fitted to as many samples of `model` as it had records.

    Trainings are rehearsed: with the planned steps and noise, on batches of fewer rows.

    Args:
        model: One that `can_refit`.
        seed: Decides samples and noise.
    """
    plan, secret = model.plan, Secret.from_seed(seed).child("second fit")
    rows = model.sample(model.facts[_COUNT], seed=seed)
    estimator = _estimator(model)
    fit = Fit(plan, estimator.read(rows), secret)
    for release in plan.releases:
        if isinstance(release, PrivateTraining):
            known = estimator.query(release, fit).known
            program = Program.of(release, plan.flow)
            task = Rehearsed(known["task"], openly_behind_maps(rows, fit))
            (trained,) = rehearsed(program, [task], secret.key("rehearsal"))
            fit.released[release.purpose] = [np.asarray(x) for x in arrays_of(trained)]
        else:
            release_openly(estimator, release, fit)
    return estimator.assemble(fit)


def _estimator(model: FittedDensityFlow | FittedMixtureDensity) -> RowEstimator[Any]:
    """An estimator that asks what the plan of a model asks, and makes a model of the answers."""
    plan = model.plan
    public: dict[str, Any] = {"budget": plan.budget, **_declared(plan.domain)}
    if isinstance(model, FittedMixtureDensity):
        return MixtureDensity(**public)
    return DensityFlow(**public)


def _declared(domain: Domain) -> dict[str, Any]:
    """A domain as estimators take it."""
    if isinstance(domain, Ball):
        return {"row_norm": domain.row_norm}
    assert isinstance(domain, Box)
    return {"bounds": (domain.low, domain.high)}
