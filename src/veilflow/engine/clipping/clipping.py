"""Clipping: from the gradients of records to one sum of bounded sensitivity.

A clipping has a `sensitivity`, which no record's contribution to the sum exceeds; `clip`, which
computes the sum (additive over chunks of records); and `init` and `gradient`, for clippings with a
state that changes from step to step. Contributions are scaled to a bound just below the promised one,
so that the float32 rounding of norms cannot carry them over it.
"""

# JAX and jaxtyping leave types open (trees, loops, new arrays); see [tool.pyright] in pyproject.toml
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportUnknownLambdaType=false

from abc import abstractmethod
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PyTree

from veilflow._core import check
from veilflow.engine.observed import Observed

# Norms are sums of up to ~1e5 float32 products; their relative error stays well below this.
INSIDE = 1 - 3e-6

SMALLEST, LARGEST = 1e-9, 1e10
"""The range of bounds that float32 norms can be clipped to, given what `nn.outer` adds to squares."""


class AbstractClipping(eqx.Module):
    """Turns the gradients of records into one sum of bounded sensitivity."""

    materializes: ClassVar[bool] = False
    """Whether `clip` builds arrays of size records x parameters, so that chunks must be small."""

    @property
    @abstractmethod
    def sensitivity(self) -> float:
        """The most that one record contributes, in L2, to what `clip` returns."""

    @abstractmethod
    def clip(self, observed: Observed, state: PyTree, key: Key[Array, ""]) -> PyTree:
        """The sum of the clipped contributions of a chunk of records."""

    def init(self) -> PyTree:
        """The state before the first step, which is public."""
        return ()

    def gradient(self, total: PyTree, state: PyTree, batch_size: float) -> tuple[PyTree, PyTree]:
        """The sum of gradients and the next state, both computed from the *released* sum."""
        return total, state


class AbstractBounded(AbstractClipping):
    """A clipping with a fixed bound on the contribution of one record."""

    clip_norm: float = eqx.field(static=True)

    def __check_init__(self) -> None:
        check_bound(clip_norm=self.clip_norm)

    @property
    def sensitivity(self) -> float:
        return float(self.clip_norm)


def check_bound(**named: Any) -> None:
    """Raise unless every named bound is positive and feasible in float32."""
    check.positive(**named)
    for name, value in named.items():
        if not SMALLEST <= value <= LARGEST:
            raise ValueError(
                f"{name} must be between {SMALLEST} and {LARGEST:.0e}, got {value}: float32 cannot "
                "represent norms outside this range well enough. Rescale the loss."
            )


def shrink(norm: Float[Array, "..."], bound: Any) -> Float[Array, "..."]:
    """min(1, bound / norm), with a slightly smaller bound and without division by zero."""
    bound = INSIDE * bound
    tiny = jnp.finfo(norm.dtype).tiny
    factor = bound / jnp.maximum(jnp.maximum(norm, bound), tiny)
    return jnp.where(jnp.isfinite(norm), factor, 0.0)


def bounds_by_size(observed: Observed, clip_norm: float) -> tuple[float, ...]:
    """The bound C_l of each layer (each slice of a stacked one) and loose parameter."""
    sizes: list[float] = []
    copies: list[int] = []
    for layer in observed.layers:
        leaves = jax.tree.leaves(eqx.filter(layer, eqx.is_inexact_array))
        number = 1
        for axis in layer.stack:
            number *= axis
        copies.append(number)
        sizes.append(sum(leaf.size for leaf in leaves) / number)
    for g in observed.loose:
        copies.append(1)
        sizes.append(g[0].size)
    total = sum(size * number for size, number in zip(sizes, copies, strict=True))
    return tuple(clip_norm * (size / total) ** 0.5 for size in sizes)
