"""Fitting a guide to what was released: the exact prior times a quadratic of the log-likelihood.

The target is released already, so the fit is post-processing and costs nothing, whichever divergence
is minimized. All divergences see the records through one sum of sensitivity sqrt(2)
(`releases/rounds/statistics.py`). Except for the free energy none is a sum over records, so a bound on
a single record's share would be hard to state for them. The free energy can also be trained on the
records (`training.py`).

All but the first two divergences also weigh draws around the target, made by a map `around` that takes
standard normals there.
"""

import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.scipy.special import logsumexp
from jaxtyping import Array, Float

from veilflow._core.keys import Secret, wrap
from veilflow.flows import FixedLinear
from veilflow.models.posterior.guides import FlatGuide
from veilflow.releases.rounds.surrogate import LogPrior, Surrogate

LogTarget = Callable[[Float[Array, " dim"]], Float[Array, ""]]

_STEPS, _DRAWS, _RATE = 600, 256, 0.02
_STEPS_ON_DRAWS = 1500
_NORMAL = 1e-3
"""Variance of the log-weights below which the target is the normal that the guide starts as."""
_WIDER = 1.3
"""How much wider than the target proposals are drawn, so that they cover its tails."""
_ALPHA = 0.5
_SLICES = 64


class Target(eqx.Module):
    """The natural log of the prior times the quadratic, up to a constant."""

    log_prior: LogPrior = eqx.field(static=True)
    mean: Float[Array, " dim"]
    gradient: Float[Array, " dim"]
    precision: Float[Array, "dim dim"]

    @classmethod
    def of(cls, surrogate: Surrogate, log_prior: LogPrior) -> "Target":
        """The target of a released quadratic."""
        numbers = (surrogate.mean, surrogate.gradient, surrogate.precision)
        return cls(log_prior, *map(jnp.float32, numbers))

    def __call__(self, theta: Float[Array, " dim"]) -> Float[Array, ""]:
        away = theta - self.mean
        quadratic = self.gradient @ away - 0.5 * away @ (self.precision @ away)
        return quadratic + self.log_prior(theta)


def fitted_to(
    target: Target, guide: FlatGuide, *, secret: Secret, around: FixedLinear | None = None
) -> FlatGuide:
    """The guide, fitted to the target by its objective. Post-processing: no record is read.

    Where prior and quadratic make a normal, the guide starts as the target. It is then left alone:
    steps on random draws would only move it away. A guide that cannot be as wide as the target needs
    `around`, a map from standard normals to about the target.
    """
    z = guide.base_draws(_DRAWS)
    thetas = jax.vmap(lambda u: guide.place.forward_and_log_det(u)[0])(z)
    log_ratio = jax.vmap(target)(thetas) + 0.5 * jnp.sum(z**2, axis=1)
    if float(jnp.var(log_ratio)) < _NORMAL:
        return guide
    words = jnp.asarray(secret.words("fitting", 0, 1)[0])
    return _optimized(target, guide, around or guide.place, words)


def fitted_to_draws(
    guide: FlatGuide, draws: Float[np.ndarray, "draws dim"], *, secret: Secret
) -> FlatGuide:
    """The guide of the largest likelihood of draws from the target: forward KL. Post-processing."""
    words = jnp.asarray(secret.words("fitting", 0, 1)[0])
    return _likeliest(guide, jnp.float32(draws), words)


@eqx.filter_jit
def _likeliest(guide: FlatGuide, draws: Float[Array, "draws dim"], words: Any) -> FlatGuide:
    optimizer = optax.adam(optax.cosine_decay_schedule(_RATE / 2, _STEPS_ON_DRAWS))

    def step(carry: Any, key: Any) -> tuple[Any, None]:
        numbers, state = carry
        batch = draws[jax.random.randint(key, (2 * _DRAWS,), 0, draws.shape[0])]

        def loss_of(numbers: Array) -> Array:
            moved = eqx.tree_at(lambda g: g.numbers, guide, numbers)
            return -jnp.mean(jax.vmap(moved.flow().log_prob)(batch))

        gradient = jax.grad(loss_of)(numbers)
        gradient = jnp.where(jnp.isfinite(gradient), gradient, 0.0)
        updates, state = optimizer.update(gradient, state)
        return (numbers + updates, state), None

    start = (guide.numbers, optimizer.init(guide.numbers))
    (numbers, _), _ = jax.lax.scan(step, start, jax.random.split(wrap(words), _STEPS_ON_DRAWS))
    return eqx.tree_at(lambda g: g.numbers, guide, numbers)


@eqx.filter_jit
def _optimized(target: Target, guide: FlatGuide, around: FixedLinear, words: Any) -> FlatGuide:
    loss = DIVERGENCES[guide.skeleton.guide.objective]
    optimizer = optax.adam(optax.cosine_decay_schedule(_RATE, _STEPS))
    dim = guide.skeleton.dim

    def step(carry: Any, key: Any) -> tuple[Any, None]:
        numbers, state, average = carry
        base_key, proposal_key, slice_key = jax.random.split(key, 3)
        half = jax.random.normal(base_key, (_DRAWS // 2, dim))
        base = jnp.concatenate([half, -half])
        proposals = jax.random.normal(proposal_key, (_DRAWS, dim))

        def loss_of(numbers: Array) -> Array:
            moved = eqx.tree_at(lambda g: g.numbers, guide, numbers)
            return loss(moved, target, base, around, proposals, slice_key)

        gradient = jax.grad(loss_of)(numbers)
        gradient = jnp.where(jnp.isfinite(gradient), gradient, 0.0)
        updates, state = optimizer.update(gradient, state)
        numbers = numbers + updates
        return (numbers, state, 0.98 * average + 0.02 * numbers), None

    start = (guide.numbers, optimizer.init(guide.numbers), guide.numbers)
    keys = jax.random.split(wrap(words), _STEPS)
    (_, _, average), _ = jax.lax.scan(step, start, keys)
    return eqx.tree_at(lambda g: g.numbers, guide, average)


# -- divergences: loss(guide, log_target, base, around, proposals, key) -----------------------------


def _free_energy(guide: FlatGuide, log_target: LogTarget, base: Any, *_: Any) -> Float[Array, ""]:
    """KL(q || p), up to a constant: punishes mass where the target has none, not missed modes."""
    thetas, log_prob = guide.draws_and_log_prob(base)
    return jnp.mean(log_prob - jax.vmap(log_target)(thetas))


def _renyi(guide: FlatGuide, log_target: LogTarget, base: Any, *_: Any) -> Float[Array, ""]:
    """Renyi's divergence of order 1/2, between the two directions of KL.

    References:
        Li, Turner, "Renyi divergence variational inference", 2016.
    """
    thetas, log_prob = guide.draws_and_log_prob(base)
    log_ratio = (1 - _ALPHA) * (jax.vmap(log_target)(thetas) - log_prob)
    return -(logsumexp(log_ratio) - math.log(len(base))) / (1 - _ALPHA)


def _forward_kl(
    guide: FlatGuide, log_target: LogTarget, _: Any, around: FixedLinear, proposals: Any, *__: Any
) -> Float[Array, ""]:
    """KL(p || q), up to a constant, by self-normalized weights: covers the target's mass."""
    thetas, weights = _weighted(around, log_target, proposals)
    return -jnp.sum(weights * jax.vmap(guide.flow().log_prob)(thetas))


def _wasserstein(
    guide: FlatGuide,
    log_target: LogTarget,
    base: Any,
    around: FixedLinear,
    proposals: Any,
    *_: Any,
) -> Float[Array, ""]:
    """Squared 2-Wasserstein distance between the normals of the same moments.

    Unlike both directions of KL, it leaves correlations alone where a variance is held too wide. It
    depends on units: each parameter is measured in its own deviation. In whitened coordinates the
    best-known directions would weigh most, and a mean-field guide would come out narrower than by
    KL(q || p), which takes conditional variances. In these units it lies between the conditional and
    the marginal ones.
    """
    thetas, weights = _weighted(around, log_target, proposals)
    ours = _in_deviations(around, guide.draws_and_log_prob(base)[0])
    theirs = _in_deviations(around, thetas)
    mean = weights @ theirs
    centered = theirs - mean[None]
    covariance = (weights[:, None] * centered).T @ centered
    own_mean = jnp.mean(ours, axis=0)
    own = (ours - own_mean[None]).T @ (ours - own_mean[None]) / len(ours)
    return jnp.sum((mean - own_mean) ** 2) + _bures(covariance, own)


def _bures(a: Float[Array, "dim dim"], b: Float[Array, "dim dim"]) -> Float[Array, ""]:
    """tr(A + B - 2 (A^1/2 B A^1/2)^1/2): squared distance of two centered normals."""
    values, vectors = jnp.linalg.eigh(jax.lax.stop_gradient(a))
    root = (vectors * jnp.sqrt(jnp.maximum(values, 0.0))[None]) @ vectors.T
    # where two eigenvalues meet they still have a gradient; their eigenvectors have none
    cross = jnp.linalg.eigvalsh(root @ b @ root)
    return jnp.trace(a) + jnp.trace(b) - 2 * jnp.sum(jnp.sqrt(jnp.maximum(cross, 1e-12)))


def _sliced_wasserstein(
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
    """Parameters drawn around the target, a little wider than it, and their importance weights."""
    thetas = jax.vmap(around.forward_and_log_det)(_WIDER * proposals)[0]
    log_weights = jax.vmap(log_target)(thetas) + 0.5 * jnp.sum(proposals**2, axis=1)
    return thetas, jax.nn.softmax(jnp.nan_to_num(log_weights, nan=-jnp.inf))


def _in_deviations(around: FixedLinear, thetas: Array) -> Array:
    """Each parameter in units of its own deviation; correlations stay."""
    deviations = jnp.sqrt(jnp.sum(around.factor**2, axis=1))
    return (thetas - around.shift[None]) / deviations[None]


DIVERGENCES: dict[str, Callable[..., Float[Array, ""]]] = {
    "free-energy": _free_energy,
    "renyi": _renyi,
    "forward-kl": _forward_kl,
    "wasserstein": _wasserstein,
    "sliced-wasserstein": _sliced_wasserstein,
}
"""By the name of the objective."""
