"""The interface of bijections: two directions, and a log-determinant in two parts.

Forward is base to data, inverse is data to base, always. Training uses the inverse: it evaluates the
density of a record. Part of the inverse log-determinant may depend on the parameters only (the scales
of an ActNorm do not depend on the record). No record can change that part, so its gradient needs
neither clipping nor noise and the engine adds it afterwards. A bijection states the two parts
separately and never their sum; the sum is formed here, once, so the parts cannot disagree with it.
"""

from abc import abstractmethod

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from veilflow._core.errors import PrivacyError
from veilflow.nn.tap import is_layer

Vector = Float[Array, " dim"]
"""One example."""
Scalar = Float[Array, ""]
Mapped = tuple[Vector, Scalar]
"""The image of an example, and the log absolute determinant of the map there."""
Condition = Float[Array, " condition"] | None
"""What a density may be conditioned on; bijections that do not use it pass it on or ignore it."""


class AbstractBijection(eqx.Module):
    """An invertible map of one example of `dim` numbers; `jax.vmap` maps batches.

    To write one: keep every trained number in a layer of `veilflow.nn`, and call each layer exactly
    once in `inverse_and_private_log_det`, because the layer's tap is in the call. Constants are static
    fields: an array leaf is a parameter and the engine would train it.
    """

    @property
    @abstractmethod
    def dim(self) -> int:
        """How many numbers an example has."""

    @abstractmethod
    def forward_and_log_det(self, z: Vector, condition: Condition = None) -> Mapped:
        """Base to data, with the log absolute determinant of this direction."""

    @abstractmethod
    def inverse_and_private_log_det(self, x: Vector, condition: Condition = None) -> Mapped:
        """Data to base, with the terms of the log-determinant that depend on the record."""

    def public_log_det(self) -> Scalar:
        """The other terms of the inverse log-determinant: parameters only, no record."""
        return jnp.zeros(())

    def inverse_and_log_det(self, x: Vector, condition: Condition = None) -> Mapped:
        """Data to base, with the whole log absolute determinant of this direction."""
        z, private = self.inverse_and_private_log_det(x, condition)
        return z, private + self.public_log_det()


def refuse_taps(bijection: AbstractBijection) -> None:
    """Raise if taps are laid into layers that are about to be used in the forward direction.

    There a layer may run several times on one record, or its parameters may be read outside the call.
    A tap would then report a gradient that is not the record's, and the clip would not hold.
    """
    if has_taps(bijection):
        raise PrivacyError(
            f"the forward direction of {type(bijection).__name__} cannot be clipped through taps: "
            "they are exact from data to base only. Take the gradient of each record by itself "
            "(jax.vmap of jax.grad), or train the bijection without Invert."
        )


def has_taps(bijection: AbstractBijection) -> bool:
    """Whether taps are laid into the layers: the engine is about to clip their gradients."""
    layers = [node for node in jax.tree.leaves(bijection, is_leaf=is_layer) if is_layer(node)]
    return any(layer.tap is not None for layer in layers)
