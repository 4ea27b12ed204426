"""How a density is trained where the user leaves it open: network, steps, rates and clip.

As in the plan (`models/density_plan.py`), public facts decide.

- Noise decides, not the batch: with add/remove adjacency, Poisson sampling and the PLD accountant, the
  noise of a whole run is within a few percent of its limit from 1,024 records a step on.
- A shape starts close to the truth, so it is trained by plain gradient steps: noise in directions
  about which the records say little then stays small. Adam would make all directions equally large.
  Nine of ten gradients are shorter than the clip norm.
- Over a normal base a flow has everything to learn, and Adam is faster. A learning rate of 0.008 with a
  weight decay of 0.1 was best or close to it for 3,000 to 90,000 records and epsilon 0.5 to 4. Without
  decay, noise drives away the weights that no record needs.
"""

import math
from typing import TYPE_CHECKING, Any

from veilflow.engine.training import Training
from veilflow.models.architecture import Architecture, nsf
from veilflow.models.base_mixture import BaseMixture
from veilflow.models.record_count import roughly
from veilflow.privacy import calibration
from veilflow.privacy.budget import Budget

if TYPE_CHECKING:
    from veilflow.models.density import DensityFlow

ASSUMED_RECORDS = 10_000
"""For the rules where the number of records is not declared."""
_ASSUMED_RATE = 0.02
"""The sampling rate where the number of records is not declared."""
_BATCH = (1024, 4096)
_OPEN_BATCH = 512

_SHAPE_SHARE = 0.03
"""Share of the squared privacy parameter that the shape of the components takes."""

_FLOW = nsf(blocks=5, hidden=(64, 64))
_SHAPE = nsf(blocks=1, hidden=(16,), num_bins=6, radial=True)
_OPEN_FLOW = nsf(blocks=4, hidden=(256, 256))
"""Without noise a larger network and many small steps pay."""
_PRIVATE: dict[str, Any] = {
    "steps": 2000,
    "clip_norm": 100.0,
    "learning_rate": 8e-3,
    "weight_decay": 0.1,
    "optimizer": "adam",
    "ema_decay": 0.99,
}
_SHAPE_CLIP = 6.0
"""Clip norm of a shape, over the root of the number of columns."""
_SHAPE_RATE = (2.7e-3, 2.5e-2)
"""Learning rates of a shape with its usual share: at `_RECORDS_TIMES_MU`, and most."""
_RECORDS_TIMES_MU = 6500.0
_RATE_GROWS = 1.25
"""The power of records times mu with which the rate grows."""
_PRIVATE_SHAPE: dict[str, Any] = {
    "steps": 1000,
    "weight_decay": 0.0,
    "optimizer": "sgd",
    "ema_decay": 0.99,
}
_OPEN: dict[str, Any] = {
    **_PRIVATE,
    "steps": 10_000,
    "clip_norm": 1e3,
    "learning_rate": 1e-3,
    "weight_decay": 0.0,
    "ema_decay": 0.999,
}


def planned_training(settings: "DensityFlow", start: str, dim: int, *, shapes: bool) -> Training:
    """The training with defaults for everything that the user left open."""
    budget, num_records = settings.budget, roughly(settings.num_records)
    rate = settings.training.rate(num_records)
    if rate is None and num_records is not None:
        rate = min(1.0, _batch_size(num_records, budget.epsilon) / num_records)
    elif rate is None:
        rate = _ASSUMED_RATE
    defaults = dict(_PRIVATE if budget.private else _OPEN)
    if shapes and budget.private:
        share = 1.0 if isinstance(settings.base, BaseMixture) else _SHAPE_SHARE
        rate_of_steps = _shape_learning_rate(num_records or ASSUMED_RECORDS, budget, share)
        defaults = {
            **_PRIVATE_SHAPE,
            "clip_norm": _SHAPE_CLIP * dim**0.5,
            "learning_rate": rate_of_steps,
        }
    if start == "grid":
        defaults["steps"] = 0
    return settings.training.resolved(sampling_rate=rate, **defaults)


def _batch_size(num_records: int, epsilon: float) -> float:
    """The expected number of records in a step."""
    if epsilon == math.inf:
        return _OPEN_BATCH
    least = min(_BATCH[0], max(64, num_records // 4))
    return max(least, min(_BATCH[1], num_records * epsilon / 100))


def default_flow(budget: Budget, *, shapes: bool) -> Architecture:
    """The flow to train where the user names none."""
    if not budget.private:
        return _OPEN_FLOW
    return _SHAPE if shapes else _FLOW


def _shape_learning_rate(num_records: int, budget: Budget, share: float) -> float:
    """Longer steps where there is less noise: it falls as records times the shape's mu grow."""
    usual, most = _SHAPE_RATE
    mu = calibration.gaussian_mu(budget) * (share / _SHAPE_SHARE) ** 0.5
    known = num_records * mu / _RECORDS_TIMES_MU
    return min(usual * known**_RATE_GROWS, most)


def shape_noise(training: Training, budget: Budget) -> float:
    """The noise multiplier at which the training of a shape takes about its share."""
    if not budget.private:
        return 0.0
    assert training.sampling_rate is not None
    assert training.steps
    return calibration.noise_multiplier(
        calibration.part_of(budget, _SHAPE_SHARE),
        sampling_rate=training.sampling_rate,
        steps=training.steps,
        bands=training.noise_bands,
    )
