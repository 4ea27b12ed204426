"""Optimizers as plain settings, which a plan can store and an auditor can read.

Optimizers act on released gradients, so they cost nothing. Schedules depend on the step, never on data.
"""

# JAX and jaxtyping leave types open (trees, loops, new arrays); see [tool.pyright] in pyproject.toml
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportUnknownLambdaType=false, reportMissingTypeStubs=false

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import optax
from jaxtyping import PyTree

from veilflow._core import check
from veilflow._core.fields import convert, finite, fraction, nonnegative, optional, positive
from veilflow.nn.frozen import trainable_part

# without the learning rate; each does what the optimizer of that name does in optax
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
SCHEDULES = ("constant", "cosine", "linear", "exponential")


@dataclass(frozen=True, kw_only=True)
class Optimizer:
    """An optimizer by name, with its learning rate and schedule."""

    name: str = "adam"
    learning_rate: float = 1e-3
    schedule: str = "cosine"
    warmup: float = 0.0
    """The fraction of the steps over which the rate rises from zero."""
    momentum: float | None = None
    """Decay of the running mean of gradients; None for the default of the optimizer."""
    weight_decay: float = 0.0
    """Decay of every parameter towards zero, times the learning rate (as in AdamW). Parameters about
    which the records say nothing follow a random walk of the noise; decay limits it, at no cost."""
    rate_decay: float = 0.9999
    """For the schedule "exponential": the factor by which the learning rate falls at each step."""

    def __post_init__(self) -> None:
        check.one_of(OPTIMIZERS, optimizer=self.name)
        check.one_of(SCHEDULES, schedule=self.schedule)
        convert(
            self,
            learning_rate=positive,
            warmup=finite,
            momentum=optional(finite),
            weight_decay=nonnegative,
            rate_decay=fraction,
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
            "exponential": optax.exponential_decay(self.learning_rate, 1, self.rate_decay),
        }[self.schedule]
        if not rising:
            return after
        before = optax.linear_schedule(0.0, self.learning_rate, rising)
        return optax.join_schedules([before, after], [rising])


@dataclass(frozen=True, kw_only=True)
class ScaledOptimizer(Optimizer):
    """An `Optimizer` with a factor on the learning rate of each trained array."""

    factors: tuple[float, ...]
    """One factor for each trained array, in the order of the model's tree."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for factor in self.factors:
            check.positive(factor=factor)

    @classmethod
    def of(
        cls,
        model: Any,
        groups: Callable[[Any], Sequence[PyTree]],
        learning_rates: Sequence[float],
        **settings: Any,
    ) -> "ScaledOptimizer":
        """An optimizer with one learning rate for each part of a model.

        Args:
            model: The model to be trained.
            groups: Maps the model to its parts, which together hold every trained array once.
            learning_rates: The learning rate of each part.
            **settings: Settings of `Optimizer` other than the learning rate.

        Raises:
            ValueError: A trained array is in no part or in several, or the numbers of rates and of
                parts differ.
        """
        parts = groups(model)
        if len(parts) != len(learning_rates):
            raise ValueError(f"{len(parts)} groups need as many rates, got {len(learning_rates)}.")
        for rate in learning_rates:
            check.positive(learning_rate=rate)
        members = [{id(leaf) for leaf in jax.tree.leaves(part)} for part in parts]
        largest = max(learning_rates)
        factors: list[float] = []
        for leaf in jax.tree.leaves(trainable_part(model)[0]):
            groups_of = [i for i, inside in enumerate(members) if id(leaf) in inside]
            if len(groups_of) != 1:
                raise ValueError("every trained array must belong to exactly one group.")
            factors.append(float(learning_rates[groups_of[0]] / largest))
        return cls(learning_rate=float(largest), factors=tuple(factors), **settings)

    def build(self, steps: int) -> optax.GradientTransformation:
        """The optax transformation for a run of `steps` steps."""

        def scale(updates: PyTree, params: PyTree | None = None) -> PyTree:
            leaves, treedef = jax.tree.flatten(updates)
            scaled = [x * factor for x, factor in zip(leaves, self.factors, strict=True)]
            return jax.tree.unflatten(treedef, scaled)

        return optax.chain(super().build(steps), optax.stateless(scale))
