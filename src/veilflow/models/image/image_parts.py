"""The parts of an image model: what is trained and how, and the released models."""

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
from veilflow.models.image.image_plan import ImagePlan
from veilflow.models.image.latent_model import ClassModels, ImageLoss, LatentModel, groups
from veilflow.models.image.networks import halved
from veilflow.releases.training import PrivateTraining, Task, trained

_CPU_LIMIT, _DEVICE_LIMIT = 2**31, 2**33
"""Memory that layers may use for all images in progress, on a processor or on another device."""
_WINDOW = 9
"""Pixels in the window of a convolution."""


def task(release: PrivateTraining, fit: Fit) -> Task:
    """The training task.

    The number of images of a class is not known: sums are divided as if all classes had equally many.
    """
    plan: ImagePlan = fit.plan
    start, shapes = untrained(fit), model_shapes(plan)
    steps = training_plan(release, shapes, num_records=fit.num_records / plan.num_parts)
    return Task(
        plan=steps,
        model=start.model,
        loss=ImageLoss(
            plan.reconstruction, plan.temperature, plan.num_classes if plan.tells_class else 0
        ),
        chunk_size=images_at_once(shapes, plan.flow, steps, parts=plan.num_parts),
        num_parts=None if plan.partition == "none" else plan.num_parts,
        common=start.in_common,
    )


def training_plan(
    release: PrivateTraining, model: LatentModel, *, num_records: float
) -> TrainingPlan:
    """The plan of the training loop.

    Args:
        release: The training, as the plan of the fit has it.
        model: The model of one class; shapes suffice.
        num_records: The number of images of one class.
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
            schedule=settings.schedule,
            rate_decay=settings.rate_decay,
            weight_decay=settings.weight_decay,
        ),
    )


def _clipping(settings: Training, model: LatentModel) -> PerGroup | None:
    """Separate bounds for the autoencoder and the flow, or None for one bound on both together."""
    if not isinstance(settings.clip_norm, tuple):
        return None
    return PerGroup.of(model, groups, settings.clip_norm)


def model_shapes(plan: ImagePlan) -> LatentModel:
    """The model of one class, with shapes in place of arrays."""
    return eqx.filter_eval_shape(
        lambda: LatentModel.create(
            plan.flow,
            key=jax.random.key(0),
            condition_dim=plan.condition_dim,
            num_classes=plan.num_classes,
        )
    )


def untrained(fit: Fit) -> ClassModels:
    """The models of all classes before the first step."""
    plan: ImagePlan = fit.plan
    # in one program: compiled one by one, drawing the weights takes seconds
    return eqx.filter_jit(ClassModels.create)(
        plan.flow,
        num_classes=plan.num_classes,
        partition=plan.partition,
        key=fit.secret.key("weights"),
    )


def assembled(fit: Fit) -> ClassModels:
    """The released models of all classes."""
    start, arrays = untrained(fit), fit.released[PrivateTraining.purpose]
    if not all(np.isfinite(array).all() for array in arrays):
        warnings.warn(
            "training diverged: some parameters are not finite. Lower learning_rate; a new fit is a "
            "new spend.",
            stacklevel=4,
        )
    return ClassModels(trained(start.model, arrays), start.num_classes, start.partition)


def images_at_once(
    model: LatentModel, flow: ImageArchitecture, plan: TrainingPlan, *, parts: int
) -> int:
    """The number of images of a class in a chunk: a matter of speed and memory, not of privacy.

    Args:
        model: The model of one class; shapes suffice.
        flow: The sizes of the model.
        plan: The plan of the training loop.
        parts: The number of classes that are trained side by side.
    """
    limit = _CPU_LIMIT if jax.default_backend() == "cpu" else _DEVICE_LIMIT
    fit = max(1, limit // (bytes_per_image(flow) * parts))
    return min(choose_chunk(model, plan), fit)


def bytes_per_image(flow: ImageArchitecture) -> int:
    """Memory that convolutions keep of an image for its gradient: windows, outputs, cotangents."""
    sizes = halved(flow.size, len(flow.channels))[1:]
    before = flow.colors
    numbers = 0
    for channels, (height, width) in zip(flow.channels, sizes, strict=True):
        numbers += 2 * height * width * (_WINDOW * before + channels)  # encoder and decoder
        before = channels
    return 4 * 2 * numbers  # in single precision: values, and their gradients
