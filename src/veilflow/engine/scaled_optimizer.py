"""An optimizer whose learning rate differs from part to part of the model."""

# JAX and jaxtyping leave types open (trees, loops, new arrays); see [tool.pyright] in pyproject.toml
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportUnknownLambdaType=false, reportMissingTypeStubs=false

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import optax
from jaxtyping import PyTree

from veilflow._core import check
from veilflow.engine.optimizer import Optimizer
from veilflow.nn.frozen import trainable_part


@dataclass(frozen=True, kw_only=True)
class ScaledOptimizer(Optimizer):
    """`Optimizer`, with the learning rate of each trained array times a factor of its own."""

    factors: tuple[float, ...]
    """One for each array that is trained, in the order of the model's tree."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for factor in self.factors:
            check.positive(factor=factor)

    @classmethod
    def of(
        cls,
        model: Any,
        groups: Callable[[Any], Sequence[PyTree]],
        learning_rates: Sequence[float],
        **settings: Any,
    ) -> "ScaledOptimizer":
        """A learning rate for each of several parts of a model.

        Args:
            model: What will be trained.
            groups: From the model to its parts, which together hold all that is trained, once.
            learning_rates: Of each part.
            **settings: Of `Optimizer`, but for the learning rate.

        Raises:
            ValueError: A trained array is in no part or in several, or rates and parts differ in
                number.
        """
        parts = groups(model)
        if len(parts) != len(learning_rates):
            raise ValueError(f"{len(parts)} groups need as many rates, got {len(learning_rates)}.")
        for rate in learning_rates:
            check.positive(learning_rate=rate)
        members = [{id(leaf) for leaf in jax.tree.leaves(part)} for part in parts]
        largest = max(learning_rates)
        factors: list[float] = []
        for leaf in jax.tree.leaves(trainable_part(model)[0]):
            found = [i for i, inside in enumerate(members) if id(leaf) in inside]
            if len(found) != 1:
                raise ValueError("every trained array must belong to exactly one group.")
            factors.append(float(learning_rates[found[0]] / largest))
        return cls(learning_rate=float(largest), factors=tuple(factors), **settings)

    def build(self, steps: int) -> optax.GradientTransformation:
        """The optax transformation for a run of `steps` steps."""

        def scale(updates: PyTree, params: PyTree | None = None) -> PyTree:
            leaves, treedef = jax.tree.flatten(updates)
            scaled = [x * factor for x, factor in zip(leaves, self.factors, strict=True)]
            return jax.tree.unflatten(treedef, scaled)

        return optax.chain(super().build(steps), optax.stateless(scale))
