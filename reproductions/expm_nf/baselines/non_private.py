"""Classifiers without privacy: what all others are held against."""

import math
from dataclasses import dataclass, field
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, PyTree

import veilflow as vf
from reproductions.expm_nf.baselines.baseline import Baseline
from reproductions.expm_nf.baselines.convex import minimum, signed, with_one
from reproductions.expm_nf.baselines.trainable import LOSS_FNS, trainable_of
from veilflow.engine import Optimizer, Secret
from veilflow.privacy.events import NonPrivate
from veilflow.privacy.guarantees import Sensitive
from veilflow.privacy.ledger import Ledger
from veilflow.privacy.unit import Unit

_TOLERANCE = 1e-6


@dataclass(frozen=True, kw_only=True)
class NonPrivateClassifier(Baseline):
    """A classifier without privacy: its ledger says so, and its epsilon is infinite.

    Logistic regression with the cross-entropy is fitted by Newton's method to its one minimum.
    Everything else takes steps of Adam.

    Args:
        loss: "bce" or "l2".
        regularization: Half of it times the squared norm of all parameters is added to the sum of
            losses. For steps of Adam it is the pull of weights to zero instead.
        steps: Of Adam.
        batch_size: Records drawn for a step.
        learning_rate: Of Adam.
    """

    budget: vf.Budget = field(default=vf.Budget(math.inf, 0.0))
    loss: str = "bce"
    regularization: float = 0.01
    steps: int = 500
    batch_size: int = 256
    learning_rate: float = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.budget.private:
            raise ValueError("a fit without privacy spends no budget: leave out budget.")

    def _spent(self) -> Ledger:
        return Ledger(unit=Unit.RECORD).spend(NonPrivate(), purpose="training")

    def _learn(self, records: Sensitive[Any], secret: Secret) -> Float[np.ndarray, " dim"]:
        inputs, labels = records.open()
        if isinstance(self.model, vf.expm.Logistic) and self.loss == "bce":
            ridge = max(self.regularization, 1e-6)  # without one, separable records have no minimum
            rows = signed(with_one(inputs), labels)
            return minimum(rows, regularization=ridge, tolerance=_TOLERANCE * len(rows))
        model = trainable_of(self.model, inputs, key=secret.key("start"))
        optimizer = Optimizer(learning_rate=self.learning_rate, weight_decay=self.regularization)
        settings = (self.loss, self.batch_size, self.steps, optimizer)
        data = jax.tree.map(jnp.asarray, (inputs, labels))
        return _trained(settings, model, data, secret.key("train")).theta()


@eqx.filter_jit
def _trained(
    settings: tuple[str, int, int, Optimizer], model: PyTree, data: PyTree, key: Key[Array, ""]
) -> Any:
    """The model after all steps, on records drawn with replacement."""
    loss, batch_size, steps, optimizer = settings
    update = optimizer.build(steps)
    first, static = eqx.partition(model, eqx.is_inexact_array)
    num = data[1].shape[0]

    def mean_loss(trained: PyTree, batch: PyTree) -> Array:
        model = eqx.combine(trained, static)
        return jnp.mean(jax.vmap(lambda record: LOSS_FNS[loss](model, record))(batch))

    def step(state: tuple[PyTree, PyTree], key: Array) -> tuple[tuple[PyTree, PyTree], None]:
        trained, memory = state
        rows = jax.random.randint(key, (min(batch_size, num),), 0, num)
        gradient = jax.grad(mean_loss)(trained, jax.tree.map(lambda leaf: leaf[rows], data))
        updates, memory = update.update(gradient, memory, trained)
        return (eqx.apply_updates(trained, updates), memory), None

    keys = jax.random.split(key, steps)
    (trained, _), _ = jax.lax.scan(step, (first, update.init(first)), keys)
    return eqx.combine(trained, static)
