"""No privacy: what a classifier reaches that may remember every record. For comparison only."""

import math
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from veilflow._core import check
from veilflow._core.keys import Secret, wrap
from veilflow.engine import Optimizer, counting_bar
from veilflow.models.expm.baselines.baseline import Baseline, Task
from veilflow.models.expm.baselines.convex import minimum, signed, with_one
from veilflow.models.expm.baselines.trainable import LOSS_FNS, LOSSES, trainable_of
from veilflow.models.expm.network import Logistic, Network
from veilflow.models.expm.smooth import on_device
from veilflow.privacy.budget import Budget
from veilflow.privacy.events import NonPrivate
from veilflow.privacy.guarantees import Sensitive
from veilflow.privacy.ledger import Ledger

_TOLERANCE = 1e-6
_BLOCK = 64
"""Steps whose keys travel to the device together."""


@dataclass(frozen=True, kw_only=True)
class NonPrivateClassifier(Baseline):
    """A classifier without privacy: its ledger says so, and its epsilon is infinite.

    Logistic regression of two classes with the cross-entropy is fitted by Newton's method to its one
    minimum. Everything else takes steps of Adam.

    Args:
        loss: "bce" or "l2".
        regularization: Half of it times the squared norm of all parameters is added to the sum of
            losses. For steps of Adam it is the pull of weights to zero instead.
        steps: Of Adam.
        batch_size: Records drawn for a step.
        learning_rate: Of Adam.
    """

    budget: Budget = field(default=Budget(math.inf, 0.0))
    loss: str = "bce"
    regularization: float = 0.01
    steps: int = 500
    batch_size: int = 256
    learning_rate: float = 0.01

    name: ClassVar[str] = "non-private"

    def __post_init__(self) -> None:
        super().__post_init__()
        check.one_of(LOSSES, loss=self.loss)
        if self.budget.private:
            raise ValueError("a fit without privacy spends no budget: leave out budget.")
        check.nonnegative(regularization=self.regularization)
        check.count(steps=self.steps, batch_size=self.batch_size)
        check.positive(learning_rate=self.learning_rate)

    def _spent(self, network: Network) -> Ledger:
        return Ledger().spend(NonPrivate(), purpose="training")

    def _learn(
        self, task: Task, records: Sensitive[Any], secret: Secret, *, progress: bool
    ) -> Float[np.ndarray, " dim"]:
        inputs, labels = records.open()
        convex = isinstance(task.network, Logistic) and task.network.num_classes == 2
        if convex and self.loss == "bce":
            ridge = max(self.regularization, 1e-6)  # without one, separable records have no minimum
            rows = signed(with_one(inputs), labels)
            return minimum(rows, regularization=ridge, tolerance=_TOLERANCE * len(rows))
        data = on_device((inputs, labels))
        model = trainable_of(task.network, inputs, key=secret.key("start"))
        trained, static = eqx.partition(model, eqx.is_inexact_array)
        optimizer = self._optimizer().build(self.steps)
        state = (trained, optimizer.init(trained))
        with counting_bar("training", self.steps, show=progress) as monitor:
            for first in range(0, self.steps, _BLOCK):
                count = min(_BLOCK, self.steps - first)
                words = np.zeros((_BLOCK, 2), np.uint32)
                words[:count] = secret.words("train", first, count)
                inputs = (jnp.asarray(words), jnp.asarray(count))
                state = _run_block(self._settings_of_steps(), static, data, *inputs, state)
                monitor(first + count)
        return eqx.combine(state[0], static).theta()

    def _optimizer(self) -> Optimizer:
        return Optimizer(learning_rate=self.learning_rate, weight_decay=self.regularization)

    def _settings_of_steps(self) -> tuple[str, int, int, Optimizer]:
        """What a compiled block of steps depends on."""
        return self.loss, self.batch_size, self.steps, self._optimizer()


State = tuple[PyTree, PyTree]


@partial(eqx.filter_jit, donate="all-except-first")
def _run_block(
    settings: tuple[str, int, int, Optimizer],
    static: PyTree,
    data: PyTree,
    words: Array,
    count: Array,
    state: State,
) -> State:
    loss, batch_size, steps, optimizer = settings
    optimizer = optimizer.build(steps)
    num = jax.tree.leaves(data)[0].shape[0]

    def mean_loss(trained: PyTree, batch: PyTree) -> Array:
        model = eqx.combine(trained, static)
        return jnp.mean(jax.vmap(lambda record: LOSS_FNS[loss](model, record))(batch))

    def step(i: Array, state: State) -> State:
        trained, memory = state
        rows = jax.random.randint(wrap(words[i]), (min(batch_size, num),), 0, num)
        batch = jax.tree.map(lambda leaf: leaf[rows], data)
        gradient = jax.grad(mean_loss)(trained, batch)
        updates, memory = optimizer.update(gradient, memory, trained)
        return eqx.apply_updates(trained, updates), memory

    return jax.lax.fori_loop(0, count, step, state)
