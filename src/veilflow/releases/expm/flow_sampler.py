"""ExpM+NF: a flow is trained to approximate the exponential mechanism, and sampled once."""

# JAX and jaxtyping leave types open (trees, loops, new arrays); see [tool.pyright] in pyproject.toml
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportUnknownLambdaType=false, reportMissingTypeStubs=false

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Key, PyTree

from veilflow._core.fields import convert, count, each, instance, optional, positive, word
from veilflow._core.keys import Secret, wrap
from veilflow.engine.optimizer import Optimizer
from veilflow.flows import (
    AbstractBijection,
    ActNorm,
    Chain,
    Flow,
    Invert,
    Planar,
    ScaledNormal,
    Scan,
    Sylvester,
    realnvp,
)
from veilflow.privacy.assumptions import Unproved
from veilflow.privacy.events import Event, ExponentialMechanism
from veilflow.privacy.guarantees import Released, Sensitive
from veilflow.releases.expm.sampler import Sampler
from veilflow.releases.expm.target import Target, log_weights, num_records, on_device

FLOWS = ("planar", "sylvester", "realnvp", "spline")

_BLOCK = 256
"""Steps whose keys are sent to the device together."""
_BEND = 4.0
"""Splines are not linear within this many deviations of the base."""


@dataclass(frozen=True, kw_only=True)
class FlowSampler(Sampler):
    """Draws from a flow that was trained by reverse Kullback-Leibler divergence.

    The loss is the mean, over parameter vectors drawn from the flow, of their log-density under the
    flow minus that under the target. The normalizing constant of the target is omitted, so the minimal
    loss is unknown, and nothing shows whether it was reached. Hence the assumption.

    All settings are public. Steps and learning rates follow from them alone: a rate that waits for a
    plateau of the loss, or early stopping, would read the records once more.

    Guarantee:
        `event`, under the `assumption`. The trained flow itself is not released: `fit` returns it as
        a sensitive value.

    Args:
        flow: The architecture: "planar" and "sylvester" as published, with a trained scale and shift of
            every parameter after the last block; "realnvp" and "spline" are couplings.
        blocks: Number of blocks of the flow.
        rank: Units and reflections of a Sylvester block, limited by the number of parameters.
        hidden: Hidden layers of the network of a coupling.
        base_scale: Standard deviation of the base distribution.
        steps: Training steps of the flow; they cost nothing.
        samples: Parameter vectors drawn in each step.
        batch_size: Records drawn in each step, with their sum rescaled to all records; by default all.
        optimizer: The optimizer of the flow, with its learning rate and schedule.

    References:
        Bridges, Tombs, Stanley, "Differentially private training via the exponential mechanism and
        normalizing flows", 2024.
    """

    flow: str = "sylvester"
    blocks: int = 4
    rank: int = 4
    hidden: tuple[int, ...] = (64, 64)
    base_scale: float = 1.0
    steps: int = 2_000
    samples: int = 64
    batch_size: int | None = None
    optimizer: Optimizer = field(default_factory=lambda: Optimizer(learning_rate=1e-2))

    name: ClassVar[str] = "flow"
    assumption: ClassVar[Unproved | None] = Unproved(
        "the density of the trained flow is taken to equal that of the exponential mechanism"
    )

    def __post_init__(self) -> None:
        convert(
            self,
            flow=word(*FLOWS),
            blocks=count(),
            rank=count(),
            hidden=each(count()),
            base_scale=positive,
            steps=count(),
            samples=count(),
            batch_size=optional(count()),
            optimizer=instance(Optimizer, "vf.engine.Optimizer(...)"),
        )

    def event(self, epsilon: float) -> Event:
        return ExponentialMechanism(epsilon)

    def draw(
        self, target: Target, records: Sensitive[PyTree], *, secret: Secret
    ) -> Released[Float[np.ndarray, " dim"]]:
        flow = self.fit(target, records, secret=secret).open()
        theta = np.asarray(flow.sample(secret.key("flow draw")), np.float32)
        return Released(np.nan_to_num(theta), self.event(target.epsilon))

    def fit(self, target: Target, records: Sensitive[PyTree], *, secret: Secret) -> Sensitive[Flow]:
        """The trained flow, which is sensitive: all of its parameters depend on the records."""
        data = on_device(records.open())
        flow = self.build(target.dim, key=secret.key("flow start"))
        trained, static = eqx.partition(flow, eqx.is_inexact_array)
        state = (trained, self.optimizer.build(self.steps).init(trained))
        # epsilon is an input of the compiled program: targets that differ in it alone share one
        unscaled = replace(target, epsilon=1.0), jnp.asarray(target.epsilon)
        for first in range(0, self.steps, _BLOCK):
            count = min(_BLOCK, self.steps - first)
            words = np.zeros(
                (_BLOCK, 2), np.uint32
            )  # always the same length, for one compiled program
            words[:count] = secret.words("flow train", first, count)
            inputs = (jnp.asarray(words), jnp.asarray(count))
            state = _run_block(self, static, *unscaled, data, *inputs, state)
        return Sensitive(eqx.combine(state[0], static), description="a flow", unit=records.unit)

    def build(self, dim: int, *, key: Key[Array, ""]) -> Flow:
        """The untrained flow, which is close to the identity."""
        base = ScaledNormal(dim, self.base_scale)
        if self.flow in ("realnvp", "spline"):
            return realnvp(
                dim,
                key=key,
                blocks=self.blocks,
                hidden=self.hidden,
                scalar_map="spline" if self.flow == "spline" else "affine",
                bound=_BEND * self.base_scale,
                base=base,
                actnorm=True,
            )

        # Inverted: the published formula maps the base to parameters, ours maps data to the base.
        # Both keep the products of the diagonals above -1, and reflect vectors without a matrix.
        def block(key: Key[Array, ""]) -> AbstractBijection:
            if self.flow == "planar":
                return Invert(Planar.create(dim, key=key))
            return Invert(Sylvester.create(dim, key=key, rank=min(self.rank, dim)))

        blocks = Scan.create(block, self.blocks, key=key)
        return Flow(base, Chain((blocks, ActNorm.create(dim))))


State = tuple[PyTree, optax.OptState]


@eqx.filter_jit
def _run_block(
    settings: FlowSampler,
    static: Flow,
    target: Target,
    epsilon: Array,
    records: PyTree,
    words: Array,
    count: Array,
    state: State,
) -> State:
    optimizer = settings.optimizer.build(settings.steps)

    def loss(trained: PyTree, key: Key[Array, ""]) -> Float[Array, ""]:
        flow = eqx.combine(trained, static)
        return divergence(flow, settings, target, records, key=key, factor=epsilon)

    def step(i: Array, state: State) -> State:
        trained, memory = state
        gradient = jax.grad(loss)(trained, wrap(words[i]))
        # a draw at which the target overflows is ignored
        gradient = jax.tree.map(lambda g: jnp.where(jnp.isfinite(g), g, 0.0), gradient)
        updates, memory = optimizer.update(gradient, memory, trained)
        return eqx.apply_updates(trained, updates), memory

    return jax.lax.fori_loop(0, count, step, state)


def divergence(
    flow: Flow,
    settings: FlowSampler,
    target: Target,
    records: PyTree,
    *,
    key: Key[Array, ""],
    factor: float | Array = 1.0,
) -> Float[Array, ""]:
    """Reverse Kullback-Leibler divergence up to the constant of the target, estimated by new draws.

    It is the mean, not the sum, over parameter vectors, and the utility of a batch is scaled by n / b.
    Both matter: a sum over N vectors would train towards N epsilon, an unscaled batch towards
    epsilon b / n.

    Args:
        flow: The flow.
        settings: Settings of the draws.
        target: The density, up to its constant.
        records: Inputs and labels.
        key: For parameter vectors and records.
        factor: A factor on the epsilon of the target.
    """
    base_key, batch_key = jax.random.split(key)
    z = settings.base_scale * jax.random.normal(base_key, (settings.samples, flow.dim))
    thetas, log_dets = jax.vmap(flow.bijection.forward_and_log_det)(z)
    log_flow = jax.vmap(flow.base.log_prob)(z) - log_dets
    batch, weight = _batch(settings, records, key=batch_key)
    utility = factor * weight * log_weights(target, thetas, batch)
    return jnp.mean(log_flow - utility - jax.vmap(target.prior.log_prob)(thetas))


def _batch(
    settings: FlowSampler, records: PyTree, *, key: Key[Array, ""]
) -> tuple[PyTree, float | Any]:
    """The records of a step, and the weight of each."""
    num, size = num_records(records), settings.batch_size
    if size is None or size >= num:
        return records, 1.0
    rows = jax.random.randint(key, (size,), 0, num)
    return jax.tree.map(lambda leaf: leaf[rows], records), num / size
