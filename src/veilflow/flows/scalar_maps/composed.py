"""Scalar maps one after the other, set together."""

from collections.abc import Iterable
from itertools import accumulate, pairwise

import jax.numpy as jnp
from jaxtyping import Array, Float

from veilflow.flows.scalar_map import AbstractScalarMap


class Composed(AbstractScalarMap):
    """Maps from base to data: forward runs first to last, inverse last to first.

    Their parameters lie one behind the other, so one network sets all of them.
    """

    scalar_maps: tuple[AbstractScalarMap, ...]

    def __init__(self, scalar_maps: Iterable[AbstractScalarMap]):
        """Check that there is a map.

        Args:
            scalar_maps: At least one, from base to data.

        Raises:
            ValueError: If there is none.
        """
        self.scalar_maps = tuple(scalar_maps)
        if not self.scalar_maps:
            raise ValueError("scalar_maps must hold at least one map, got none.")

    @property
    def num_params(self) -> int:
        """The sum over the maps."""
        return sum(each.num_params for each in self.scalar_maps)

    def forward_and_log_det(
        self, z: Float[Array, "*shape"], params: Float[Array, "num_params *shape"]
    ) -> tuple[Float[Array, "*shape"], Float[Array, "*shape"]]:
        """Base to data, first to last."""
        total = jnp.zeros_like(z)
        for each, own in self._with_params(params):
            z, log_det = each.forward_and_log_det(z, own)
            total = total + log_det
        return z, total

    def inverse_and_log_det(
        self, x: Float[Array, "*shape"], params: Float[Array, "num_params *shape"]
    ) -> tuple[Float[Array, "*shape"], Float[Array, "*shape"]]:
        """Data to base, last to first."""
        total = jnp.zeros_like(x)
        for each, own in reversed(self._with_params(params)):
            x, log_det = each.inverse_and_log_det(x, own)
            total = total + log_det
        return x, total

    def _with_params(self, params: Array) -> list[tuple[AbstractScalarMap, Array]]:
        """Each map with the rows of `params` that belong to it."""
        ends = accumulate((each.num_params for each in self.scalar_maps), initial=0)
        rows = [params[start:end] for start, end in pairwise(ends)]
        return list(zip(self.scalar_maps, rows, strict=True))
