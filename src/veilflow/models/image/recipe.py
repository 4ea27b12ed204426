"""What a fit of images will do, from public facts alone. `pricing.py` has what that costs.

All defaults are here. They are those of the published system, but for these. The bound of a record's
gradient holds for both networks together. Learning rates fall along a cosine, and are lower where noise
is larger. All classes have one autoencoder in common. And there are 800 steps, not 300: at a sampling
rate of 0.1 all of them together then have less noise, not more, beside the sum of their gradients (by
13 % at epsilon 10). This was chosen on generated images (`benchmarks/generated_images.py`); other
latent sizes, widths, splines, weights of the reconstruction and averages of parameters did no better
there.
"""

import json
import math
from dataclasses import asdict, dataclass
from typing import Any

from veilflow.images import ImageSpec
from veilflow.models.image.architecture import (
    ImageArchitecture,
    architecture_for,
    nearest_preset,
)
from veilflow.privacy.budget import Budget

_PRIVATE: dict[str, Any] = {
    "temperature": math.sqrt(1e5),
    "steps": 800,
    "sampling_rate": 0.1,
    "weight_decay": 1e-5,
    "ema_decay": None,
}
"""Whatever the size of an image."""
_BY_SIZE: dict[str, dict[str, Any]] = {
    "28x28x1": {"clip_norm": 0.1, "learning_rates": (0.01, 0.005)},
    "32x32x3": {"clip_norm": 0.01, "learning_rates": (0.005, 0.005)},
    "64x64x3": {"clip_norm": 0.01, "learning_rates": (0.005, 0.005)},
    "256x256x3": {"clip_norm": 10.0, "learning_rates": (0.005, 0.005)},
}
"""By the nearest preset. `clip_norm` is that of the autoencoder and the flow together."""
_SMALL_SIDE, _SMALL_STEPS = 16, 300
"""Images of up to so many pixels a side have less to be learned."""
_FULL_RATE_EPSILON, _RATE_POWER, _LEAST_RATE = 10.0, 0.3, 0.5
"""Learning rates are as above from this epsilon on; below they fall by this power, down to a half."""
_OPEN: dict[str, Any] = {  # without noise nothing has to be held down, and small steps pay
    "steps": 1000,
    "clip_norm": 1e6,
    "learning_rates": (1e-3, 1e-3),
}

AUTO = "auto"


@dataclass(frozen=True, kw_only=True)
class ImageRecipe:
    """What a fit will do. Public numbers only."""

    architecture: ImageArchitecture
    partition: str
    """What each class has of its own, one of `PARTITIONS`."""
    reconstruction: str
    temperature: float
    steps: int
    sampling_rate: float
    clip_norms: tuple[float, ...]
    """Of the autoencoder and of the flow, or one for both together."""
    learning_rates: tuple[float, float]
    """Of the autoencoder and of the flow."""
    weight_decay: float
    ema_decay: float | None

    def to_json(self) -> dict[str, Any]:
        """The recipe as plain JSON values."""
        return json.loads(json.dumps(asdict(self)))


def plan_images(
    *,
    spec: ImageSpec,
    budget: Budget,
    partition: str | None,
    architecture: ImageArchitecture | None,
    reconstruction: str,
    ema_decay: float | str | None,
    chosen: dict[str, Any],
) -> ImageRecipe:
    """The recipe for a fit.

    Args:
        spec: Of the images.
        budget: Of the whole fit.
        partition: What each class has of its own, if the user said so.
        architecture: The user's, if there is one.
        reconstruction: What the autoencoder is trained on.
        ema_decay: The user's, which may be None for no average, or `AUTO`.
        chosen: Other settings the user gave; None stands for no choice.
    """
    size = spec.height, spec.width
    settings = {**_PRIVATE, **_BY_SIZE[nearest_preset(size, spec.channels)]}
    slower = (budget.epsilon / _FULL_RATE_EPSILON) ** _RATE_POWER
    slower = min(1.0, max(_LEAST_RATE, slower))
    settings["learning_rates"] = tuple(slower * rate for rate in settings["learning_rates"])
    if max(size) <= _SMALL_SIDE:
        settings["steps"] = _SMALL_STEPS
    if not budget.private:
        settings.update(_OPEN)
    # what is released together has the root of the sum of squares as its bound
    settings["clip_norms"] = (settings.pop("clip_norm") / math.sqrt(2),) * 2
    settings.update({name: value for name, value in chosen.items() if value is not None})
    if ema_decay != AUTO:
        settings["ema_decay"] = ema_decay
    return ImageRecipe(
        architecture=architecture or architecture_for(size, spec.channels),
        partition=partition or ("flows" if spec.classes else "none"),
        reconstruction=reconstruction,
        **settings,
    )
