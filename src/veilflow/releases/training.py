"""Private training by the engine, as one entry of a plan."""

# JAX and jaxtyping leave types open (trees, loops, new arrays); see [tool.pyright] in pyproject.toml
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportUnknownLambdaType=false

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from veilflow._core.errors import PrivacyError
from veilflow.engine import TrainingPlan, train, train_parts
from veilflow.engine.observed import LossFn
from veilflow.engine.plan import check_bands
from veilflow.engine.step import PublicLossFn
from veilflow.engine.training import Training
from veilflow.privacy import calibration
from veilflow.privacy.assumptions import Assumption, FloatSums, Generator
from veilflow.privacy.banded_noise import rounded_coordinates
from veilflow.privacy.budget import Budget
from veilflow.privacy.events import Event, NonPrivate
from veilflow.privacy.guarantees import Released, Sensitive
from veilflow.privacy.ledger import Ledger
from veilflow.releases.release import Release, Tools


@dataclass(frozen=True)
class Task:
    """What is trained and how: made from the release, declared facts and released values."""

    plan: TrainingPlan
    model: Any
    loss: LossFn
    public_loss: PublicLossFn | None = None
    chunk_size: int | None = None
    num_parts: int | None = None
    """Number of parts of a model that has several, such as one for each class."""
    common: Callable[[Any], Any] | None = None
    """For such models: the arrays that all parts have in common."""


@dataclass(frozen=True, kw_only=True)
class PrivateTraining(Release):
    """Training by noisy gradients.

    Guarantee:
        That of `TrainingPlan`: in each step a Poisson sample, clipped gradients, and Gaussian noise.

    Attributes:
        settings: All settings of the training, none of them left open.
        noise_multiplier: Noise over sensitivity, of a turn if noise is correlated; 0 without privacy.
        num_parameters: The most parameters that are trained.
    """

    purpose: str = "training"
    settings: Training
    noise_multiplier: float
    num_parameters: int

    def __post_init__(self) -> None:
        check_bands(self.settings.noise_bands, private=self.noise_multiplier > 0)

    @property
    def steps(self) -> int:
        """The number of steps."""
        assert self.settings.steps is not None
        return self.settings.steps

    @property
    def sampling_rate(self) -> float:
        """The probability that a record enters a step."""
        assert self.settings.sampling_rate is not None
        return self.settings.sampling_rate

    def plan(self, num_records: float, **objects: Any) -> TrainingPlan:
        """The plan that the engine executes.

        Args:
            num_records: Declared or released, divided by the number of parts if there are several.
            objects: A clipping or an optimizer in place of the named ones.
        """
        return self.settings.plan(
            noise_multiplier=self.noise_multiplier,
            expected_batch_size=self.sampling_rate * num_records,
            **objects,
        )

    @property
    def event(self) -> Event:
        return self.event_after(self.steps)

    def event_after(self, done: int) -> Event:
        if not self.noise_multiplier:
            return NonPrivate()
        settings = self.sampling_rate, self.noise_multiplier, max(1, done)
        return calibration.training_event(*settings, bands=self.settings.noise_bands)

    @property
    def num_draws(self) -> int:
        # one number more than there are parameters: adaptive clipping releases a count
        return self.steps * (self.num_parameters + 1) if self.noise_multiplier else 0

    @property
    def grids(self) -> tuple[tuple[float, int], ...]:
        bands = self.settings.noise_bands
        numbers = max(1, self.num_parameters)
        return ((self.noise_multiplier, rounded_coordinates(numbers, bands=bands)),)

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        return (FloatSums(), Generator())

    @property
    def rounds(self) -> int:
        return self.steps

    def priced(self, budget: Budget, others: Ledger) -> Self:
        noise = calibration.noise_multiplier(
            budget,
            sampling_rate=self.sampling_rate,
            steps=self.steps,
            bands=self.settings.noise_bands,
            ledger=others,
        )
        return replace(self, noise_multiplier=noise)

    def run(
        self, records: Sensitive[PyTree], tools: Tools, *, task: Task
    ) -> Released[list[np.ndarray]]:
        """Train on arrays with the record as first axis.

        Returns:
            The arrays of the trained model, in the order of its tree.
        """
        if task.plan.event != self.event:
            raise PrivacyError(
                "the training is not the one that was priced. Please report this bug."
            )
        same: dict[str, Any] = {
            "secret": tools.secret,
            "chunk_size": task.chunk_size,
            "checkpoint": tools.checkpoint,
            "monitor": tools.monitor,
        }
        if task.num_parts is None:
            released = train(
                task.plan, task.loss, task.model, records, public_loss_fn=task.public_loss, **same
            )
        else:
            parts: dict[str, Any] = {"num_parts": task.num_parts, "common": task.common}
            released = train_parts(task.plan, task.loss, task.model, records, **parts, **same)
        return released.map(lambda model: [np.asarray(x) for x in arrays_of(model)])


def arrays_of(model: Any) -> list[Any]:
    """The arrays of a model, in the order of its tree."""
    return jax.tree.leaves(eqx.filter(model, eqx.is_array))


def trained(model: Any, arrays: list[np.ndarray]) -> Any:
    """`model` with other arrays, such as released ones, in the order of `arrays_of`."""
    own, rest = eqx.partition(model, eqx.is_array)
    leaves, tree = jax.tree.flatten(own)
    if [x.shape for x in leaves] != [x.shape for x in arrays]:
        raise ValueError("the released arrays belong to another model.")
    return eqx.combine(jax.tree.unflatten(tree, [jnp.asarray(x) for x in arrays]), rest)
