"""A posterior put together from what was released: the guide before its steps, and these."""

import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from veilflow._core.errors import FewRecordsWarning
from veilflow.flows import FixedLinear
from veilflow.models.estimator import Fit
from veilflow.models.posterior import fitting, training
from veilflow.models.posterior.flat_guide import FlatGuide
from veilflow.models.posterior.posterior_plan import PosteriorPlan
from veilflow.releases.rounds.newton import NewtonRounds
from veilflow.releases.rounds.statistics import LogLikelihood
from veilflow.releases.rounds.surrogate import LogPrior, Surrogate, normal_of
from veilflow.releases.training import PrivateTraining, Task, trained

_REACH = 2.0
"""Bound on a record's gradient in the steps, over what gradients were cut to in the rounds."""
FEW = (
    "there are few records for so much noise. Lengths of gradients hardly stand out of it, so they are "
    "cut by a guess that leaves room: the posterior is wider than with more records, and may be off by "
    "more than it says. More records or a larger epsilon would help; a new fit is a new spend"
)
"""What a fit warns of where its rounds had few records."""


def task(
    release: PrivateTraining, fit: Fit, *, log_likelihood: LogLikelihood, log_prior: LogPrior
) -> Task:
    """What the steps train, and how."""
    plan, surrogate, number = _plan(fit), _surrogate(fit), num_records(fit)
    settings = release.settings
    if settings.clip_norm is None:
        assert surrogate is not None
        settings = replace(settings, clip_norm=_REACH * surrogate.length)
    return Task(
        plan=replace(release, settings=settings).plan(number),
        model=_untrained(fit, log_prior),
        loss=training.record_loss(log_likelihood, plan.num_draws),
        public_loss=training.public_loss(log_prior, plan.num_draws, float(number)),
    )


def guide(fit: Fit, *, log_prior: LogPrior) -> FlatGuide:
    """The guide after all releases of the plan."""
    if PrivateTraining.purpose in fit.released:
        return trained(_declared(fit), fit.released[PrivateTraining.purpose])
    return _untrained(fit, log_prior)


def num_records(fit: Fit) -> int:
    """Declared, or from the rounds' counts of lengths."""
    if fit.plan.num_records is not None:
        return fit.plan.num_records
    surrogate = _surrogate(fit)
    assert surrogate is not None
    return max(1, round(surrogate.num_records))


def facts(fit: Fit) -> dict[str, Any]:
    """What the rounds released, as plain numbers."""
    surrogate = _surrogate(fit)
    if surrogate is None:
        return {}
    return {
        "mean": surrogate.mean.tolist(),
        "precision": surrogate.precision.tolist(),
        "noise": surrogate.noise.tolist(),
        "unknown": surrogate.unknown,
        "few": surrogate.few,
    }


def warn_of_noise(fit: Fit) -> None:
    """Warn where the noise hid the records, in some directions or as a whole."""
    surrogate = _surrogate(fit)
    if surrogate is not None and surrogate.unknown:
        warnings.warn(
            f"in {surrogate.unknown} of {_plan(fit).dim} directions what was released is not told "
            "from noise: there the posterior is the prior, within three times the scale. More records "
            "or a larger epsilon would tell; a new fit is a new spend.",
            stacklevel=4,
        )
    if surrogate is not None and surrogate.few:
        warnings.warn(f"{FEW}.", FewRecordsWarning, stacklevel=4)


def _untrained(fit: Fit, log_prior: LogPrior) -> FlatGuide:
    """The guide, fitted to what the rounds released, or placed by what is declared."""
    plan, surrogate = _plan(fit), _surrogate(fit)
    if surrogate is None:
        return _declared(fit)
    known = surrogate.aware() if plan.noise_aware else surrogate
    target = fitting.target_of(known, log_prior)
    mean, covariance = normal_of(known, log_prior)
    placed = fitting.placed(plan.flow, mean, covariance, secret=fit.secret)
    around = FixedLinear.from_moments(mean, covariance)
    return fitting.fitted_to(target, placed, name=plan.objective, secret=fit.secret, around=around)


def _declared(fit: Fit) -> FlatGuide:
    """The guide before anything is released."""
    plan = _plan(fit)
    covariance = np.diag(np.array(plan.scale) ** 2)
    return fitting.placed(plan.flow, np.array(plan.start), covariance, secret=fit.secret)


def _surrogate(fit: Fit) -> Surrogate | None:
    return fit.released.get(NewtonRounds.purpose)


def _plan(fit: Fit) -> PosteriorPlan:
    assert isinstance(fit.plan, PosteriorPlan)
    return fit.plan
