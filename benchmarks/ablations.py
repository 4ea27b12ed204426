"""What limits the training of a shape: noise, the clip, the preconditioner, the size, or the base.

Every row trains the planner's shape over the same private mixture again, with one thing changed, and
says how much the mean log-likelihood of 3,000 fresh rows rises above that of the mixture, on average
over four sets; no figure means that a training diverged. "No noise" and "half the noise" show what more
budget could bring. A clip that follows is the nine-tenths quantile of the gradient norms of twins, at
each step. A preconditioner multiplies every coordinate of a gradient, before the clip, by a power of
its root mean square at the start, and divides the noisy sum by it. Noise is in proportion to the clip
norm. Rows are generated, so these trainings draw noise from the plain generator; batches have 128 rows.
The last rows are whole fits over a base without a mixture.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import veilflow as vf
from benchmarks.generated import draw
from benchmarks.records import Record, record
from veilflow.flows import ShapedMixture
from veilflow.nn.frozen import trainable_part

SETS = ("fingerprints", "clusters", "sheets", "skewed")
EPSILONS = (1.0, 4.0)
ROWS, TEST, BATCH, COLUMNS = 24_060, 3000, 128, 10
BASES = ("normal", "logistic", "student")


@dataclass(frozen=True)
class Variant:
    """One change to the training; factors of what the planner says."""

    noise: float = 1.0
    rate: float = 1.0
    clip: float = 1.0
    follows: bool = False
    """The clip norm is the quantile of twins, times `clip`."""
    power: float = 0.0
    """Of the root mean squares by which a preconditioner divides gradients."""
    flow: Any = None
    """Another architecture."""


VARIANTS = {
    "the rule": Variant(),
    "half the noise": Variant(noise=0.5),
    "no noise": Variant(noise=0.0),
    "no noise, rate x 3": Variant(noise=0.0, rate=3.0),
    "clip / 2": Variant(clip=0.5),
    "clip x 2": Variant(clip=2.0),
    "clip follows twins": Variant(follows=True),
    "preconditioner, power 1/2": Variant(power=0.5),
    "preconditioner, power 1": Variant(power=1.0, rate=0.5),
    "preconditioner, power 1/2, clip follows twins": Variant(power=0.5, follows=True),
    "two blocks of 64 units": Variant(flow=vf.nsf(blocks=2, hidden=(64,), radial=True)),
}


def run(*, quick: bool = False) -> list[Record]:
    """One mixture for each set and epsilon, and all variants over it."""
    size, test = (600, 200) if quick else (ROWS, TEST)
    variants = dict(list(VARIANTS.items())[:1]) if quick else VARIANTS
    gains: dict[tuple[float, str], list[float]] = {}
    for epsilon in EPSILONS[:1] if quick else EPSILONS:
        for name in SETS[:1] if quick else SETS:
            rows, domain = draw(name, size + test, seed=51)
            case = _Case.of(rows[:size], rows[size:], epsilon, domain)
            for label, variant in variants.items():
                gains.setdefault((epsilon, label), []).append(case.gain(variant))
            for base in () if quick else BASES:
                score = _whole(rows, size, epsilon, domain, base) - case.base
                gains.setdefault((epsilon, f"whole fit over base='{base}'"), []).append(score)
    return [
        record(
            f"epsilon {epsilon:g}: {label}", _finite(float(np.mean(found))), "nats", better="higher"
        )
        for (epsilon, label), found in gains.items()
    ]


def _finite(value: float) -> float | None:
    """None where a training diverged."""
    return value if math.isfinite(value) else None


@dataclass(frozen=True)
class _Case:
    """A private mixture, the planned training of its shape, and rows to score it."""

    model: vf.FittedDensityFlow
    rows: jax.Array
    test: jax.Array
    twins: jax.Array
    base: float
    """Mean log-likelihood of the mixture alone."""

    @classmethod
    def of(cls, rows: np.ndarray, test: np.ndarray, epsilon: float, domain: dict) -> "_Case":
        model = _estimator(len(rows), epsilon, domain).fit(rows, progress=False)
        into = lambda x: jnp.asarray(model.domain.encode(model.domain.clamp(x)), jnp.float32)  # noqa: E731
        twins = np.concatenate(
            [vf.Start.of(model).twin(kind, 1000, seed=0) for kind in ("flow", "bent", "sheet")]
        )
        case = cls(model, into(rows), into(test), into(twins), 0.0)
        return replace(case, base=case._score(case._shaped(model.plan.flow)))

    def gain(self, variant: Variant) -> float:
        """Nats that a training gains over the mixture alone."""
        start = self._shaped(variant.flow or self.model.plan.flow)
        trained = _trained(start, self._numbers(variant), self.rows, self.twins, variant.follows)
        return self._score(trained) - self.base

    def _shaped(self, architecture: Any) -> ShapedMixture:
        density = self.model.flow.base
        assert isinstance(density, ShapedMixture)
        return ShapedMixture(density.mixture, architecture.build(COLUMNS, key=jax.random.key(1)))

    def _numbers(self, variant: Variant) -> "_Numbers":
        training: Any = self.model.plan.releases[-1]
        plan = training.plan(len(self.rows))
        spread = plan.noise_multiplier / plan.expected_batch_size
        return _Numbers(
            rate=jnp.float32(variant.rate * plan.optimizer.learning_rate),
            clip=jnp.float32(variant.clip * (1 if variant.follows else plan.clipping.sensitivity)),
            noise=jnp.float32(variant.noise * spread),
            power=jnp.float32(variant.power),
            steps=plan.steps,
        )

    def _score(self, density: ShapedMixture) -> float:
        score = float(_mean_log_prob(density, self.test)) - self.model.domain.log_scale(COLUMNS)
        return score if math.isfinite(score) else -math.inf


class _Numbers(eqx.Module):
    rate: jax.Array
    clip: jax.Array
    noise: jax.Array
    """Deviation of the noise in a mean gradient, over the clip norm."""
    power: jax.Array
    steps: int = eqx.field(static=True)


@eqx.filter_jit
def _trained(
    start: ShapedMixture, numbers: _Numbers, rows: jax.Array, twins: jax.Array, follows: bool
) -> ShapedMixture:
    trainable, fixed = trainable_part(start)

    def gradients(at: Any, batch: jax.Array, key: jax.Array) -> Any:
        def loss(t: Any, row: jax.Array, k: jax.Array) -> jax.Array:
            return -eqx.combine(t, fixed).private_log_prob_of_one(row, k)

        keys = jax.random.split(key, len(batch))
        return jax.vmap(jax.grad(loss), in_axes=(None, 0, 0))(at, batch, keys)

    # public: from twins, at the start
    moments = jax.tree.map(
        lambda g: jnp.mean(g**2, 0), gradients(trainable, twins[::3], jax.random.key(2))
    )
    mean = sum(jnp.sum(m) for m in jax.tree.leaves(moments))
    least = 1e-4 * mean / sum(m.size for m in jax.tree.leaves(moments))
    factors = jax.tree.map(lambda m: (m + least) ** (-numbers.power / 2), moments)
    pairs = zip(jax.tree.leaves(factors), jax.tree.leaves(moments), strict=True)
    same = jnp.sqrt(mean / sum(jnp.sum(f**2 * m) for f, m in pairs))  # norms stay as they were
    factors = jax.tree.map(lambda f: f * same, factors)

    def lengths(gradient: Any) -> jax.Array:
        return jnp.sqrt(
            sum(jnp.sum(g.reshape(len(g), -1) ** 2, 1) for g in jax.tree.leaves(gradient))
        )

    def scaled(gradient: Any) -> Any:
        return jax.tree.map(jnp.multiply, gradient, factors)

    def step(i: Any, state: tuple[Any, Any]) -> tuple[Any, Any]:
        at, average = state
        place, key, noise_key, other = jax.random.split(jax.random.fold_in(jax.random.key(3), i), 4)
        clip = numbers.clip
        if follows:
            public = twins[jax.random.randint(other, (BATCH,), 0, len(twins))]
            clip = clip * jnp.quantile(lengths(scaled(gradients(at, public, other))), 0.9)
        batch = rows[jax.random.randint(place, (BATCH,), 0, len(rows))]
        gradient = scaled(gradients(at, batch, key))
        weight = jnp.minimum(1.0, clip / jnp.maximum(lengths(gradient), 1e-12))
        leaves, tree = jax.tree.flatten(gradient)
        keys = jax.random.split(noise_key, len(leaves))
        noisy = [
            jnp.einsum("n,n...->...", weight, g) / BATCH
            + numbers.noise * clip * jax.random.normal(k, g.shape[1:])
            for g, k in zip(leaves, keys, strict=True)
        ]
        rate = numbers.rate * 0.5 * (1 + jnp.cos(jnp.pi * i / numbers.steps))
        total = jax.tree.unflatten(tree, noisy)
        at = jax.tree.map(lambda p, g, f: p - rate * g / f, at, total, factors)
        keep = jnp.minimum(0.99, (1.0 + i) / (10.0 + i))
        return at, jax.tree.map(lambda m, p: keep * m + (1 - keep) * p, average, at)

    _, average = jax.lax.fori_loop(0, numbers.steps, step, (trainable, trainable))
    return eqx.combine(average, fixed)


@eqx.filter_jit
def _mean_log_prob(density: ShapedMixture, rows: jax.Array) -> jax.Array:
    return jnp.mean(jax.vmap(density.log_prob)(rows))


def _estimator(size: int, epsilon: float, domain: dict, **settings: Any) -> vf.DensityFlow:
    budget = vf.Budget(epsilon=epsilon, delta=0.3 / size)
    return vf.DensityFlow(budget=budget, num_records=size, seed=4, **domain, **settings)


def _whole(rows: np.ndarray, size: int, epsilon: float, domain: dict, base: str) -> float:
    model = _estimator(size, epsilon, domain, base=base).fit(rows[:size], progress=False)
    return float(model.log_prob(rows[size:]).mean())
