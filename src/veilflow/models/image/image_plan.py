"""The plan of an image fit: its releases and their prices, from public facts alone.

The defaults are those of the published system, with these exceptions. One bound on a record's gradient
holds for both networks together. Learning rates follow a cosine, and are lower where noise is larger.
All classes share one autoencoder. And there are 800 steps instead of 300: at a sampling rate of 0.1,
all of them together then have less noise relative to the sum of their gradients, not more (by 13 % at
epsilon 10). This was chosen on generated images (`benchmarks/generated_images.py`); other latent
sizes, widths, splines, weights of the reconstruction and averages of parameters did no better there.
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from veilflow._core import check
from veilflow.engine.training import Training
from veilflow.images import ImageSpec
from veilflow.models.image.architecture import ImageArchitecture, architecture_for, nearest_preset
from veilflow.models.image.latent_model import PARTITIONS, RECONSTRUCTIONS, condition_dim, num_parts
from veilflow.models.record_count import declared, exactly, roughly
from veilflow.privacy.unit import Unit
from veilflow.releases.count import Count
from veilflow.releases.plan import FitPlan, spending
from veilflow.releases.release import Release
from veilflow.releases.training import PrivateTraining

if TYPE_CHECKING:
    from veilflow.models.image.image_flow import ImageFlow

_TEMPERATURE = math.sqrt(1e5)
_SAMPLING_RATE = 0.1
_PRIVATE: dict[str, Any] = {
    "steps": 800,
    "optimizer": "adam",
    "weight_decay": 1e-5,
    "ema_decay": None,
}
"""For images of every size."""
_BY_SIZE: dict[str, dict[str, Any]] = {
    "28x28x1": {"clip_norm": 0.1, "learning_rate": (0.01, 0.005)},
    "32x32x3": {"clip_norm": 0.01, "learning_rate": (0.005, 0.005)},
    "64x64x3": {"clip_norm": 0.01, "learning_rate": (0.005, 0.005)},
    "256x256x3": {"clip_norm": 10.0, "learning_rate": (0.005, 0.005)},
}
"""By the nearest preset. `clip_norm` is for the autoencoder and the flow together."""
_SMALL_SIDE, _SMALL_STEPS = 16, 300
"""Images of up to 16 pixels a side need fewer steps."""
_FULL_RATE_EPSILON, _RATE_POWER, _LEAST_RATE = 10.0, 0.3, 0.5
"""From this epsilon on, learning rates are as above; below, they fall by this power, down to a half."""
_OPEN: dict[str, Any] = {  # without noise, gradients need no bound and small steps pay
    "steps": 1000,
    "clip_norm": 1e6,
    "learning_rate": (1e-3, 1e-3),
}


@dataclass(frozen=True, kw_only=True, repr=False)
class ImagePlan(FitPlan):
    """The plan of an image fit.

    Attributes:
        spec: The declared form of the images.
        partition: What each class has of its own; one of `PARTITIONS`.
        flow: The sizes of all networks.
        reconstruction: The error of the autoencoder; one of `RECONSTRUCTIONS`.
        temperature: The square root of the weight of that error in the loss.
    """

    spec: ImageSpec
    partition: str
    flow: ImageArchitecture
    reconstruction: str
    temperature: float

    def __post_init__(self) -> None:
        check.one_of(PARTITIONS, partition=self.partition)
        check.one_of(RECONSTRUCTIONS, reconstruction=self.reconstruction)
        check_sizes(self.spec, self.partition, self.flow)

    @property
    def num_classes(self) -> int:
        """The number of classes; 0 if images have no labels."""
        return len(self.spec.classes)

    @property
    def num_parts(self) -> int:
        """The number of classes that are trained separately."""
        return num_parts(self.partition, self.num_classes)

    @property
    def condition_dim(self) -> int:
        """The size of the flow's condition."""
        return condition_dim(self.partition, self.num_classes)

    @property
    def tells_class(self) -> bool:
        """Whether a network is told the class of an image, beside having its own of each."""
        return self.condition_dim > 0 or self.flow.decoder_sees_class

    @property
    def num_numbers(self) -> int:
        """The number of released numbers."""
        one = self.flow.num_parameters(
            condition_dim=self.condition_dim, num_classes=self.num_classes
        )
        if self.partition == "flows":
            return one + (self.num_parts - 1) * self.flow.num_flow_parameters()
        return self.num_parts * one


def plan_images(settings: "ImageFlow") -> ImagePlan:
    """The plan of a fit with these settings.

    Flows or models for each class cost what one model costs: an image changes only the gradient of its
    own class, and that of the parts that all classes share.

    Raises:
        BudgetError: The settings cost more than the budget.
    """
    spec, budget, num_records = settings.spec, settings.budget, exactly(settings.num_records)
    partition = settings.partition or ("flows" if spec.classes else "none")
    flow = settings.flow or architecture_for((spec.height, spec.width), spec.channels)
    conditions = condition_dim(partition, len(spec.classes))
    # an upper bound: classes may share some arrays
    most = num_parts(partition, len(spec.classes)) * flow.num_parameters(
        condition_dim=conditions, num_classes=len(spec.classes)
    )
    releases: list[Release] = []
    if num_records is None:
        releases.append(Count.within(budget))
    releases.append(
        PrivateTraining(
            settings=_training(settings),
            noise_multiplier=float(budget.private),
            num_parameters=most,
        )
    )
    facts = ("the size of images", "the range of pixels", *declared(settings.num_records))
    return ImagePlan(
        model="ImageFlow",
        budget=budget,
        releases=spending(budget, tuple(releases), unit=Unit.IMAGE),
        declared=(*facts, "classes") if spec.classes else facts,
        num_records=num_records,
        seeded=settings.seed is not None,
        unit=Unit.IMAGE,
        spec=spec,
        partition=partition,
        flow=flow,
        reconstruction=settings.reconstruction,
        temperature=_TEMPERATURE if settings.temperature is None else settings.temperature,
    )


def check_sizes(spec: ImageSpec, partition: str | None, flow: ImageArchitecture | None) -> None:
    """Raise unless the partition and the networks are for images of this form."""
    if partition not in (None, "none") and not spec.classes:
        raise ValueError(
            f"partition={partition!r} needs classes. Declare them in the spec, or leave it out."
        )
    if flow is not None and flow.decoder_sees_class and (partition == "models" or not spec.classes):
        raise ValueError(
            "decoder_sees_class is for a decoder that several classes share. Declare classes in the "
            'spec, and leave partition="models" out.'
        )
    untold = flow is not None and flow.told_blocks == "none" and not flow.decoder_sees_class
    if partition == "none" and spec.classes and untold:
        raise ValueError(
            'told_blocks="none" leaves one model for all classes that is not told the class. Give '
            "decoder_sees_class=True as well, or leave the classes out of the spec."
        )
    if flow is not None and (flow.colors, *flow.size) != spec.shape:
        raise ValueError(
            f"flow is for images of {(flow.colors, *flow.size)} channels, height and width, and the "
            f"spec declares {spec.shape}. Give both the same."
        )


def check_training(training: Training) -> None:
    """Raise for a training that the two networks of an image model cannot have."""
    if training.steps == 0:
        raise ValueError("steps must be at least 1 in training: an image model has to be trained.")
    if training.clipping != "flat":
        raise ValueError(
            f"clipping must be 'flat' in training of images, got {training.clipping!r}. Give one "
            "clip_norm for both networks together, or one for each."
        )
    for name in ("clip_norm", "learning_rate"):
        value = getattr(training, name)
        if isinstance(value, tuple) and len(value) != 2:
            raise ValueError(
                f"{name} must be one number in training of images, or two: of the autoencoder and of "
                f"the flow; got {len(value)} numbers."
            )


def _training(settings: "ImageFlow") -> Training:
    """The training with defaults for everything that the user left open."""
    spec, budget, num_records = settings.spec, settings.budget, roughly(settings.num_records)
    size = spec.height, spec.width
    defaults = {**_PRIVATE, **_BY_SIZE[nearest_preset(size, spec.channels)]}
    slower = (budget.epsilon / _FULL_RATE_EPSILON) ** _RATE_POWER
    slower = min(1.0, max(_LEAST_RATE, slower))
    defaults["learning_rate"] = tuple(slower * rate for rate in defaults["learning_rate"])
    if max(size) <= _SMALL_SIDE:
        defaults["steps"] = _SMALL_STEPS
    if not budget.private:
        defaults |= _OPEN
    # the bound on what is released together is the root of the sum of squares
    defaults["clip_norm"] = (defaults["clip_norm"] / math.sqrt(2),) * 2
    rate = settings.training.rate(num_records)
    rate = _SAMPLING_RATE if rate is None else rate
    return settings.training.resolved(sampling_rate=rate, **defaults)
