"""Taps: how a layer's input and the cotangent of its output reach the engine.

For a layer linear in its parameters, the gradient of one record follows from two vectors: what went
in (`a`) and the derivative of the loss with respect to what came out (`d`). A `Tap` is a pair of
zeros that a layer lays beside its output. Its cotangent is *defined* to be the pair (a, d), so one
ordinary backward pass with respect to the taps collects all pairs. Because a tap is a plain argument
it goes through `vmap`, `scan`, `cond` and `remat` like any other, nothing is hooked or registered,
and the parameters themselves are never differentiated.
"""

from abc import abstractmethod
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

Layer = TypeVar("Layer", bound="AbstractLayer")


class Tap(eqx.Module):
    """Zeros going forward; (input, cotangent of the output) coming back."""

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
    """`y` unchanged; with a tap, its cotangent reports `a` and the cotangent of `y`."""
    return y if tap is None else _observe(y, a, tap)


class AbstractLayer(eqx.Module):
    """A layer that knows the gradient of each record from its tap.

    To write one: keep parameters as array fields, return `observe(y, a, self.tap)` from `__call__`,
    and answer the five questions below for one layer. The arrays in the `tap` argument then have the
    record as first axis and, when `uses` is set, the use as second. Stacked layers (a leading block
    axis on every parameter) are handled by the engine, which maps over that axis.
    """

    tap: eqx.AbstractVar[Tap | None]
    uses: eqx.AbstractVar[int | None]
    """How often one record passes through this layer; None for once. Set by `Reused`."""

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

        `factors` is one number a record, or one a record and unit.
        """

    @abstractmethod
    def unit_norms(self, tap: Tap) -> tuple[Float[Array, "records units"], ...]:
        """L1 norm and squared L2 norm of each record's gradient, unit by unit."""

    @abstractmethod
    def per_record(self: Layer, tap: Tap) -> Layer:
        """Each record's gradient itself. Large: for clippings that need every entry."""


def is_layer(node: Any) -> bool:
    """Whether `node` is a layer that answers for its own gradient."""
    return isinstance(node, AbstractLayer)


def zero_tap(layer: AbstractLayer, dtype: Any = jnp.float32) -> Tap:
    """The tap to lay into `layer` for one record."""
    lead = layer.stack + (() if layer.uses is None else (layer.uses,))
    a, d = layer.tap_shapes()
    return Tap(jnp.zeros(lead + a, dtype), jnp.zeros(lead + d, dtype))


def with_tap(layer: Layer, tap: Tap | None) -> Layer:
    """`layer` with `tap` laid in."""
    return eqx.tree_at(lambda node: node.tap, layer, tap, is_leaf=lambda node: node is None)
