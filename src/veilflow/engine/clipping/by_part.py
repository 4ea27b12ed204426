"""Clipping of the parts of a gradient: layers, units of a layer, or networks trained together.

Every part has a bound of its own. All parts are released together, so one record moves the whole by at
most the root of the sum of the squared bounds. To clip each part to C and to claim C for the whole is a
published mistake.
"""

# JAX and jaxtyping leave types open (trees, loops, new arrays); see [tool.pyright] in pyproject.toml
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportUnknownLambdaType=false

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Key, PyTree

from veilflow.engine.clipping.clipping import (
    AbstractBounded,
    AbstractClipping,
    bounds_by_size,
    check_bound,
    shrink,
)
from veilflow.engine.observed import Observed
from veilflow.nn.frozen import trainable_part
from veilflow.nn.tap import is_layer


class PerLayer(AbstractBounded):
    """A bound C_l for each layer, with C_l^2 in proportion to its parameters and sum C_l^2 = C^2.

    Stacked blocks are separate layers. The proportions follow the numbers of parameters, which are
    public; the sizes of observed gradients are not.
    """

    def clip(self, observed: Observed, state: PyTree, key: Key[Array, ""]) -> PyTree:
        bounds = bounds_by_size(observed, self.clip_norm)
        norms = observed.norms
        return observed.weighted_sum(
            tuple(shrink(jnp.sqrt(n), bound) for n, bound in zip(norms, bounds, strict=True))
        )


class PerUnit(AbstractBounded):
    """DP-HFlow's per-unit clipping: within a layer, unit i is clipped to C_l sqrt(|G_i|_1 / |G|_1).

    A unit is a row of a weight matrix with its bias. The bounds depend only on the record's own
    gradient, and their squares add up to C_l^2.
    """

    def clip(self, observed: Observed, state: PyTree, key: Key[Array, ""]) -> PyTree:
        factors: list[Array] = []
        for (l1, l2), bound in zip(
            observed.unit_norms(), bounds_by_size(observed, self.clip_norm), strict=True
        ):
            total = jnp.sum(l1, axis=-1, keepdims=True)
            share = jnp.where(total > 0, l1 / jnp.where(total > 0, total, 1), 0)
            factors.append(shrink(jnp.sqrt(l2), bound * jnp.sqrt(share)))
        return observed.weighted_sum(tuple(factors))


class Sparsified(AbstractBounded):
    """DP-HFlow's stochastic sparsification: small entries become 0 or a threshold, then per-layer.

    Let tau be the k-th largest |entry| of a layer's gradient, with k = (1 - sparsity) x entries, and
    gamma uniform for each entry. Entries above tau stay, those in [gamma tau, tau] become +-tau, and
    the others become 0. The result is clipped to C_l, so the bound does not depend on the
    sparsification.
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
            for _ in stack:  # blocks of a stack are separate layers
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


class PerGroup(AbstractClipping):
    """A bound C_g for each group of parameters; one record moves the whole by sqrt(sum C_g^2).

    Two networks whose gradients differ by orders of magnitude starve one another under a common bound.
    """

    clip_norms: tuple[float, ...] = eqx.field(static=True)
    layers: tuple[int, ...] = eqx.field(static=True)
    """The group of each layer of the model, in tree order."""
    loose: tuple[int, ...] = eqx.field(static=True)
    """The group of each parameter outside layers."""

    def __check_init__(self) -> None:
        for bound in self.clip_norms:
            check_bound(clip_norm=bound)
        if set(self.layers + self.loose) != set(range(len(self.clip_norms))):
            raise ValueError("every group needs parameters, and every parameter needs a group.")

    @classmethod
    def of(
        cls, model: Any, groups: Callable[[Any], Sequence[PyTree]], clip_norms: Sequence[float]
    ) -> "PerGroup":
        """A clipping with one bound for each part of a model.

        Args:
            model: The model to be trained.
            groups: Maps the model to its parts, which together hold every trained array once.
            clip_norms: The bound of each part.

        Raises:
            ValueError: A trained array is in no part or in several, or the numbers of bounds and of
                parts differ.
        """
        parts = groups(model)
        if len(parts) != len(clip_norms):
            raise ValueError(f"{len(parts)} groups need as many bounds, got {len(clip_norms)}.")
        members = [{id(leaf) for leaf in jax.tree.leaves(part)} for part in parts]

        def group_of(node: Any) -> int:
            leaves = {id(leaf) for leaf in jax.tree.leaves(node)}
            touching = [i for i, inside in enumerate(members) if leaves & inside]
            if len(touching) != 1 or not leaves <= members[touching[0]]:
                raise ValueError("every layer and parameter must belong to exactly one group.")
            return touching[0]

        layers: list[int] = []
        loose: list[int] = []
        trainable, _ = trainable_part(model)
        for node in jax.tree.leaves(trainable, is_leaf=is_layer):
            (layers if is_layer(node) else loose).append(group_of(node))
        return cls(tuple(float(bound) for bound in clip_norms), tuple(layers), tuple(loose))

    @property
    def sensitivity(self) -> float:
        return sum(bound**2 for bound in self.clip_norms) ** 0.5

    def clip(self, observed: Observed, state: PyTree, key: Key[Array, ""]) -> PyTree:
        groups = self.layers + self.loose
        if (len(self.layers), len(self.loose)) != (len(observed.layers), len(observed.loose)):
            raise ValueError("these groups belong to another model.")
        squares = [jnp.sum(n, axis=tuple(range(n.ndim - 1))) for n in observed.norms]
        factors = [
            shrink(jnp.sqrt(sum(s for s, g in zip(squares, groups, strict=True) if g == i)), bound)
            for i, bound in enumerate(self.clip_norms)
        ]
        return observed.weighted_sum(
            tuple(
                jnp.broadcast_to(factors[group], norm.shape)
                for norm, group in zip(observed.norms, groups, strict=True)
            )
        )
