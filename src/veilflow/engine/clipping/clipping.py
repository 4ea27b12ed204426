"""Clipping: from the gradients of records to a sum that no record can move far.

A clipping is an object with four parts: its `sensitivity`, a proof that no record's share of the sum
exceeds it; `clip`, which makes the sum (additive over chunks of records); `init` and `gradient`, for
those that carry state from step to step. Shares shrink toward a bound just inside the promised one,
so that float32 rounding of norms cannot carry them over it.
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
"""Bounds a float32 norm can be held to, beside what `nn.outer` adds to squares."""


class AbstractClipping(eqx.Module):
    """How the gradients of records become one bounded sum."""

    materializes: ClassVar[bool] = False
    """Whether `clip` builds records x parameters arrays, so that chunks must be small."""

    @property
    @abstractmethod
    def sensitivity(self) -> float:
        """The most, in L2, that one record adds to what `clip` returns."""

    @abstractmethod
    def clip(self, observed: Observed, state: PyTree, key: Key[Array, ""]) -> PyTree:
        """The sum over the chunk's records of their clipped shares."""

    def init(self) -> PyTree:
        """State at step zero; public."""
        return ()

    def gradient(self, total: PyTree, state: PyTree, batch_size: float) -> tuple[PyTree, PyTree]:
        """From the *released* sum, the released sum of gradients and the next state."""
        return total, state


class AbstractBounded(AbstractClipping):
    """A clipping whose bound on one record's share is a fixed number."""

    clip_norm: float = eqx.field(static=True)

    def __check_init__(self) -> None:
        check_bound(clip_norm=self.clip_norm)

    @property
    def sensitivity(self) -> float:
        return float(self.clip_norm)


def check_bound(**named: Any) -> None:
    """Raise unless every named bound is positive and of a size float32 can hold a norm to."""
    check.positive(**named)
    for name, value in named.items():
        if not SMALLEST <= value <= LARGEST:
            raise ValueError(
                f"{name} must be between {SMALLEST} and {LARGEST:.0e}, got {value}: beyond, float32 "
                "cannot hold a norm to it. Rescale the loss."
            )


def shrink(norm: Float[Array, "..."], bound: Any) -> Float[Array, "..."]:
    """min(1, bound / norm), with the bound drawn in a little and no division by zero."""
    bound = INSIDE * bound
    tiny = jnp.finfo(norm.dtype).tiny
    factor = bound / jnp.maximum(jnp.maximum(norm, bound), tiny)
    return jnp.where(jnp.isfinite(norm), factor, 0.0)


def bounds_by_size(observed: Observed, clip_norm: float) -> tuple[float, ...]:
    """C_l for each layer (each slice of a stacked one) and loose parameter."""
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
    whole = sum(size * number for size, number in zip(sizes, copies, strict=True))
    return tuple(clip_norm * (size / whole) ** 0.5 for size in sizes)
