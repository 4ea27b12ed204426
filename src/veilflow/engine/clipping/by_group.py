"""A bound for each of several parts of a model that are trained together.

Two networks whose gradients differ in size by orders of magnitude starve one another under a common
bound. Each may have its own; what one record moves is then the root of the sum of their squares, for
both are released together. To clip each to C and call the whole C is a published mistake.
"""

# JAX and jaxtyping leave types open (trees, loops, new arrays); see [tool.pyright] in pyproject.toml
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportUnknownLambdaType=false

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Key, PyTree

from veilflow.engine.clipping.clipping import AbstractClipping, check_bound, shrink
from veilflow.engine.observed import Observed
from veilflow.nn.frozen import trainable_part
from veilflow.nn.tap import is_layer


class PerGroup(AbstractClipping):
    """A bound C_g on the gradient of each group; one record moves the whole by sqrt(sum C_g^2)."""

    clip_norms: tuple[float, ...] = eqx.field(static=True)
    layers: tuple[int, ...] = eqx.field(static=True)
    """The group of each layer of the model, in the order of its tree."""
    loose: tuple[int, ...] = eqx.field(static=True)
    """The group of each parameter outside layers."""

    def __check_init__(self) -> None:
        for bound in self.clip_norms:
            check_bound(clip_norm=bound)
        if set(self.layers + self.loose) != set(range(len(self.clip_norms))):
            raise ValueError("every group needs parameters, and every parameter a group.")

    @classmethod
    def of(
        cls, model: Any, groups: Callable[[Any], Sequence[PyTree]], clip_norms: Sequence[float]
    ) -> "PerGroup":
        """Bounds for the parts of a model.

        Args:
            model: What will be trained.
            groups: From the model to its parts, which together hold all that is trained, once.
            clip_norms: The bound of each part.

        Raises:
            ValueError: A trained number is in no part or in several, or bounds and parts differ in
                number.
        """
        parts = groups(model)
        if len(parts) != len(clip_norms):
            raise ValueError(f"{len(parts)} groups need as many bounds, got {len(clip_norms)}.")
        members = [{id(leaf) for leaf in jax.tree.leaves(part)} for part in parts]

        def group_of(node: Any) -> int:
            leaves = {id(leaf) for leaf in jax.tree.leaves(node)}
            found = [i for i, inside in enumerate(members) if leaves & inside]
            if len(found) != 1 or not leaves <= members[found[0]]:
                raise ValueError("every layer and parameter must belong to exactly one group.")
            return found[0]

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
            raise ValueError("these groups are of another model.")
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
