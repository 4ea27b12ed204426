"""How far a trained flow is from its target, for records that count as public.

What this proves: nothing about privacy. A bad number shows that the flow is not the target for these
records, so the condition of its guarantee is false there. A good number does not show the contrary. It
is an estimate from a thousand draws, so it misses what has less mass than one in a thousand, while a
delta is a millionth; it sees only where the flow has mass; and it is about one data set, while the
condition is about all of them.

Every number here is computed from the records, and nobody has paid for it. A choice made by such
numbers on private records would be one more release. So `diagnose` takes public or generated records.
"""

# JAX and jaxtyping leave types open (trees, loops, new arrays); see [tool.pyright] in pyproject.toml
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportUnknownLambdaType=false

from dataclasses import dataclass
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from veilflow._core.keys import Secret
from veilflow.flows import Flow
from veilflow.privacy.guarantees import Sensitive
from veilflow.releases.expm.flow_sampler import FlowSampler
from veilflow.releases.expm.importance import Importance, importance
from veilflow.releases.expm.stein import stein_discrepancy
from veilflow.releases.expm.target import Records, Target, log_densities

DRAWS = 1_000
_SMALL_P = 0.01


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """What was measured of a flow.

    Attributes:
        importance: The importance weights of draws.
        stein: The p-value of the kernelized Stein discrepancy between draws and target.
    """

    importance: Importance
    stein: float

    @property
    def objections(self) -> tuple[str, ...]:
        """What speaks against the flow. No objection proves nothing."""
        found = self.importance.objections
        if self.stein >= _SMALL_P:
            return found
        return *found, f"the Stein discrepancy has a p-value of {self.stein:.3f}, below {_SMALL_P}"


def diagnose(
    sampler: FlowSampler,
    target: Target,
    records: Records,
    *,
    secret: Secret,
    draws: int = DRAWS,
) -> Diagnosis:
    """Train a flow on public records, and hold draws from it against its target.

    Args:
        sampler: How the flow is trained.
        target: What it is trained towards.
        records: Inputs and labels that are public or generated. Nothing is paid.
        secret: Source of all randomness.
        draws: How many draws. The Stein discrepancy takes time by their square.
    """
    flow = sampler.fit(target, Sensitive(records), secret=secret).open()
    return diagnose_flow(flow, target, records, secret=secret, draws=draws)


def diagnose_flow(
    flow: Flow, target: Target, records: Records, *, secret: Secret, draws: int = DRAWS
) -> Diagnosis:
    """Hold draws from a trained flow against its target; as `diagnose`, without training."""
    keys = jax.random.split(secret.key("diagnose"), draws)
    thetas, log_flow = (np.asarray(x, np.float64) for x in _draws(flow, keys))
    weights = importance(log_target(target, thetas, records) - log_flow)
    rng = np.random.default_rng(secret.words("stein bootstrap", 0, 4).ravel().tolist())
    _, p_value = stein_discrepancy(thetas, scores(target, thetas, records), rng=rng)
    return Diagnosis(importance=weights, stein=p_value)


def log_target(
    target: Target, thetas: Float[np.ndarray, "num dim"], records: Records
) -> Float[np.ndarray, " num"]:
    """Prior times weight by the exact sums of losses, in logarithms, unnormalized."""
    prior = np.asarray(jax.vmap(target.prior.log_prob)(jnp.asarray(thetas)), np.float64)
    return prior - target.rate * target.losses(thetas, records)


def scores(
    target: Target, thetas: Float[np.ndarray, "num dim"], records: Records
) -> Float[np.ndarray, "num dim"]:
    """Gradients of the target's log-density."""
    data = jax.tree.map(jnp.asarray, records)
    return np.asarray(_scores(target, jnp.asarray(thetas, jnp.float32), data), np.float64)


@eqx.filter_jit
def _draws(flow: Flow, keys: Array) -> tuple[Array, Array]:
    return jax.vmap(flow.sample_and_log_prob)(keys)


@partial(jax.jit, static_argnums=0)
def _scores(target: Target, thetas: Array, records: PyTree) -> Array:
    # chunks of records and a loop over draws, so that memory does not grow with either
    def one(theta: Array) -> Array:
        return jax.grad(lambda theta: log_densities(target, theta[None], records)[0])(theta)

    return jax.lax.map(one, thetas)
