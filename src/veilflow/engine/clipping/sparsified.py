"""Stochastic sparsification of a record's gradient before clipping."""

# JAX and jaxtyping leave types open (trees, loops, new arrays); see [tool.pyright] in pyproject.toml
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportUnknownLambdaType=false

import itertools
from functools import partial
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Key, PyTree

from veilflow.engine.clipping.clipping import AbstractBounded, bounds_by_size, shrink
from veilflow.engine.observed import Observed


class Sparsified(AbstractBounded):
    """DP-HFlow's stochastic sparsification: small entries become 0 or the threshold, then per-layer.

    With tau the k-th largest |entry| of a layer's gradient, k = (1 - sparsity) x entries, and gamma
    uniform for each entry: entries above tau stay, those in [gamma tau, tau] become +-tau, others 0.
    The result is clipped to C_l, so the bound does not rest on what came before.
    """

    sparsity: float = eqx.field(static=True, default=0.5)
    materializes: ClassVar[bool] = True

    def __check_init__(self) -> None:
        if not 0 <= self.sparsity < 1:
            raise ValueError(f"sparsity must be at least 0 and below 1, got {self.sparsity}.")

    def clip(self, observed: Observed, state: PyTree, key: Key[Array, ""]) -> PyTree:
        bounds = bounds_by_size(observed, self.clip_norm)
        keys = jax.random.split(key, len(bounds))
        stacks = [layer.stack for layer in observed.layers] + [()] * len(observed.loose)
        parts: list[PyTree] = []
        for grad, bound, key, stack in zip(
            observed.per_record(), bounds, keys, stacks, strict=True
        ):
            clip_layer = partial(self._clip_layer, bound)
            for _ in stack:  # blocks of a stack are layers of their own
                clip_layer = jax.vmap(clip_layer)
            parts.append(clip_layer(jax.random.split(key, stack) if stack else key, grad))
        return observed.assemble(tuple(parts))

    def _clip_layer(self, bound: float, key: Key[Array, ""], grad: PyTree) -> PyTree:
        leaves, treedef = jax.tree.flatten(grad)
        records = leaves[0].shape[0]
        flat = jnp.concatenate([leaf.reshape(records, -1) for leaf in leaves], axis=1)
        size, magnitude = flat.shape[1], jnp.abs(flat)
        survivors = max(1, round(size * (1 - self.sparsity)))
        tau = jnp.sort(magnitude, axis=1)[:, size - survivors][:, None]
        gamma = jax.random.uniform(key, flat.shape)
        kept = jnp.where(
            magnitude > tau, flat, jnp.where(magnitude >= gamma * tau, jnp.sign(flat) * tau, 0.0)
        )
        factor = shrink(jnp.sqrt(jnp.sum(jnp.square(kept), axis=1)), bound)
        summed = jnp.sum(kept * factor[:, None], axis=0)
        sizes = [leaf[0].size for leaf in leaves]
        cuts = jnp.split(summed, list(itertools.accumulate(sizes))[:-1])
        return jax.tree.unflatten(
            treedef, [cut.reshape(leaf.shape[1:]) for cut, leaf in zip(cuts, leaves, strict=True)]
        )
