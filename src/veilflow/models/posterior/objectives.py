"""What a guide is fitted by: divergences from a target that is already released.

The target is the exact prior times the released quadratic of the log-likelihood, so a guide is fitted
after the noise and costs nothing, whichever divergence is taken. All of them see records through one
sum of sensitivity sqrt(2) (see `statistics`); none is a function of a record by itself, which is why a
bound on every record's share would be hard to state for them otherwise. The free energy alone is also
a sum over records, and can be trained on these (see `training`).

All but the first two also look at draws around the target, from a map `around` that takes standard
normals there, and weigh them.
"""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.scipy.special import logsumexp
from jaxtyping import Array, Float

from veilflow._core import check
from veilflow.flows import FixedLinear
from veilflow.models.posterior.flat_guide import FlatGuide

LogTarget = Callable[[Float[Array, " dim"]], Float[Array, ""]]

OBJECTIVES = ("free-energy", "renyi", "forward-kl", "wasserstein", "sliced-wasserstein")
WIDER = 1.3
"""How much wider than the target's own scale proposals are drawn: tails must be covered."""
_ALPHA = 0.5
_SLICES = 64


def objective(name: str) -> Callable[..., Float[Array, ""]]:
    """The divergence of a name: `loss(guide, log_target, base, around, proposals, key)`."""
    check.one_of(OBJECTIVES, objective=name)
    return _FUNCTIONS[name]


def free_energy(guide: FlatGuide, log_target: LogTarget, base: Any, *_: Any) -> Float[Array, ""]:
    """KL(q || p), up to a constant: mass where the target has none is dear, missing modes is not."""
    thetas, log_prob = guide.draws_and_log_prob(base)
    return jnp.mean(log_prob - jax.vmap(log_target)(thetas))


def renyi(guide: FlatGuide, log_target: LogTarget, base: Any, *_: Any) -> Float[Array, ""]:
    """Renyi's divergence of order 1/2: between the two directions of KL.

    References:
        Li, Turner, "Renyi divergence variational inference", 2016.
    """
    thetas, log_prob = guide.draws_and_log_prob(base)
    log_ratio = (1 - _ALPHA) * (jax.vmap(log_target)(thetas) - log_prob)
    return -(logsumexp(log_ratio) - math.log(len(base))) / (1 - _ALPHA)


def forward_kl(
    guide: FlatGuide,
    log_target: LogTarget,
    base: Any,
    around: FixedLinear,
    proposals: Any,
    key: Any,
) -> Float[Array, ""]:
    """KL(p || q), up to a constant, by self-normalized weights: the target's mass must be covered."""
    thetas, weights = _weighted(around, log_target, proposals)
    return -jnp.sum(weights * jax.vmap(guide.flow().log_prob)(thetas))


def wasserstein(
    guide: FlatGuide,
    log_target: LogTarget,
    base: Any,
    around: FixedLinear,
    proposals: Any,
    key: Any,
) -> Float[Array, ""]:
    """Squared 2-Wasserstein distance between the normals of the same moments.

    Where a variance is held too wide it leaves correlations alone, unlike both directions of KL. It
    depends on units: each parameter has its own deviation for one. In whitened coordinates the
    directions that are known best would weigh most, and a mean-field guide come out narrower than by
    KL(q || p), which takes conditional variances; like this it is between these and the marginal ones.
    """
    thetas, weights = _weighted(around, log_target, proposals)
    ours = _in_deviations(around, guide.draws_and_log_prob(base)[0])
    theirs = _in_deviations(around, thetas)
    mean = weights @ theirs
    centered = theirs - mean[None]
    covariance = (weights[:, None] * centered).T @ centered
    own_mean = jnp.mean(ours, axis=0)
    own = (ours - own_mean[None]).T @ (ours - own_mean[None]) / len(ours)
    return jnp.sum((mean - own_mean) ** 2) + bures(covariance, own)


def bures(a: Float[Array, "dim dim"], b: Float[Array, "dim dim"]) -> Float[Array, ""]:
    """tr(A + B - 2 (A^1/2 B A^1/2)^1/2): squared distance of two centered normals."""
    values, vectors = jnp.linalg.eigh(jax.lax.stop_gradient(a))
    root = (vectors * jnp.sqrt(jnp.maximum(values, 0.0))[None]) @ vectors.T
    # eigenvalues alone have a gradient where two of them meet; eigenvectors have none
    cross = jnp.linalg.eigvalsh(root @ b @ root)
    return jnp.trace(a) + jnp.trace(b) - 2 * jnp.sum(jnp.sqrt(jnp.maximum(cross, 1e-12)))


def sliced_wasserstein(
    guide: FlatGuide,
    log_target: LogTarget,
    base: Any,
    around: FixedLinear,
    proposals: Any,
    key: Any,
) -> Float[Array, ""]:
    """Mean over directions of the squared distance of quantiles along each, in the same units."""
    theirs, weights = _weighted(around, log_target, proposals)
    theirs = _in_deviations(around, theirs)
    ours = _in_deviations(around, guide.draws_and_log_prob(base)[0])
    directions = jax.random.normal(key, (_SLICES, ours.shape[1]))
    directions = directions / jnp.linalg.norm(directions, axis=1, keepdims=True)

    def along(direction: Array) -> Array:
        mine = jnp.sort(ours @ direction)
        order = jnp.argsort(theirs @ direction)
        levels = (jnp.arange(len(mine)) + 0.5) / len(mine)
        reached = jnp.cumsum(weights[order]) - weights[order] / 2
        return jnp.mean((mine - jnp.interp(levels, reached, (theirs @ direction)[order])) ** 2)

    return jnp.mean(jax.vmap(along)(directions))


def _weighted(around: FixedLinear, log_target: LogTarget, proposals: Any) -> tuple[Array, Array]:
    """Parameters drawn around the target, a little wider, and its weights for them."""
    thetas = jax.vmap(around.forward_and_log_det)(WIDER * proposals)[0]
    log_weights = jax.vmap(log_target)(thetas) + 0.5 * jnp.sum(proposals**2, axis=1)
    return thetas, jax.nn.softmax(jnp.nan_to_num(log_weights, nan=-jnp.inf))


def _in_deviations(around: FixedLinear, thetas: Array) -> Array:
    """Each parameter in units of its own deviation; correlations stay."""
    deviations = jnp.sqrt(jnp.sum(around.factor**2, axis=1))
    return (thetas - around.shift[None]) / deviations[None]


_FUNCTIONS = {
    "free-energy": free_energy,
    "renyi": renyi,
    "forward-kl": forward_kl,
    "wasserstein": wasserstein,
    "sliced-wasserstein": sliced_wasserstein,
}
