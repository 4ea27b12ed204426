"""Per-record gradients in factored form: the result of one backward pass to the taps.

`observe_gradients` differentiates the loss of each record with respect to the taps of the model's
layers and to its loose parameters (arrays outside of layers), for a whole chunk of records at once.
Layers never build an array of size records x parameters. Loose parameters are the general fallback,
correct for every pytree; the engine keeps chunks small if there are many.
"""

# JAX and jaxtyping leave types open (trees, loops, new arrays); see [tool.pyright] in pyproject.toml
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportUnknownLambdaType=false

from collections.abc import Callable, Iterable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key, PyTree

from veilflow.engine.barrier import after_barrier
from veilflow.nn.frozen import trainable_part, trainable_spec
from veilflow.nn.tap import AbstractLayer, Tap, is_layer, with_tap, zero_tap
from veilflow.nn.uses import check_taps_used_once

LossFn = Callable[[Any, Any, Key[Array, ""]], Float[Array, ""]]
"""loss(model, record, key) of ONE record; the engine takes care of batches."""


class Captured(eqx.Module):
    """The result of a backward pass to the taps. No norm is known yet, so nothing can be summed."""

    layers: tuple[AbstractLayer, ...]
    taps: tuple[Tap, ...]
    """Axes of each array: the layer's stack, then records, then uses (if any), then features."""
    loose: tuple[Float[Array, "records ..."], ...]
    """Gradients of parameters outside layers."""
    keep: Bool[Array, " records"]
    """False for padding and, once measured, for records whose gradient is not finite."""
    where: tuple[str, ...] = eqx.field(static=True)
    """For each node of the model: "layer", "loose" or "fixed"."""
    treedef: Any = eqx.field(static=True)

    @property
    def stacks(self) -> tuple[int, ...]:
        """The number of stack axes before the records, for each layer and loose parameter."""
        return tuple(len(layer.stack) for layer in self.layers) + (0,) * len(self.loose)


class Observed(Captured):
    """The gradients of a chunk of records, layer by layer, without materializing any of them.

    The gradients of records that are not kept are zero.
    """

    norms: tuple[Float[Array, "*stack records"], ...]
    """Squared gradient norm of each record in each layer and loose parameter, never underestimated."""

    def squared_norm(self) -> Float[Array, " records"]:
        """The squared norm of the whole gradient of each record."""
        return _whole(self.norms)

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
        grads = tuple(
            eqx.filter(_over_stack(layer, type(layer).per_record, tap), eqx.is_inexact_array)
            for layer, tap in zip(self.layers, self.taps, strict=True)
        )
        return grads + self.loose

    def weighted_sum(self, factors: tuple[Array, ...]) -> PyTree:
        """Sum over records of factor times gradient, shaped like the model's trainable part.

        `factors` has one array for each layer and loose parameter: (*stack, records) or, by unit,
        (*stack, records, units).
        """
        of_layers, of_loose = factors[: len(self.layers)], factors[len(self.layers) :]
        sums = [
            _over_stack(layer, type(layer).weighted_sum, tap, c)
            for layer, tap, c in zip(self.layers, self.taps, of_layers, strict=True)
        ]
        for g, c in zip(self.loose, of_loose, strict=True):
            sums.append(jnp.sum(g * c.reshape(c.shape[0], *(1,) * (g.ndim - 1)), axis=0))
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
            for where in self.where
        ]
        return jax.tree.unflatten(self.treedef, nodes)

    def everywhere(self, factor: Float[Array, " records"]) -> tuple[Array, ...]:
        """One factor per record, the same for all layers, as `weighted_sum` takes it."""
        factors = [jnp.broadcast_to(factor, layer.stack + factor.shape) for layer in self.layers]
        return tuple(factors) + (factor,) * len(self.loose)


def observe_gradients(
    loss_fn: LossFn, model: Any, records: PyTree, keep: Bool[Array, " records"], key: Key[Array, ""]
) -> Captured:
    """The gradient of `loss_fn` for each record, in factored form and not yet measured.

    Args:
        loss_fn: Loss of one record; `vmap` ensures that it cannot mix records.
        model: Any pytree; its inexact arrays outside frozen modules are trained.
        records: Arrays with the record as first axis.
        keep: False for padding.
        key: For losses that draw random numbers; each record gets its own.
    """
    nodes, treedef = jax.tree.flatten(model, is_leaf=is_layer)
    where = tuple(
        "layer" if is_layer(node) else "loose" if trained else "fixed"
        for node, trained in _marked(model)
    )
    layers = tuple(node for node, w in zip(nodes, where, strict=True) if w == "layer")
    loose = tuple(node for node, w in zip(nodes, where, strict=True) if w == "loose")
    # the record axis follows the stack axes, where `scan` leaves it, so nothing is transposed
    axes = (tuple(len(layer.stack) for layer in layers), 0)

    zeros = tuple(zero_tap(layer) for layer in layers)

    def of_record(record: PyTree, key: Key[Array, ""]) -> tuple[tuple[Tap, ...], tuple[Array, ...]]:
        def loss(observed: tuple[tuple[Tap, ...], tuple[Array, ...]]) -> Float[Array, ""]:
            taps, free = iter(observed[0]), iter(observed[1])
            filled = [
                with_tap(node, next(taps)) if w == "layer" else next(free) if w == "loose" else node
                for node, w in zip(nodes, where, strict=True)
            ]
            return loss_fn(jax.tree.unflatten(treedef, filled), record, key)

        check_taps_used_once(lambda taps: loss((taps, loose)), zeros)
        return jax.grad(loss)((zeros, loose))

    keys = jax.random.split(key, keep.shape[0])
    taps, loose_grads = jax.vmap(of_record, out_axes=axes)(records, keys)
    return Captured(layers, taps, loose_grads, keep, where, treedef)


def measured(captured: Captured) -> Observed:
    """Gradients with their norms; padding and records whose norm is not finite become zero."""
    norms = [
        _over_stack(layer, type(layer).squared_norm, tap)
        for layer, tap in zip(captured.layers, captured.taps, strict=True)
    ]
    norms += [jnp.sum(jnp.square(g), axis=tuple(range(1, g.ndim))) for g in captured.loose]
    keep = captured.keep & jnp.isfinite(_whole(norms))

    # by selection, because 0 * inf is NaN
    def kept(x: Array, stack: int) -> Array:
        mask = keep.reshape((1,) * stack + keep.shape + (1,) * (x.ndim - stack - 1))
        return jnp.where(mask, x, jnp.zeros_like(x))

    stacks = captured.stacks
    return Observed(
        layers=captured.layers,
        taps=tuple(
            Tap(kept(tap.a, stack), kept(tap.d, stack))
            for tap, stack in zip(captured.taps, stacks, strict=False)
        ),
        loose=tuple(kept(g, 0) for g in captured.loose),
        keep=keep,
        where=captured.where,
        treedef=captured.treedef,
        norms=tuple(kept(n, stack) for n, stack in zip(norms, stacks, strict=True)),
    )


def clipped_total(
    clip: Callable[[Observed, Key[Array, ""]], PyTree], captured: Captured, key: Key[Array, ""]
) -> PyTree:
    """`clip` of the measured gradients, from taps that are computed once.

    Norms and sums must be computed from the very same numbers: see `engine/barrier.py`.
    """
    parts = lambda c: (c.taps, c.loose)  # noqa: E731  # layers hold parameters, which are inputs

    def of(values: Any, index: Any) -> PyTree:
        once = eqx.tree_at(parts, captured, values)
        return clip(measured(once), jax.random.fold_in(key, index))

    return after_barrier(of, parts(captured), needed=jnp.any(captured.keep))


def num_parameters(model: Any) -> int:
    """The number of trained parameters."""
    return sum(leaf.size for leaf in jax.tree.leaves(trainable_part(model)[0]))


def loose_size(model: Any) -> int:
    """The number of parameters outside of layers, which take memory for every record of a chunk."""
    return sum(node.size for node, trained in _marked(model) if trained and not is_layer(node))


def _marked(model: Any) -> list[tuple[Any, bool]]:
    """The layers and leaves of `model`, and whether each is trained."""
    nodes = jax.tree.leaves(model, is_leaf=is_layer)
    mark = lambda node, trained: is_layer(node) or trained  # noqa: E731
    marks = jax.tree.map(mark, model, trainable_spec(model), is_leaf=is_layer)
    return list(zip(nodes, jax.tree.leaves(marks), strict=True))


def _whole(norms: Iterable[Float[Array, "*stack records"]]) -> Float[Array, " records"]:
    return sum(jnp.sum(n, axis=tuple(range(n.ndim - 1))) for n in norms)  # type: ignore[return-value]


def _over_stack(layer: AbstractLayer, method: Callable[..., Any], *args: Any) -> Any:
    """`method(layer, *args)`, mapped over the layer's leading block axes."""
    for _ in layer.stack:
        method = eqx.filter_vmap(method)
    return method(layer, *args)
