"""Bounds by layer and by unit, whose squares add up to the whole."""

# JAX and jaxtyping leave types open (trees, loops, new arrays); see [tool.pyright] in pyproject.toml
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportUnknownLambdaType=false

import jax.numpy as jnp
from jaxtyping import Array, Key, PyTree

from veilflow.engine.clipping.clipping import AbstractBounded, bounds_by_size, shrink
from veilflow.engine.observed import Observed


class PerLayer(AbstractBounded):
    """A bound for each layer, C_l^2 in proportion to its parameters, so that sum C_l^2 = C^2.

    Stacked blocks count as layers of their own. Shares follow parameter counts, which are public;
    observed gradient scales are not.
    """

    def clip(self, observed: Observed, state: PyTree, key: Key[Array, ""]) -> PyTree:
        bounds = bounds_by_size(observed, self.clip_norm)
        norms = observed.norms
        return observed.weighted_sum(
            tuple(shrink(jnp.sqrt(n), bound) for n, bound in zip(norms, bounds, strict=True))
        )


class PerUnit(AbstractBounded):
    """DP-HFlow's per-unit clipping: within a layer, unit i is clipped to C_l sqrt(|G_i|_1 / |G|_1).

    A unit is a row of a weight matrix with its bias. The bounds depend on the record's own gradient
    only, and their squares add up to C_l^2.
    """

    def clip(self, observed: Observed, state: PyTree, key: Key[Array, ""]) -> PyTree:
        factors: list[Array] = []
        for (l1, l2), bound in zip(
            observed.unit_norms(), bounds_by_size(observed, self.clip_norm), strict=True
        ):
            whole = jnp.sum(l1, axis=-1, keepdims=True)
            share = jnp.where(whole > 0, l1 / jnp.where(whole > 0, whole, 1), 0)
            factors.append(shrink(jnp.sqrt(l2), bound * jnp.sqrt(share)))
        return observed.weighted_sum(tuple(factors))
