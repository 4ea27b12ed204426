"""Optimizers as plain settings: what a plan can write down and an auditor can read.

All of these act on released gradients, so they cost nothing. Schedules count steps and see no data.
"""

# JAX and jaxtyping leave types open (trees, loops, new arrays); see [tool.pyright] in pyproject.toml
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportUnknownLambdaType=false, reportMissingTypeStubs=false

from dataclasses import dataclass

import optax

from veilflow._core import check
from veilflow._core.fields import convert, finite, nonnegative, optional, positive

# before the learning rate; each is what optax's optimizer of that name does
_OPTIMIZERS = {
    "sgd": lambda momentum: optax.trace(momentum) if momentum else optax.identity(),
    "adam": lambda momentum: optax.scale_by_adam(b1=momentum),
    "rmsprop": lambda momentum: optax.chain(
        optax.scale_by_rms(), optax.trace(momentum) if momentum else optax.identity()
    ),
    "adabelief": lambda momentum: optax.scale_by_belief(b1=momentum),
}
OPTIMIZERS = tuple(_OPTIMIZERS)
_DEFAULT_MOMENTUM = {"sgd": 0.0, "adam": 0.9, "rmsprop": 0.0, "adabelief": 0.9}
_SCHEDULES = ("constant", "cosine", "linear")


@dataclass(frozen=True, kw_only=True)
class Optimizer:
    """An optimizer by name, its learning rate and how the rate goes over the steps."""

    name: str = "adam"
    learning_rate: float = 1e-3
    schedule: str = "cosine"
    warmup: float = 0.0
    """The part of all steps over which the rate rises from zero."""
    momentum: float | None = None
    """Decay of the running mean of gradients; None for the optimizer's usual value."""
    weight_decay: float = 0.0
    """Pull of every parameter to zero, as a share of the learning rate (AdamW's way). Directions in
    which the records say nothing are a random walk of the noise; this holds them back, for free."""

    def __post_init__(self) -> None:
        check.one_of(OPTIMIZERS, optimizer=self.name)
        check.one_of(_SCHEDULES, schedule=self.schedule)
        convert(
            self,
            learning_rate=positive,
            warmup=finite,
            momentum=optional(finite),
            weight_decay=nonnegative,
        )
        for name, value in {"warmup": self.warmup, "momentum": self.momentum or 0.0}.items():
            if not 0 <= value < 1:
                raise ValueError(f"{name} must be at least 0 and below 1, got {value}.")

    def build(self, steps: int) -> optax.GradientTransformation:
        """The optax transformation for a run of `steps` steps."""
        momentum = _DEFAULT_MOMENTUM[self.name] if self.momentum is None else self.momentum
        decay = (
            optax.add_decayed_weights(self.weight_decay) if self.weight_decay else optax.identity()
        )
        direction = _OPTIMIZERS[self.name](momentum)
        return optax.chain(direction, decay, optax.scale_by_learning_rate(self.rate(steps)))

    def rate(self, steps: int) -> optax.Schedule:
        """The learning rate as a function of the step."""
        rising = round(self.warmup * steps)
        rest = max(steps - rising, 1)
        after = {
            "constant": optax.constant_schedule(self.learning_rate),
            "cosine": optax.cosine_decay_schedule(self.learning_rate, rest),
            "linear": optax.linear_schedule(self.learning_rate, 0.0, rest),
        }[self.schedule]
        if not rising:
            return after
        before = optax.linear_schedule(0.0, self.learning_rate, rising)
        return optax.join_schedules([before, after], [rising])
