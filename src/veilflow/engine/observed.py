"""Per-record gradients in factored form: what one backward pass to the taps yields.

`observe_gradients` differentiates a loss of one record with respect to the taps of the model's
layers and to its loose parameters (arrays that live in no layer), for a whole chunk of records at
once. No array of size records x parameters is built for layers; loose parameters are the general
fallback, correct for every pytree, and the engine keeps chunks small when there are many.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key, PyTree

from veilflow.nn.tap import AbstractLayer, Tap, is_layer, with_tap, zero_tap

LossFn = Callable[[Any, Any, Key[Array, ""]], Float[Array, ""]]
"""loss(model, record, key) of ONE record; batches are the engine's business."""

# A record whose tap is longer than this contributes nothing. Within it no square can underflow
# unnoticed beside a large partner: an error of the norm stays below 1e-9 times the layer's width.
_LONGEST_SQUARED = 1e20


class Observed(eqx.Module):
    """The gradients of a chunk of records, layer by layer, none of them materialized."""

    layers: tuple[AbstractLayer, ...]
    taps: tuple[Tap, ...]
    """Axes of each array: the layer's stack, then records, then uses (if any), then features."""
    loose: tuple[Float[Array, "records ..."], ...]
    keep: Bool[Array, " records"]
    """Real records with a finite gradient; all others are zero throughout."""
    _where: tuple[str, ...] = eqx.field(static=True)
    _treedef: Any = eqx.field(static=True)

    def squared_norms(self) -> tuple[Float[Array, "*stack records"], ...]:
        """Squared gradient norm of each record in each layer and loose parameter."""
        norms = [
            _over_stack(layer, type(layer).squared_norm, tap)
            for layer, tap in zip(self.layers, self.taps, strict=True)
        ]
        norms += [jnp.sum(jnp.square(g), axis=tuple(range(1, g.ndim))) for g in self.loose]
        return tuple(norms)

    def squared_norm(self) -> Float[Array, " records"]:
        """Squared norm of each record's whole gradient."""
        norms = self.squared_norms()
        return sum(jnp.sum(n, axis=tuple(range(n.ndim - 1))) for n in norms)  # type: ignore[return-value]

    def unit_norms(self) -> tuple[tuple[Array, Array], ...]:
        """L1 and squared L2 norms by unit; a loose parameter counts as one unit."""
        norms = [
            _over_stack(layer, type(layer).unit_norms, tap)
            for layer, tap in zip(self.layers, self.taps, strict=True)
        ]
        for g in self.loose:
            flat = g.reshape(g.shape[0], -1)
            norms.append((jnp.abs(flat).sum(1, keepdims=True), (flat**2).sum(1, keepdims=True)))
        return tuple(norms)

    def per_record(self) -> tuple[PyTree[Array], ...]:
        """Every record's gradient, materialized; axes: stack, records, parameter."""
        grads = [
            eqx.filter(_over_stack(layer, type(layer).per_record, tap), eqx.is_inexact_array)
            for layer, tap in zip(self.layers, self.taps, strict=True)
        ]
        return tuple(grads) + self.loose

    def weighted_sum(self, factors: tuple[Array, ...]) -> PyTree:
        """Sum over records of factor times gradient, shaped like the model's trainable part.

        `factors` has one array for each layer and loose parameter: (*stack, records) or, by unit,
        (*stack, records, units).
        """
        sums = [
            _over_stack(layer, type(layer).weighted_sum, tap, c)
            for layer, tap, c in zip(self.layers, self.taps, factors, strict=False)
        ]
        for g, c in zip(self.loose, factors[len(self.layers) :], strict=True):
            c = c.reshape(c.shape[0], *(1,) * (g.ndim - 1))
            sums.append(jnp.sum(g * c, axis=0))
        return self.assemble(tuple(sums))

    def assemble(self, parts: tuple[PyTree, ...]) -> PyTree:
        """One tree shaped like the model's trainable part from one part per layer and parameter."""
        layers, loose = iter(parts[: len(self.layers)]), iter(parts[len(self.layers) :])
        nodes = [
            eqx.filter(next(layers), eqx.is_inexact_array)
            if where == "layer"
            else next(loose)
            if where == "loose"
            else None
            for where in self._where
        ]
        return jax.tree.unflatten(self._treedef, nodes)

    def everywhere(self, factor: Float[Array, " records"]) -> tuple[Array, ...]:
        """One factor a record, the same for all layers, as `weighted_sum` takes it."""
        factors = [jnp.broadcast_to(factor, layer.stack + factor.shape) for layer in self.layers]
        return tuple(factors) + (factor,) * len(self.loose)


def observe_gradients(
    loss_fn: LossFn, model: Any, records: PyTree, keep: Bool[Array, " records"], key: Key[Array, ""]
) -> Observed:
    """The gradient of `loss_fn` at each record, in factored form.

    Args:
        loss_fn: Loss of one record; must not mix records, which `vmap` sees to.
        model: Any pytree; trainable are its inexact arrays.
        records: Arrays with the record as first axis.
        keep: False for padding.
        key: For losses that draw random numbers; each record gets its own.
    """
    nodes, treedef = jax.tree.flatten(model, is_leaf=is_layer)
    where = tuple(
        "layer" if is_layer(node) else "loose" if eqx.is_inexact_array(node) else "fixed"
        for node in nodes
    )
    layers = tuple(node for node, w in zip(nodes, where, strict=True) if w == "layer")
    loose = tuple(node for node, w in zip(nodes, where, strict=True) if w == "loose")
    # the record axis comes right behind the stack axes, where `scan` leaves it: no transposes
    axes = (tuple(len(layer.stack) for layer in layers), 0)

    def of_record(record: PyTree, key: Key[Array, ""]) -> tuple[tuple[Tap, ...], tuple[Array, ...]]:
        def loss(observed: tuple[tuple[Tap, ...], tuple[Array, ...]]) -> Float[Array, ""]:
            taps, free = iter(observed[0]), iter(observed[1])
            filled = [
                with_tap(node, next(taps)) if w == "layer" else next(free) if w == "loose" else node
                for node, w in zip(nodes, where, strict=True)
            ]
            return loss_fn(jax.tree.unflatten(treedef, filled), record, key)

        return jax.grad(loss)((tuple(zero_tap(layer) for layer in layers), loose))

    keys = jax.random.split(key, keep.shape[0])
    taps, loose_grads = jax.vmap(of_record, out_axes=axes)(records, keys)
    for layer, tap in zip(layers, taps, strict=True):
        keep = keep & _bounded(tap, len(layer.stack))
    for g in loose_grads:
        keep = keep & (jnp.sum(jnp.square(g), axis=tuple(range(1, g.ndim))) < _LONGEST_SQUARED)
    # zero by selection, not by multiplication: 0 * inf is NaN
    taps = tuple(
        jax.tree.map(lambda x, s=len(layer.stack): _select(keep, x, s), tap)
        for layer, tap in zip(layers, taps, strict=True)
    )
    loose_grads = tuple(_select(keep, g, 0) for g in loose_grads)
    return Observed(layers, taps, loose_grads, keep, where, treedef)


def loose_size(model: Any) -> int:
    """How many parameters live in no layer, and cost memory for every record of a chunk."""
    nodes = jax.tree.leaves(model, is_leaf=is_layer)
    return sum(node.size for node in nodes if eqx.is_inexact_array(node))


def _bounded(tap: Tap, stack: int) -> Bool[Array, " records"]:
    """True where both halves of a record's tap are finite and not absurdly long."""
    ok = True
    for x in (tap.a, tap.d):
        squared = jnp.sum(jnp.square(x), axis=tuple(i for i in range(x.ndim) if i != stack))
        ok = ok & (squared < _LONGEST_SQUARED)  # NaN compares false
    return ok  # type: ignore[return-value]


def _select(keep: Bool[Array, " records"], x: Array, stack: int) -> Array:
    mask = keep.reshape((1,) * stack + keep.shape + (1,) * (x.ndim - stack - 1))
    return jnp.where(mask, x, jnp.zeros_like(x))


def _over_stack(layer: AbstractLayer, method: Callable[..., Any], *args: Any) -> Any:
    """`method(layer, *args)`, mapped over the layer's leading block axes."""
    for _ in layer.stack:
        method = eqx.filter_vmap(method)
    return method(layer, *args)
