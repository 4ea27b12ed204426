"""Arrays of a model that are not trained, such as values that were released before."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from veilflow.nn.tap import is_layer


class AbstractFrozen(eqx.Module):
    """A module whose arrays are never trained. It must not hold layers, which would get taps."""


def trainable_part(model: Any) -> tuple[Any, Any]:
    """`model` split into its trained arrays and everything else (frozen arrays, integers, functions).

    Both parts have the structure of `model`, with None in place of the other; `eqx.combine` joins them.
    """
    return eqx.partition(model, trainable_spec(model))


def trainable_spec(model: Any) -> Any:
    """For each leaf of `model`, whether it is trained."""
    return jax.tree.map(_of_node, model, is_leaf=_is_frozen)


def _of_node(node: Any) -> Any:
    if not _is_frozen(node):
        # a shape stands for an array: sizes are counted before anything is built
        shape = isinstance(node, jax.ShapeDtypeStruct)
        return jnp.issubdtype(node.dtype, jnp.inexact) if shape else eqx.is_inexact_array(node)
    if any(is_layer(inner) for inner in jax.tree.leaves(node, is_leaf=is_layer)):
        raise ValueError(f"{type(node).__name__} is frozen and must not hold layers.")
    return jax.tree.map(lambda _: False, node)


def _is_frozen(node: Any) -> bool:
    return isinstance(node, AbstractFrozen)
