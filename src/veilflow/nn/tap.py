"""Taps: how the input of a layer and the cotangent of its output reach the engine.

For a layer that is linear in its parameters, the gradient of one record follows from two vectors: the
input (`a`) and the derivative of the loss with respect to the output (`d`). A `Tap` is a pair of
zeros that a layer attaches to its output. Its cotangent is *defined* to be the pair (a, d), so one
ordinary backward pass with respect to the taps collects all pairs. A tap is a plain argument, so it
passes through `vmap`, `scan`, `cond` and `remat` like any other. Nothing is hooked or registered, and
the parameters themselves are never differentiated.
"""

from abc import abstractmethod
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

Layer = TypeVar("Layer", bound="AbstractLayer")


class Tap(eqx.Module):
    """Zeros in the forward pass; (input, cotangent of the output) in the backward pass."""

    a: Float[Array, "..."]
    d: Float[Array, "..."]


@jax.custom_vjp
def _observe(y: Array, a: Array, tap: Tap) -> Array:
    return y


def _observe_fwd(y: Array, a: Array, tap: Tap) -> tuple[Array, Array]:
    return y, a


def _observe_bwd(a: Array, d: Array) -> tuple[Array, None, Tap]:
    return d, None, Tap(a, d)


_observe.defvjp(_observe_fwd, _observe_bwd)


def observe(y: Array, a: Array, tap: Tap | None) -> Array:
    """`y` unchanged; the cotangent of a tap reports `a` and the cotangent of `y`."""
    return y if tap is None else _observe(y, a, tap)


class AbstractLayer(eqx.Module):
    """A layer that computes the gradient of each record from its tap.

    To write one, keep parameters as array fields, return `observe(y, a, self.tap)` from `__call__`,
    and implement the methods below for a single layer. The arrays in the `tap` argument have the
    records as first axis and, if `uses` is set, the uses as second. The engine handles stacked
    layers, which have a leading block axis on every parameter, by mapping over that axis.
    """

    tap: eqx.AbstractVar[Tap | None]
    uses: eqx.AbstractVar[int | None]
    """How often one record passes through this layer; None for once. `Reused` sets it."""

    @property
    @abstractmethod
    def stack(self) -> tuple[int, ...]:
        """Leading axes of the parameters beyond those of a single layer."""

    @abstractmethod
    def tap_shapes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Shapes of `a` and `d` for one use of one record, without stack axes."""

    @abstractmethod
    def squared_norm(self, tap: Tap) -> Float[Array, " records"]:
        """The squared L2 norm of each record's gradient."""

    @abstractmethod
    def weighted_sum(self: Layer, tap: Tap, factors: Float[Array, "records ..."]) -> Layer:
        """The sum over records of factor times gradient, shaped like this layer.

        `factors` holds one number per record, or one per record and unit.
        """

    @abstractmethod
    def unit_norms(self, tap: Tap) -> tuple[Float[Array, "records units"], ...]:
        """The L1 norm and squared L2 norm of each record's gradient, unit by unit."""

    @abstractmethod
    def per_record(self: Layer, tap: Tap) -> Layer:
        """Each record's gradient itself, which is large; for clippings that need every entry."""


def is_layer(node: Any) -> bool:
    """Whether `node` is a layer that computes its own gradient."""
    return isinstance(node, AbstractLayer)


def zero_tap(layer: AbstractLayer, dtype: Any = jnp.float32) -> Tap:
    """The tap of `layer` for one record."""
    lead = layer.stack + (() if layer.uses is None else (layer.uses,))
    a, d = layer.tap_shapes()
    return Tap(jnp.zeros(lead + a, dtype), jnp.zeros(lead + d, dtype))


def with_tap(layer: Layer, tap: Tap | None) -> Layer:
    """`layer` with this tap."""
    return eqx.tree_at(lambda node: node.tap, layer, tap, is_leaf=lambda node: node is None)
