"""The plan of an image fit, from public facts alone.

All defaults are here. They are those of the published system, but for these. The bound of a record's
gradient holds for both networks together. Learning rates fall along a cosine, and are lower where noise
is larger. All classes have one autoencoder in common. And there are 800 steps, not 300: at a sampling
rate of 0.1 all of them together then have less noise, not more, beside the sum of their gradients (by
13 % at epsilon 10). This was chosen on generated images (`benchmarks/generated_images.py`); other
latent sizes, widths, splines, weights of the reconstruction and averages of parameters did no better
there.
"""

import math
from dataclasses import dataclass
from typing import Any

from veilflow._core import check
from veilflow.engine.training import Training
from veilflow.images import ImageSpec
from veilflow.models.image.architecture import ImageArchitecture, architecture_for, nearest_preset
from veilflow.models.image.class_models import PARTITIONS, condition_dim, num_parts
from veilflow.models.image.loss import RECONSTRUCTIONS
from veilflow.privacy.budget import Budget
from veilflow.privacy.unit import Unit
from veilflow.releases.count import Count
from veilflow.releases.plan import FitPlan, spending
from veilflow.releases.release import Release
from veilflow.releases.training import PrivateTraining

_TEMPERATURE = math.sqrt(1e5)
_SAMPLING_RATE = 0.1
_PRIVATE: dict[str, Any] = {
    "steps": 800,
    "optimizer": "adam",
    "weight_decay": 1e-5,
    "ema_decay": None,
}
"""Whatever the size of an image."""
_BY_SIZE: dict[str, dict[str, Any]] = {
    "28x28x1": {"clip_norm": 0.1, "learning_rate": (0.01, 0.005)},
    "32x32x3": {"clip_norm": 0.01, "learning_rate": (0.005, 0.005)},
    "64x64x3": {"clip_norm": 0.01, "learning_rate": (0.005, 0.005)},
    "256x256x3": {"clip_norm": 10.0, "learning_rate": (0.005, 0.005)},
}
"""By the nearest preset. `clip_norm` is that of the autoencoder and the flow together."""
_SMALL_SIDE, _SMALL_STEPS = 16, 300
"""Images of up to so many pixels a side have less to be learned."""
_FULL_RATE_EPSILON, _RATE_POWER, _LEAST_RATE = 10.0, 0.3, 0.5
"""Learning rates are as above from this epsilon on; below they fall by this power, down to a half."""
_OPEN: dict[str, Any] = {  # without noise nothing has to be held down, and small steps pay
    "steps": 1000,
    "clip_norm": 1e6,
    "learning_rate": (1e-3, 1e-3),
}


@dataclass(frozen=True, kw_only=True)
class ImagePlan(FitPlan):
    """The plan of an image fit.

    Attributes:
        spec: What is declared about the images.
        partition: What each class has of its own, one of `PARTITIONS`.
        flow: Sizes of all networks.
        reconstruction: What the autoencoder is trained on, one of `RECONSTRUCTIONS`.
        temperature: Its square is the weight of the reconstruction beside the density of codes.
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
        """0 where images have no labels."""
        return len(self.spec.classes)

    @property
    def num_parts(self) -> int:
        """How many classes are trained apart from one another."""
        return num_parts(self.partition, self.num_classes)

    @property
    def condition_dim(self) -> int:
        """How many numbers the flow is conditioned on."""
        return condition_dim(self.partition, self.num_classes)

    @property
    def num_numbers(self) -> int:
        """How many numbers are released."""
        one = self.flow.num_parameters(condition_dim=self.condition_dim)
        if self.partition == "flows":
            return one + (self.num_parts - 1) * self.flow.num_flow_parameters()
        return self.num_parts * one


def plan_images(
    *,
    spec: ImageSpec,
    budget: Budget,
    num_records: int | None,
    partition: str | None,
    flow: ImageArchitecture | None,
    reconstruction: str,
    temperature: float | None,
    training: Training,
    seeded: bool,
) -> ImagePlan:
    """The plan of a fit; None stands for no choice of the user.

    Flows or models for each class cost what one model costs: an image moves the gradient of its own
    class alone, beside that of what all classes have in common.

    Raises:
        BudgetError: The settings cost more than the budget.
    """
    partition = partition or ("flows" if spec.classes else "none")
    flow = flow or architecture_for((spec.height, spec.width), spec.channels)
    conditions = condition_dim(partition, len(spec.classes))
    # at most: parts may have some arrays in common
    most = num_parts(partition, len(spec.classes)) * flow.num_parameters(condition_dim=conditions)
    releases: list[Release] = [] if num_records is not None else [Count.within(budget)]
    releases.append(
        PrivateTraining(
            settings=_training(training, spec, budget, num_records),
            noise_multiplier=float(budget.private),
            num_parameters=most,
        )
    )
    return ImagePlan(
        model="ImageFlow",
        budget=budget,
        releases=spending(budget, tuple(releases), unit=Unit.IMAGE),
        declared=_declared(spec),
        num_records=num_records,
        seeded=seeded,
        unit=Unit.IMAGE,
        spec=spec,
        partition=partition,
        flow=flow,
        reconstruction=reconstruction,
        temperature=_TEMPERATURE if temperature is None else temperature,
    )


def check_sizes(spec: ImageSpec, partition: str | None, flow: ImageArchitecture | None) -> None:
    """Raise where classes or networks are not for images of this kind."""
    if partition not in (None, "none") and not spec.classes:
        raise ValueError(
            f"partition={partition!r} needs classes. Declare them in the spec, or leave it out."
        )
    if flow is not None and (flow.colors, *flow.size) != spec.shape:
        raise ValueError(
            f"flow is for images of {(flow.colors, *flow.size)} channels, height and width, and the "
            f"spec declares {spec.shape}. Give both the same."
        )


def check_training(training: Training) -> None:
    """Raise where the two networks of an image model cannot be trained so."""
    if training.steps == 0:
        raise ValueError("steps must be at least 1 in training: an image model is nothing without.")
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


def _training(
    training: Training, spec: ImageSpec, budget: Budget, num_records: int | None
) -> Training:
    """All settings of the training."""
    size = spec.height, spec.width
    usual = {**_PRIVATE, **_BY_SIZE[nearest_preset(size, spec.channels)]}
    slower = (budget.epsilon / _FULL_RATE_EPSILON) ** _RATE_POWER
    slower = min(1.0, max(_LEAST_RATE, slower))
    usual["learning_rate"] = tuple(slower * rate for rate in usual["learning_rate"])
    if max(size) <= _SMALL_SIDE:
        usual["steps"] = _SMALL_STEPS
    if not budget.private:
        usual |= _OPEN
    # what is released together has the root of the sum of squares as its bound
    usual["clip_norm"] = (usual["clip_norm"] / math.sqrt(2),) * 2
    rate = training.rate(num_records)
    return training.resolved(sampling_rate=_SAMPLING_RATE if rate is None else rate, **usual)


def _declared(spec: ImageSpec) -> tuple[str, ...]:
    """Facts that the guarantee takes as public."""
    facts = ("the size of images", "the range of pixels")
    return (*facts, "classes") if spec.classes else facts
