"""A density put together from what was released: base, maps, and the flow before and after training."""

import warnings
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from veilflow.flows import AbstractBase, AbstractBijection, Flow, GaussianMixture, StandardNormal
from veilflow.models.assembly import Assembly, in_order, join
from veilflow.models.density_plan import DensityPlan
from veilflow.models.estimator import Fit
from veilflow.privacy.guarantees import Sensitive
from veilflow.releases.actnorm import ActNorms, with_actnorms
from veilflow.releases.columns import Columns
from veilflow.releases.grid import Grid
from veilflow.releases.mixture import ExpectationMaximization
from veilflow.releases.rows import seen_through
from veilflow.releases.training import PrivateTraining, trained
from veilflow.releases.whitening import Whitening


def behind_maps(rows: Sensitive[np.ndarray], fit: Fit) -> Sensitive[np.ndarray]:
    """The rows seen through all maps that were released, in their order."""
    for name in (Columns.purpose, Whitening.purpose):
        if name in fit.released:
            rows = fit.source.view(name, lambda x=rows, m=fit.released[name]: _behind(m, x))
    return rows


def _behind(bijection: AbstractBijection, rows: Sensitive[np.ndarray]) -> Sensitive[np.ndarray]:
    return rows.map(lambda values: seen_through(bijection, values))


def untrained(fit: Fit) -> Flow:
    """The flow before its first step."""
    plan = plan_of(fit)
    assert plan.flow is not None
    flow = plan.flow.build(plan.dim, key=fit.secret.key("weights"))
    if ActNorms.purpose in fit.released:
        flow = with_actnorms(flow, fit.released[ActNorms.purpose])
    base = _base(fit)
    return flow if isinstance(base, StandardNormal) else Flow(base, in_order(flow.bijection))


def assembled(fit: Fit, *, border: float) -> tuple[Flow, Assembly]:
    """The whole density in flow coordinates, and its sizes.

    Args:
        fit: With all releases of its plan.
        border: Where the domain ends.
    """
    plan, released, base, bijection = plan_of(fit), fit.released, _base(fit), None
    if plan.flow is not None:
        flow = untrained(fit)
        if PrivateTraining.purpose in released:
            flow = trained(flow, released[PrivateTraining.purpose])
        bijection = flow.bijection
    maps = [released[name] for name in (Whitening.purpose, Columns.purpose) if name in released]
    columns = plan.release(Columns)
    assembly = Assembly(
        dim=plan.dim,
        architecture=plan.flow,
        linear=Whitening.purpose in released,
        pieces=None if columns is None else 2**columns.bits,
        border=border,
    )
    whole = join(base, bijection, maps)
    if not _is_sound(whole):
        warnings.warn(
            "training diverged: the density is not finite at the flow's own samples. "
            "Lower learning_rate or raise batch_size; a new fit is a new spend.",
            stacklevel=4,
        )
    return whole, assembly.with_base(base)


def loss(flow: Flow, row: Float[jax.Array, " dim"], key: Any) -> Float[jax.Array, ""]:
    """The part of the negative log-density that depends on the row."""
    return -flow.private_log_prob(row)


def public_loss(flow: Flow) -> Float[jax.Array, ""]:
    """The part that does not."""
    return -flow.public_log_prob()


def plan_of(fit: Fit) -> DensityPlan:
    """What is executed: of a density fit, that is the plan of one."""
    assert isinstance(fit.plan, DensityPlan)
    return fit.plan


def _base(fit: Fit) -> AbstractBase:
    """What the flow starts from."""
    if Grid.purpose in fit.released:
        return fit.released[Grid.purpose]
    if ExpectationMaximization.purpose in fit.released:
        mixture, _ = fit.released[ExpectationMaximization.purpose]
        return GaussianMixture.create(mixture.weights, mixture.means, mixture.covariances)
    return StandardNormal(plan_of(fit).dim)


def _is_sound(flow: Flow) -> bool:
    """Whether the flow has a density at its own samples; it reads released parameters only."""
    keys = jax.random.split(jax.random.key(0), 64)
    samples = jax.jit(jax.vmap(flow.sample))(keys)
    return bool(np.isfinite(jax.jit(jax.vmap(flow.log_prob))(samples)).all())
