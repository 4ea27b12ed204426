"""Classifiers without privacy: what all others are held against."""

import math
from dataclasses import dataclass, field
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, PyTree
from scipy.optimize import minimize
from scipy.special import expit

import veilflow as vf
from reproductions.expm_nf.baselines.baseline import Baseline
from reproductions.expm_nf.baselines.convex import minimum, signed, with_one
from reproductions.expm_nf.baselines.trainable import (
    LOSS_FNS,
    LOSSES_OF_LOGITS,
    trainable_of,
)
from veilflow.engine import Optimizer, Secret
from veilflow.privacy.events import NonPrivate
from veilflow.privacy.guarantees import Sensitive
from veilflow.privacy.ledger import Ledger
from veilflow.privacy.unit import Unit

_TOLERANCE = 1e-6
_MOST_STEPS = 1_000
"""Of L-BFGS, which needs dozens."""
_LEAST_VARIANCE = 1e-5
_TOGETHER = 256


@dataclass(frozen=True, kw_only=True)
class NonPrivateClassifier(Baseline):
    """A classifier without privacy: its ledger says so, and its epsilon is infinite.

    Logistic regression is fitted to a minimum: with the cross-entropy to the only one, by Newton's
    method; with the squared loss, which is not convex, to that near 0, by L-BFGS. Everything else
    takes steps of Adam.

    Args:
        loss: "bce" or "l2".
        regularization: Half of it times the squared norm of all parameters is added to the sum of
            losses. For steps of Adam it is the pull of weights to zero instead.
        steps: Of Adam.
        batch_size: Records drawn for a step.
        learning_rate: Of Adam.
        dropout: The share of a series's last state that is left out in training.
        batch_norm: Whether the last state of a series is normalized over the batch, and in the end
            over all records, which no private classifier may do.
    """

    budget: vf.Budget = field(default=vf.Budget(math.inf, 0.0))
    loss: str = "bce"
    regularization: float = 0.01
    steps: int = 500
    batch_size: int = 256
    learning_rate: float = 0.01
    dropout: float = 0.0
    batch_norm: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.budget.private:
            raise ValueError("a fit without privacy spends no budget: leave out budget.")

    def _spent(self) -> Ledger:
        return Ledger(unit=Unit.RECORD).spend(NonPrivate(), purpose="training")

    def _learn(self, records: Sensitive[Any], secret: Secret) -> Float[np.ndarray, " dim"]:
        inputs, labels = records.open()
        if isinstance(self.model, vf.expm.Logistic):
            ridge = max(self.regularization, 1e-6)  # without one, separable records have no minimum
            if self.loss == "l2":
                return _least_squares(with_one(inputs), labels, ridge=ridge)
            rows = signed(with_one(inputs), labels)
            return minimum(rows, regularization=ridge, tolerance=_TOLERANCE * len(rows))
        key = secret.key("start")
        model = trainable_of(self.model, inputs, key=key, dropout=self.dropout)
        optimizer = Optimizer(learning_rate=self.learning_rate, weight_decay=self.regularization)
        settings = (self.loss, self.batch_size, self.steps, optimizer, self.batch_norm)
        data = jax.tree.map(jnp.asarray, (inputs, labels))
        return _trained(settings, model, data, secret.key("train")).theta()


def _least_squares(
    rows: Float[np.ndarray, "records dim"], labels: Int[np.ndarray, " records"], *, ridge: float
) -> Float[np.ndarray, " dim"]:
    """Where the squared error of probabilities, with a ridge, has its minimum near 0."""

    def loss_and_gradient(theta: np.ndarray) -> tuple[float, np.ndarray]:
        chance = expit(rows @ theta)
        error = chance - labels
        gradient = rows.T @ (2 * error * chance * (1 - chance)) + ridge * theta
        return float(error @ error + ridge / 2 * theta @ theta), gradient

    start = np.zeros(rows.shape[1])
    settings = {"maxiter": _MOST_STEPS}
    return minimize(loss_and_gradient, start, jac=True, method="L-BFGS-B", options=settings).x


@eqx.filter_jit
def _trained(
    settings: tuple[str, int, int, Optimizer, bool],
    model: PyTree,
    data: PyTree,
    key: Key[Array, ""],
) -> Any:
    """The model after all steps, on records drawn with replacement."""
    loss, batch_size, steps, optimizer, batch_norm = settings
    update = optimizer.build(steps)
    first, static = eqx.partition(model, eqx.is_inexact_array)
    num = data[1].shape[0]

    def mean_loss(trained: PyTree, batch: PyTree, key: Array) -> Array:
        model = eqx.combine(trained, static)
        keys = jax.random.split(key, batch[1].shape[0])
        if not batch_norm:
            return jnp.mean(jax.vmap(lambda x, key: LOSS_FNS[loss](model, x, key))(batch, keys))
        states = jax.vmap(model.state)(batch[0])
        mean, deviation = states.mean(0), _spread(states)
        normal = (states - mean[None]) / deviation[None]
        logits = jax.vmap(model.read)(normal, keys)
        return jnp.mean(jax.vmap(LOSSES_OF_LOGITS[loss])(logits, batch[1]))

    def step(state: tuple[PyTree, PyTree], key: Array) -> tuple[tuple[PyTree, PyTree], None]:
        trained, memory = state
        draw_key, drop_key = jax.random.split(key)
        rows = jax.random.randint(draw_key, (min(batch_size, num),), 0, num)
        batch = jax.tree.map(lambda leaf: leaf[rows], data)
        gradient = jax.grad(mean_loss)(trained, batch, drop_key)
        updates, memory = update.update(gradient, memory, trained)
        return (eqx.apply_updates(trained, updates), memory), None

    keys = jax.random.split(key, steps)
    (trained, _), _ = jax.lax.scan(step, (first, update.init(first)), keys)
    model = eqx.combine(trained, static)
    if not batch_norm:
        return model
    states = jax.lax.map(model.state, data[0], batch_size=_TOGETHER)
    return model.normalized(states.mean(0), _spread(states))


def _spread(states: Float[Array, "batch hidden"]) -> Float[Array, " hidden"]:
    """Deviations, as batch normalization has them."""
    return jnp.sqrt(states.var(0) + _LEAST_VARIANCE)
