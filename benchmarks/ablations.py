"""What rehearsal and training add to a private mixture, and what limits the training.

All figures are mean log-likelihoods of 3,000 fresh rows above those of the mixture alone, which then
has the whole budget, on average over four sets; no figure means that a training diverged. "Rehearsal"
corrects the mixture and prepares the shape of its components by what EM with the same noise does to
known mixtures; "training" are the private steps, for which the mixture gives up its share.

The other rows make the training of the rule again, with one thing changed. "No noise" and "half the
noise" show what more budget could bring. A clip that follows is the nine-tenths quantile of the
gradient norms of twins, at each step. A preconditioner multiplies every coordinate of a gradient,
before the clip, by a power of its root mean square at the start, and divides the noisy sum by it. Noise
is in proportion to the clip norm. Rows are generated, so these trainings draw noise from the plain
generator; batches have 128 rows. The last rows are whole fits over a base without a mixture.
"""

import math
from dataclasses import dataclass
from functools import cached_property
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
EPSILONS = (0.5, 1.0, 4.0)
VARIED = (1.0, 4.0)
"""Where the training is changed,"""
BASED = (1.0,)
"""and the base."""
ROWS, TEST, BATCH, COLUMNS = 24_060, 3000, 128, 10
BASES = ("normal", "logistic", "student")
UNTRAINED = vf.Training(learning_rate=1e-12)
"""Private steps that are paid for and change nothing."""


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
    """All whole fits and variants for each set and epsilon."""
    size, test = (600, 200) if quick else (ROWS, TEST)
    variants = dict(list(VARIANTS.items())[:1]) if quick else VARIANTS
    gains: dict[tuple[float, str], list[float]] = {}
    for epsilon in VARIED[:1] if quick else EPSILONS:
        for name in SETS[:1] if quick else SETS:
            rows, domain = draw(name, size + test, seed=51)
            case = _Case(rows[:size], rows[size:], epsilon, domain)
            found = case.parts()
            if epsilon in VARIED:
                found |= {f"trained again, {n}": case.again(v) for n, v in variants.items()}
            if epsilon in BASED and not quick:
                found |= {f"whole fit over base='{b}'": case.fitted(base=b) for b in BASES}
            alone = case.fitted(training=vf.Training(steps=0), rehearse=False)
            for label, score in found.items():
                gains.setdefault((epsilon, label), []).append(score - alone)
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
    """Rows to fit and to score, and a budget."""

    rows: np.ndarray
    test: np.ndarray
    epsilon: float
    domain: dict

    def fit(self, **settings: Any) -> vf.FittedDensityFlow:
        size = len(self.rows)
        budget = vf.Budget(epsilon=self.epsilon, delta=0.3 / size)
        public = {"budget": budget, "num_records": size, "seed": 4, **self.domain}
        return vf.DensityFlow(**public, **settings).fit(self.rows, progress=False)

    def fitted(self, **settings: Any) -> float:
        """The score of a whole fit."""
        return float(self.fit(**settings).log_prob(self.test).mean())

    def parts(self) -> dict[str, float]:
        """The scores of rehearsal and training, each alone and together."""
        return {
            "rehearsal": self.fitted(training=vf.Training(steps=0)),
            "rehearsal and a prepared shape": float(self.prepared.log_prob(self.test).mean()),
            "training": self.fitted(rehearse=False),
            "rehearsal and training: the rule": self.fitted(),
        }

    @cached_property
    def prepared(self) -> vf.FittedDensityFlow:
        """What the private steps of the rule start from."""
        return self.fit(training=UNTRAINED)

    def again(self, variant: Variant) -> float:
        """The score of the rule's training with a change."""
        model = self.prepared
        if variant.flow is not None:
            model = self.fit(training=UNTRAINED, flow=variant.flow)
        start = model.flow.base
        assert isinstance(start, ShapedMixture)
        into = lambda x: jnp.asarray(model.domain.encode(model.domain.clamp(x)), jnp.float32)  # noqa: E731
        twins = np.concatenate(
            [vf.Start.of(model).twin(kind, 1000, seed=0) for kind in ("flow", "bent", "sheet")]
        )
        numbers = self._numbers(variant)
        trained = _trained(start, numbers, into(self.rows), into(twins), variant.follows)
        score = float(_mean_log_prob(trained, into(self.test)))
        return score - model.domain.log_scale(COLUMNS) if math.isfinite(score) else -math.inf

    def _numbers(self, variant: Variant) -> "_Numbers":
        size = len(self.rows)
        budget = vf.Budget(epsilon=self.epsilon, delta=0.3 / size)
        rule = vf.DensityFlow(budget=budget, num_records=size, **self.domain).plan(COLUMNS)
        training: Any = rule.releases[-1]
        plan = training.plan(size)
        spread = plan.noise_multiplier / plan.expected_batch_size
        return _Numbers(
            rate=jnp.float32(variant.rate * plan.optimizer.learning_rate),
            clip=jnp.float32(variant.clip * (1 if variant.follows else plan.clipping.sensitivity)),
            noise=jnp.float32(variant.noise * spread),
            power=jnp.float32(variant.power),
            steps=plan.steps,
        )


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
