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
"""Largest bound: sums of losses are 32-bit integers within a chunk of records."""
_SMALLEST = 1e-7
"""Smallest probability whose logarithm is taken; below it, every bounded loss is at its bound."""


@dataclass(frozen=True)
class BoundedLoss:
    """The loss of one record, from 0 to `sensitivity`, given the probabilities of a network.

    "l2" is the squared distance between the probabilities and the true class. "ramp" falls linearly
    from 1 to 0 as the log odds of the true class rise from -1 to 1. "clipped-ce" is the cross-entropy,
    clipped at `ceiling`.

    This is a frozen dataclass and not a closure, so that equal losses share one compiled program.
    """

    name: str = "l2"
    num_classes: int = 2
    """With two classes there is one output, the probability of the second; otherwise one for each."""
    ceiling: float = 4.0
    """Where the cross-entropy is clipped. Other losses ignore it."""

    def __post_init__(self) -> None:
        if self.name in _UNBOUNDED:
            raise ValueError(
                f"loss={self.name!r} is unbounded, so one record could move the sum of losses by any "
                f"amount and no epsilon would hold. Use one of {', '.join(map(repr, LOSSES))}."
            )
        check.one_of(LOSSES, loss=self.name)
        convert(self, name=word(*LOSSES), num_classes=count(at_least=2), ceiling=positive)
        if not self.ceiling <= _LARGEST:
            raise ValueError(f"ceiling must be at most {_LARGEST:g}, got {self.ceiling}.")

    @property
    def sensitivity(self) -> float:
        """The largest loss of a record, hence the most that one record moves a sum of losses."""
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
        """Log probability of the true class, and of the most likely other class."""
        if self.num_classes == 2:
            true = jnp.where(label == 1, outputs, 1.0 - outputs)
            return _log(true), _log(1.0 - true)
        is_true = jax.nn.one_hot(label, self.num_classes, dtype=bool)
        others = jnp.max(jnp.where(is_true, 0.0, outputs))
        return _log(jnp.sum(jnp.where(is_true, outputs, 0.0))), _log(others)


def _log(probability: Array) -> Array:
    # NaN remains NaN: sums count it as the largest loss
    return jnp.log(jnp.where(probability < _SMALLEST, _SMALLEST, probability))


def in_units(sensitivity: float, *, bits: int) -> int:
    """The largest loss in units of 2^-`bits`, rounded down so that the bound is kept."""
    return math.floor(math.ldexp(sensitivity, bits))
