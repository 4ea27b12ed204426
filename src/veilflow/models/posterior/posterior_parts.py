"""The parts of a posterior's fit: its records, the task of its steps, and the guide it ends with."""

import os
import warnings
from dataclasses import replace
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from veilflow._core.errors import FewRecordsWarning
from veilflow.flows import FixedLinear
from veilflow.models.estimator import Fit
from veilflow.models.posterior import training
from veilflow.models.posterior.exploration import Explored
from veilflow.models.posterior.fitting import Target, fitted_to, fitted_to_draws
from veilflow.models.posterior.guides import FlatGuide
from veilflow.models.posterior.posterior_plan import PosteriorPlan
from veilflow.privacy.guarantees import Sensitive
from veilflow.privacy.unit import Unit
from veilflow.releases.rounds.newton import NewtonRounds
from veilflow.releases.rounds.statistics import LogLikelihood
from veilflow.releases.rounds.surrogate import LogPrior, Surrogate, normal_of
from veilflow.releases.rounds.values import LikelihoodValues, Values
from veilflow.releases.training import PrivateTraining, Task, trained
from veilflow.tabular import arrays
from veilflow.tabular.io import read_rows

_REACH = 2.0
"""Bound on a record's gradient in the steps, relative to the clip norm of the rounds."""
FEW = (
    "there are few records for so much noise. Lengths of gradients hardly stand out of it, so they are "
    "clipped at a guess that leaves room: the posterior is wider than with more records, and may be "
    "off by more than it says. More records or a larger epsilon would help; a new fit is a new spend"
)
"""The warning of a fit whose rounds had few records."""


def read_records(data: Any) -> Sensitive[PyTree]:
    """Records of a scientific model: arrays of any shape, one record along their first axis.

    All numbers become float32, integers as well: the type of an array may depend on a single record,
    because one NaN turns integers into floats, and integers would wrap around at 2^31 on the device. A
    likelihood that indexes by a number of a record rounds it first: `jnp.round(x).astype(int)`.

    Args:
        data: An array, a tuple or dictionary of arrays, a frame, or the path of a file of numbers.

    Raises:
        ValueError: Arrays differ in length, or have no axis for records.
        TypeError: A cell is not a number.
    """
    if isinstance(data, str | os.PathLike) or hasattr(data, "columns"):
        data = read_rows(data).values
    records = jax.tree.map(_numbers, data)
    lengths = {array.shape[:1] for array in jax.tree.leaves(records)}
    if len(lengths) != 1 or () in lengths:
        raise ValueError(
            "records must be arrays of one common length: one record along the first axis of each. "
            "Give an array, or a tuple or dictionary of arrays."
        )
    return Sensitive(records, description="records of a model", unit=Unit.RECORD)


def _numbers(array: Any) -> np.ndarray:
    cells = arrays.numbers(np.asarray(array))
    if cells.unreadable.any():
        raise TypeError("records must hold numbers, and some cells are not numbers.")
    with np.errstate(over="ignore"):  # beyond float32 is infinite, and adds nothing to a sum
        return arrays.or_nan(cells).astype(np.float32)


def task(
    release: PrivateTraining, fit: Fit, *, log_likelihood: LogLikelihood, log_prior: LogPrior
) -> Task:
    """What the noisy steps train, and how."""
    surrogate, number, num_draws = _surrogate(fit), num_records(fit), _plan(fit).flow.num_draws
    settings = release.settings
    if settings.clip_norm is None:
        assert surrogate is not None
        settings = replace(settings, clip_norm=_REACH * surrogate.length)
    return Task(
        plan=replace(release, settings=settings).plan(number),
        model=_untrained(fit, log_prior),
        loss=training.record_loss(log_likelihood, num_draws),
        public_loss=training.public_loss(log_prior, num_draws, float(number)),
    )


def guide(fit: Fit, *, log_prior: LogPrior) -> FlatGuide:
    """The guide after all releases of the plan."""
    if PrivateTraining.purpose in fit.released:
        return trained(_declared(fit), fit.released[PrivateTraining.purpose])
    return _untrained(fit, log_prior)


def num_records(fit: Fit) -> int:
    """The declared number of records, or the one that the rounds estimate."""
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
    """Warn where noise hid the records, in some directions or altogether."""
    surrogate = _surrogate(fit)
    # between two modes there may be no curvature, and values tell of both
    unexplored = not any(one.significant for one in _values(fit))
    if surrogate is not None and surrogate.unknown and unexplored:
        warnings.warn(
            f"in {surrogate.unknown} of {_plan(fit).dim} directions the released numbers cannot be "
            "told from noise: there the posterior is the prior, within three times the scale. More "
            "records or a larger epsilon would help; a new fit is a new spend.",
            stacklevel=4,
        )
    if surrogate is not None and surrogate.few:
        warnings.warn(f"{FEW}.", FewRecordsWarning, stacklevel=4)


def _untrained(fit: Fit, log_prior: LogPrior) -> FlatGuide:
    """The guide fitted to what the rounds released, or as declared where there are none."""
    plan, surrogate = _plan(fit), _surrogate(fit)
    if surrogate is None:
        return _declared(fit)
    if plan.flow.target == "values" and explored(fit, log_prior=log_prior).informative:
        draws = explored(fit, log_prior=log_prior).draws(noise_aware=plan.flow.noise_aware)
        moments = draws.mean(axis=0), np.atleast_2d(np.cov(draws.T))
        guide = FlatGuide.at(plan.flow, *moments, secret=fit.secret)
        return fitted_to_draws(guide, draws, secret=fit.secret)
    if plan.flow.noise_aware:
        surrogate = surrogate.aware()
    moments = normal_of(surrogate, log_prior)
    return fitted_to(
        Target.of(surrogate, log_prior),
        FlatGuide.at(plan.flow, *moments, secret=fit.secret),
        secret=fit.secret,
        around=FixedLinear.from_moments(*moments),
    )


def _declared(fit: Fit) -> FlatGuide:
    """The guide before anything is released."""
    plan = _plan(fit)
    covariance = np.diag(np.array(plan.scale) ** 2)
    return FlatGuide.at(plan.flow, np.array(plan.start), covariance, secret=fit.secret)


def explored(fit: Fit, *, log_prior: LogPrior) -> Explored:
    """What the rounds and the rounds of values so far have released."""
    plan, surrogate = _plan(fit), _surrogate(fit)
    assert surrogate is not None
    return Explored(
        start=np.array(plan.start),
        scale=np.array(plan.scale),
        surrogate=surrogate,
        log_prior=log_prior,
        values=_values(fit),
        secret=fit.secret,
    )


def _values(fit: Fit) -> tuple[Values, ...]:
    asked = [one.purpose for one in _plan(fit).releases if isinstance(one, LikelihoodValues)]
    return tuple(fit.released[name] for name in asked if name in fit.released)


def _surrogate(fit: Fit) -> Surrogate | None:
    return fit.released.get(NewtonRounds.purpose)


def _plan(fit: Fit) -> PosteriorPlan:
    assert isinstance(fit.plan, PosteriorPlan)
    return fit.plan
