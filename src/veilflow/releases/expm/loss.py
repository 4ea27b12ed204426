"""Bounded losses of one record, as the exponential mechanism requires them."""

import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from veilflow._core import check
from veilflow._core.fields import convert, count, positive, word

LOSSES = ("l2", "ramp", "clipped-ce")
_UNBOUNDED = ("bce", "ce", "cross-entropy", "log", "logistic", "hinge", "mse")
_LARGEST = 16.0
"""Of a bound: sums of losses are whole numbers of 32 bits within a chunk of records."""
_SMALLEST = 1e-7
"""Of a probability whose logarithm is taken; below, every bounded loss is at its bound."""


@dataclass(frozen=True)
class BoundedLoss:
    """What a record costs, from 0 to `sensitivity`, by the probabilities that a network gives it.

    "l2" is the squared distance between the probabilities and the truth. "ramp" falls in a line from
    1 to 0 while the log odds of the true class rise from -1 to 1. "clipped-ce" is the cross-entropy,
    cut at `ceiling`.

    A frozen record and not a closure: equal losses share one compiled program.
    """

    name: str = "l2"
    num_classes: int = 2
    """Two classes have one output, the probability of the second; more have one output each."""
    ceiling: float = 4.0
    """Where the cross-entropy is cut. No other loss looks at it."""

    def __post_init__(self) -> None:
        if self.name in _UNBOUNDED:
            raise ValueError(
                f"loss={self.name!r} has no bound, so one record could move the sum of losses by any "
                f"amount and no epsilon would hold. Use one of {', '.join(map(repr, LOSSES))}."
            )
        check.one_of(LOSSES, loss=self.name)
        convert(self, name=word(*LOSSES), num_classes=count(at_least=2), ceiling=positive)
        if not self.ceiling <= _LARGEST:
            raise ValueError(f"ceiling must be at most {_LARGEST:g}, got {self.ceiling}.")

    @property
    def sensitivity(self) -> float:
        """The largest loss of a record: how far one record moves a sum of losses, at most."""
        if self.name == "clipped-ce":
            return self.ceiling
        # |p - e|^2 for a one-hot e and probabilities p that sum to 1 goes up to 2, not 1
        return 2.0 if self.name == "l2" and self.num_classes > 2 else 1.0

    def __call__(
        self, outputs: Float[Array, "*outputs"], label: Int[Array, ""]
    ) -> Float[Array, ""]:
        """The loss of one record of class `label`."""
        if self.name == "l2":
            return self._squared(outputs, label)
        log_true, log_best_other = self._logs(outputs, label)
        if self.name == "ramp":
            return jnp.clip((1.0 - (log_true - log_best_other)) / 2.0, 0.0, 1.0)
        return jnp.minimum(-log_true, self.ceiling)

    def _squared(self, outputs: Array, label: Array) -> Array:
        if self.num_classes == 2:
            return jnp.square(outputs - label.astype(outputs.dtype))
        return jnp.sum(jnp.square(outputs - jax.nn.one_hot(label, self.num_classes)))

    def _logs(self, outputs: Array, label: Array) -> tuple[Array, Array]:
        """Log probability of the true class, and of the likeliest among the others."""
        if self.num_classes == 2:
            true = jnp.where(label == 1, outputs, 1.0 - outputs)
            return _log(true), _log(1.0 - true)
        is_true = jax.nn.one_hot(label, self.num_classes, dtype=bool)
        others = jnp.max(jnp.where(is_true, 0.0, outputs))
        return _log(jnp.sum(jnp.where(is_true, outputs, 0.0))), _log(others)


def _log(probability: Array) -> Array:
    # NaN stays NaN: whoever sums it counts it as the largest loss
    return jnp.log(jnp.where(probability < _SMALLEST, _SMALLEST, probability))


def in_units(sensitivity: float, *, bits: int) -> int:
    """The largest loss in units of 2^-`bits`, rounded down so that the bound is kept."""
    return math.floor(math.ldexp(sensitivity, bits))
