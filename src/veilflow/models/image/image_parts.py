"""An image model put together: what is trained, how, and what came out."""

import warnings
from typing import Any

import equinox as eqx
import jax
import numpy as np

from veilflow.engine import PerGroup, ScaledOptimizer, TrainingPlan
from veilflow.engine.blocks import choose_chunk
from veilflow.engine.training import Training
from veilflow.models.estimator import Fit
from veilflow.models.image.architecture import ImageArchitecture
from veilflow.models.image.class_models import ClassModels
from veilflow.models.image.image_plan import ImagePlan
from veilflow.models.image.latent_model import LatentModel, groups
from veilflow.models.image.loss import ImageLoss
from veilflow.models.image.networks import halved
from veilflow.releases.training import PrivateTraining, Task, trained

_CPU_LIMIT, _DEVICE_LIMIT = 2**31, 2**33
"""Bytes that what the layers keep of all images in flight may take, on a processor or elsewhere."""
_WINDOW = 9
"""Pixels that a convolution sees at a time."""


def task(release: PrivateTraining, fit: Fit) -> Task:
    """What is trained, and how.

    How many images a class has is not known: its sums are divided as if all had equally many.
    """
    plan = _plan(fit)
    start, shapes = untrained(fit), model_shapes(plan)
    steps = training_plan(release, shapes, num_records=fit.num_records / plan.num_parts)
    return Task(
        plan=steps,
        model=start.model,
        loss=ImageLoss(plan.reconstruction, plan.temperature, plan.condition_dim),
        chunk_size=images_at_once(shapes, plan.flow, steps, parts=plan.num_parts),
        num_parts=None if plan.partition == "none" else plan.num_parts,
        common=start.in_common,
    )


def training_plan(
    release: PrivateTraining, model: LatentModel, *, num_records: float
) -> TrainingPlan:
    """What the engine runs.

    Args:
        release: The entry of the plan.
        model: Of one class; shapes will do.
        num_records: Of one class.
    """
    settings = release.settings
    rates: Any = settings.learning_rate
    return release.plan(
        num_records,
        clipping=_clipping(settings, model),
        optimizer=ScaledOptimizer.of(
            model,
            groups,
            rates if isinstance(rates, tuple) else (rates, rates),
            name=settings.optimizer,
            weight_decay=settings.weight_decay,
        ),
    )


def _clipping(settings: Training, model: LatentModel) -> PerGroup | None:
    """A bound for autoencoder and flow each; None for one that holds for both together."""
    if not isinstance(settings.clip_norm, tuple):
        return None
    return PerGroup.of(model, groups, settings.clip_norm)


def model_shapes(plan: ImagePlan) -> LatentModel:
    """The model of one class, with shapes in the places of arrays."""
    return eqx.filter_eval_shape(
        lambda: LatentModel.create(
            plan.flow, key=jax.random.key(0), condition_dim=plan.condition_dim
        )
    )


def untrained(fit: Fit) -> ClassModels:
    """The models of all classes before the first step."""
    plan = _plan(fit)
    # in one program: compiled one by one, the draws of all weights take seconds
    return eqx.filter_jit(ClassModels.create)(
        plan.flow,
        num_classes=plan.num_classes,
        partition=plan.partition,
        key=fit.secret.key("weights"),
    )


def assembled(fit: Fit) -> ClassModels:
    """The released models."""
    start, arrays = untrained(fit), fit.released[PrivateTraining.purpose]
    if not all(np.isfinite(array).all() for array in arrays):
        warnings.warn(
            "training diverged: there are parameters that are not finite. Lower learning_rate; a new "
            "fit is a new spend.",
            stacklevel=4,
        )
    return ClassModels(trained(start.model, arrays), start.num_classes, start.partition)


def images_at_once(
    model: LatentModel, flow: ImageArchitecture, plan: TrainingPlan, *, parts: int
) -> int:
    """Images of a class in a chunk: a question of speed and memory, never of privacy.

    Args:
        model: Of one class; shapes will do.
        flow: Sizes of the model.
        plan: Of the training.
        parts: How many classes are trained side by side.
    """
    limit = _CPU_LIMIT if jax.default_backend() == "cpu" else _DEVICE_LIMIT
    fit = max(1, limit // (bytes_per_image(flow) * parts))
    return min(choose_chunk(model, plan), fit)


def bytes_per_image(flow: ImageArchitecture) -> int:
    """What the convolutions keep of an image for its gradient: windows, outputs, what comes back."""
    sizes = halved(flow.size, len(flow.channels))[1:]
    before = flow.colors
    numbers = 0
    for channels, (height, width) in zip(flow.channels, sizes, strict=True):
        there_and_back = 2 * height * width
        numbers += there_and_back * (_WINDOW * before + channels)
        before = channels
    return 4 * 2 * numbers  # in single precision: values, and their gradients


def _plan(fit: Fit) -> ImagePlan:
    assert isinstance(fit.plan, ImagePlan)
    return fit.plan
