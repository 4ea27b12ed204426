"""The parts of a density, from what was released: maps, the base, and the flow to be trained."""

import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Bool, Float, Key

from veilflow.flows import (
    AbstractBase,
    AbstractBijection,
    Flow,
    GaussianMixture,
    ShapedMixture,
)
from veilflow.models.assembly import Assembly, join, over
from veilflow.models.density_base import NORMAL, simple_base
from veilflow.models.density_plan import DensityPlan
from veilflow.models.estimator import Fit, Source
from veilflow.models.rehearsed_mixture import REHEARSAL, rehearsed
from veilflow.privacy.guarantees import Sensitive
from veilflow.releases.actnorm import ActNorms, with_actnorms
from veilflow.releases.columns import Columns
from veilflow.releases.em import Mixture
from veilflow.releases.grid import Grid
from veilflow.releases.mixture import ExpectationMaximization
from veilflow.releases.release import Monitor
from veilflow.releases.rows import seen_through
from veilflow.releases.training import PrivateTraining, trained
from veilflow.releases.whitening import Whitening

_MAPS = (Columns.purpose, Whitening.purpose)
"""The maps that can be released before a training, in the order in which rows pass them."""


def behind_maps(rows: Sensitive[np.ndarray], fit: Fit) -> Sensitive[np.ndarray]:
    """The rows behind all maps that were released so far, in their order."""
    for name in _MAPS:
        if name in fit.released:
            rows = fit.source.view(name, lambda x=rows, m=fit.released[name]: _behind(m, x))
    return rows


def openly_behind_maps(rows: np.ndarray, fit: Fit) -> np.ndarray:
    """The same for rows that are public, in the units of the data, for a fit that reads no records."""
    domain = fit.plan.domain
    rows = domain.encode(domain.clamp(rows)).astype(np.float32)
    for name in _MAPS:
        if name in fit.released:
            rows = seen_through(fit.released[name], rows)
    return rows


def _behind(bijection: AbstractBijection, rows: Sensitive[np.ndarray]) -> Sensitive[np.ndarray]:
    return rows.map(lambda values: seen_through(bijection, values))


def untrained(fit: Fit, base: AbstractBase) -> Flow | ShapedMixture:
    """What is trained over a base, before its first step."""
    plan: DensityPlan = fit.plan
    assert plan.flow is not None
    flow = plan.flow.build(plan.dim, key=fit.secret.key("weights"))
    if ActNorms.purpose in fit.released:
        flow = with_actnorms(flow, fit.released[ActNorms.purpose])
    if REHEARSAL in fit.released:
        flow = trained(flow, fit.released[REHEARSAL]["shape"])
    return over(base, flow)


def rehearsal_of(fit: Fit) -> Callable[[Monitor], dict[str, Any]]:
    """The rehearsal of the mixture that was released, to be run without the records."""
    return partial(_rehearsal, replace(fit, source=Source(Sensitive(None))))


def _rehearsal(fit: Fit, monitor: Monitor) -> dict[str, Any]:
    plan: DensityPlan = fit.plan
    shape = None
    if plan.flow is not None:
        shape = plan.flow.build(plan.dim, key=fit.secret.key("weights"))
    mixture, _ = fit.released[ExpectationMaximization.purpose]
    release = plan.release(ExpectationMaximization)
    assert release is not None
    return rehearsed(mixture, shape, release, fit.num_records, fit.secret, monitor)


def loss(
    model: Flow | ShapedMixture, row: Float[jax.Array, " dim"], key: Key[jax.Array, ""]
) -> Float[jax.Array, ""]:
    """The negative log-density. All of it depends on the row: the flows trained here have no more."""
    if isinstance(model, ShapedMixture):
        return -model.private_log_prob_of_one(row, key)
    return -model.private_log_prob(row)


def assembled(fit: Fit, base: AbstractBase) -> tuple[Flow, Assembly]:
    """The density over flow coordinates once everything is released, and its sizes."""
    plan: DensityPlan = fit.plan
    released = fit.released
    density: Flow | AbstractBase = base
    if plan.flow is not None:
        density = untrained(fit, base)
        if PrivateTraining.purpose in released:
            density = trained(density, released[PrivateTraining.purpose])
    maps = [released[name] for name in (Whitening.purpose, Columns.purpose) if name in released]
    columns = plan.release(Columns)
    assembly = Assembly(
        dim=plan.dim,
        architecture=plan.flow,
        linear=Whitening.purpose in released,
        pieces=None if columns is None else 2**columns.bits,
        border=plan.domain.border,
    )
    flow = join(density, maps)
    if not _is_sound(flow):
        warnings.warn(
            "training diverged: the density is not finite at the flow's own samples. "
            "Lower learning_rate or raise batch_size; a new fit is a new spend.",
            stacklevel=4,
        )
    return flow, assembly.with_base(base)


def released_base(fit: Fit) -> AbstractBase:
    """The base of the flow where it is released by the fit itself, or named by its plan."""
    if Grid.purpose in fit.released:
        return fit.released[Grid.purpose]
    if ExpectationMaximization.purpose in fit.released:
        mixture, _ = fit.released[ExpectationMaximization.purpose]
        if REHEARSAL in fit.released:
            mixture = Mixture(**fit.released[REHEARSAL]["mixture"])
        return GaussianMixture.create(mixture.weights, mixture.means, mixture.covariances)
    plan: DensityPlan = fit.plan
    return simple_base(plan.base or NORMAL, plan.dim)


def _is_sound(flow: Flow) -> bool:
    """Whether the density is finite at the flow's own samples; reads released parameters only."""
    return bool(_finite_at_samples(flow, jax.random.split(jax.random.key(0), 64)).all())


@eqx.filter_jit  # of the module, so that fits of the same sizes share one compiled program
def _finite_at_samples(flow: Flow, keys: Key[jax.Array, " n"]) -> Bool[jax.Array, " n"]:
    return jax.numpy.isfinite(jax.vmap(lambda key: flow.log_prob(flow.sample(key)))(keys))
