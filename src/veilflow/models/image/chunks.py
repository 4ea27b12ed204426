"""How many images of a class are handled at once: a question of speed and memory, never of privacy."""

import jax

from veilflow.engine import TrainingPlan
from veilflow.engine.memory import choose_chunk
from veilflow.models.image.architecture import ImageArchitecture
from veilflow.models.image.latent_model import LatentModel
from veilflow.models.image.networks import halved

_CPU_LIMIT, _DEVICE_LIMIT = 2**31, 2**33
"""Bytes that what the layers keep of all images in flight may take, on a processor or elsewhere."""
_WINDOW = 9
"""Pixels that a convolution sees at a time."""


def images_at_once(
    model: LatentModel, architecture: ImageArchitecture, plan: TrainingPlan, *, parts: int
) -> int:
    """Images of a class in a chunk, where `parts` classes are handled side by side.

    Args:
        model: Of one class; shapes will do.
        architecture: Of the model.
        plan: Of the training.
        parts: How many classes are trained at once.
    """
    limit = _CPU_LIMIT if jax.default_backend() == "cpu" else _DEVICE_LIMIT
    fit = max(1, limit // (bytes_per_image(architecture) * parts))
    return min(choose_chunk(model, plan), fit)


def bytes_per_image(architecture: ImageArchitecture) -> int:
    """What the convolutions keep of an image for its gradient: windows, outputs, what comes back."""
    sizes = halved(architecture.size, len(architecture.channels))[1:]
    before = architecture.colors
    numbers = 0
    for channels, (height, width) in zip(architecture.channels, sizes, strict=True):
        there_and_back = 2 * height * width
        numbers += there_and_back * (_WINDOW * before + channels)
        before = channels
    return 4 * 2 * numbers  # in single precision: values, and their gradients
