"""Hamiltonian Monte Carlo: a chain whose limit is the density of the exponential mechanism."""

# JAX and jaxtyping leave types open (trees, loops, new arrays); see [tool.pyright] in pyproject.toml
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportUnknownLambdaType=false

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, PyTree

from veilflow._core.fields import convert, count, fraction
from veilflow._core.keys import Secret, wrap
from veilflow.privacy.assumptions import Unproved
from veilflow.privacy.events import Event, ExponentialMechanism
from veilflow.privacy.guarantees import Released, Sensitive
from veilflow.releases.expm.sampler import Sampler
from veilflow.releases.expm.target import Target, log_densities, on_device

_FIRST_STEP = 0.1
"""The first step size, in units of the scales."""
_JITTER = 0.2
"""Step sizes vary by this share, so that no trajectory is periodic."""
_CALM = 10.0
"""Dual averaging: the weight of the first transitions is small for large values (t0)."""
_PULL = 0.05
"""Dual averaging: shrinkage towards the initial step size (gamma)."""
_FORGET = 0.75
"""Dual averaging: the exponent by which the running mean forgets (kappa)."""

_CAUTION, _NARROW = 5.0, 0.01
"""Prior of spreads: this many states, with this share of the scale of the prior as deviation."""


@dataclass(frozen=True, kw_only=True)
class HmcSampler(Sampler):
    """The last state of a chain that starts at a draw from the prior.

    The first half of the warm-up finds a step size and, in its second part, the spread of every
    parameter. The second half rescales the parameters by their spread and finds a step size again.
    From then on all transitions have the same kernel, whose limit is the target. How close `steps` of
    them come to it is unknown.

    Guarantee:
        `event`, under the `assumption`.

    Args:
        warmup: Transitions that find step sizes, and are left out.
        steps: Transitions after the warm-up.
        leapfrogs: Leapfrog steps, hence gradients, of a transition.
        acceptance: Acceptance rate towards which the step size is adapted.

    References:
        Neal, "MCMC using Hamiltonian dynamics", 2011. Hoffman, Gelman, "The No-U-Turn sampler", 2014,
        for the search for a step size.
    """

    warmup: int = 500
    steps: int = 500
    leapfrogs: int = 16
    acceptance: float = 0.8

    name: ClassVar[str] = "hmc"
    assumption: ClassVar[Unproved | None] = Unproved(
        "the chain is taken to have reached its limit, the exponential mechanism's density"
    )

    def __post_init__(self) -> None:
        convert(self, warmup=count(), steps=count(), leapfrogs=count(), acceptance=fraction)

    def event(self, epsilon: float) -> Event:
        return ExponentialMechanism(epsilon)

    def draw(
        self, target: Target, records: Sensitive[PyTree], *, secret: Secret
    ) -> Released[Float[np.ndarray, " dim"]]:
        chain = self.run(target, records, secret=secret).open()
        return Released(np.nan_to_num(chain[0, -1]), self.event(target.epsilon))

    def run(
        self, target: Target, records: Sensitive[PyTree], *, secret: Secret, chains: int = 1
    ) -> Sensitive[Float[np.ndarray, "chains steps dim"]]:
        """All states of independent chains after the warm-up. They are not released."""
        data = on_device(records.open())
        thetas = target.prior.sample(secret.key("hmc start"), chains, target.dim)
        num = self.warmup + self.steps
        words = secret.words("hmc steps", 0, chains * num).reshape(chains, num, 2)
        states = _run_chains(self, target, data, thetas, jnp.asarray(words))
        return Sensitive(np.asarray(states), description="chains", unit=records.unit)


class _Place(NamedTuple):
    """A state of a chain, with the log density and its gradient."""

    theta: Float[Array, " dim"]
    log_density: Float[Array, ""]
    gradient: Float[Array, " dim"]


class _Search(NamedTuple):
    """Dual averaging of the logarithm of the step size."""

    start: Float[Array, ""]
    error: Float[Array, ""]
    log_step: Float[Array, ""]
    log_mean: Float[Array, ""]
    seen: Float[Array, ""]

    @classmethod
    def fresh(cls) -> "_Search":
        zero, log_step = jnp.zeros(()), jnp.log(jnp.asarray(_FIRST_STEP))
        # biased upwards: a step that is too long is noticed at once, one that is too short is not
        return cls(log_step + jnp.log(10.0), zero, log_step, log_step, zero)

    def after(self, accepted: Float[Array, ""], *, aim: float) -> "_Search":
        seen = self.seen + 1
        share = 1 / (seen + _CALM)
        error = (1 - share) * self.error + share * (aim - accepted)
        log_step = self.start - jnp.sqrt(seen) / _PULL * error
        weight = seen**-_FORGET
        mean = weight * log_step + (1 - weight) * self.log_mean
        return _Search(self.start, error, log_step, mean, seen)


class _Spread(NamedTuple):
    """Running mean and sum of squares of every parameter (Welford)."""

    mean: Float[Array, " dim"]
    squares: Float[Array, " dim"]
    seen: Float[Array, ""]

    def after(self, theta: Float[Array, " dim"]) -> "_Spread":
        seen = self.seen + 1
        mean = self.mean + (theta - self.mean) / seen
        return _Spread(mean, self.squares + (theta - self.mean) * (theta - mean), seen)

    def scales(self, prior: float) -> Float[Array, " dim"]:
        """Standard deviations, regularized while there are few states."""
        variance = self.squares / jnp.maximum(self.seen - 1, 1)
        few = _CAUTION * (_NARROW * prior) ** 2
        return jnp.sqrt((self.seen * variance + few) / (self.seen + _CAUTION))


@eqx.filter_jit
def _run_chains(
    settings: HmcSampler, target: Target, records: PyTree, thetas: Array, words: Array
) -> Float[Array, "chains steps dim"]:
    def place(theta: Array) -> _Place:
        def log_density(theta: Array) -> Array:
            return log_densities(target, theta[None], records)[0]

        return _Place(theta, *jax.value_and_grad(log_density)(theta))

    def transition(
        here: _Place, log_step: Array, scales: Array, key: Key[Array, ""]
    ) -> tuple[_Place, Array]:
        momentum_key, jitter_key, accept_key = jax.random.split(key, 3)
        momentum = jax.random.normal(momentum_key, here.theta.shape)
        jitter = jax.random.uniform(jitter_key, (), minval=1 - _JITTER, maxval=1 + _JITTER)
        step = jnp.exp(log_step) * jitter

        def leapfrog(_: int, path: tuple[_Place, Array]) -> tuple[_Place, Array]:
            there, momentum = path
            momentum = momentum + 0.5 * step * scales * there.gradient
            there = place(there.theta + step * scales * momentum)
            return there, momentum + 0.5 * step * scales * there.gradient

        there, last = jax.lax.fori_loop(0, settings.leapfrogs, leapfrog, (here, momentum))
        kinetic = 0.5 * (jnp.sum(jnp.square(momentum)) - jnp.sum(jnp.square(last)))
        gain = there.log_density - here.log_density + kinetic
        chance = jnp.where(jnp.isnan(gain), 0.0, jnp.exp(jnp.minimum(gain, 0.0)))
        is_accepted = jax.random.uniform(accept_key) < chance
        after = jax.tree.map(lambda new, old: jnp.where(is_accepted, new, old), there, here)
        return after, chance

    def warm_up(
        here: _Place, search: _Search, scales: Array, words: Array
    ) -> tuple[_Place, _Search, _Spread]:
        zeros = jnp.zeros_like(here.theta)
        late = jnp.arange(len(words)) >= len(words) // 2

        def one(
            state: tuple[_Place, _Search, _Spread], now: tuple[Array, Array]
        ) -> tuple[tuple[_Place, _Search, _Spread], None]:
            here, search, spread = state
            word, counts = now
            here, chance = transition(here, search.log_step, scales, wrap(word))
            grown = jax.tree.map(
                lambda new, old: jnp.where(counts, new, old), spread.after(here.theta), spread
            )
            return (here, search.after(chance, aim=settings.acceptance), grown), None

        state = (here, search, _Spread(zeros, zeros, jnp.zeros(())))
        return jax.lax.scan(one, state, (words, late))[0]

    def chain(theta: Array, words: Array) -> Float[Array, "steps dim"]:
        half, end = settings.warmup // 2, settings.warmup
        prior = target.prior.scale
        scales = jnp.full(theta.shape, prior)
        search = _Search.fresh()
        here, search, spread = warm_up(place(theta), search, scales, words[:half])
        if half:
            # the old step size was in units of the prior, the new one is in units of the spread
            scales, search = spread.scales(prior), _Search.fresh()
        here, search, _ = warm_up(here, search, scales, words[half:end])

        def one(here: _Place, word: Array) -> tuple[_Place, Array]:
            here, _ = transition(here, search.log_mean, scales, wrap(word))
            return here, here.theta

        return jax.lax.scan(one, here, words[end:])[1]

    return jax.vmap(chain)(thetas, words)
