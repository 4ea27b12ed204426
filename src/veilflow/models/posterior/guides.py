"""Guides: the families a posterior is sought in, as plain settings a file can hold."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Key

from veilflow._core import check
from veilflow._core.fields import convert, count, each
from veilflow.flows import LU, AbstractBijection, ActNorm, architectures
from veilflow.nn.frozen import trainable_part
from veilflow.nn.masked import MaskedDense

KINDS = ("maf", "iaf", "nsf", "realnvp", "full-rank", "mean-field")
_GAUSSIAN = ("full-rank", "mean-field")
_MOST_BLOCKS, _MOST_LAYERS = 100, 10


@dataclass(frozen=True, kw_only=True)
class Guide:
    """A family of distributions over parameters.

    Args:
        kind: "maf", "iaf" (samples in one pass), "nsf" (splines), "realnvp"; or a normal,
            "full-rank" or "mean-field".
        blocks: Of a flow.
        hidden: Sizes of the hidden layers in each block's network.
        num_bins: Of a spline.
    """

    kind: str = "maf"
    blocks: int = 1
    hidden: tuple[int, ...] = (10,)
    num_bins: int = 8

    def __post_init__(self) -> None:
        check.one_of(KINDS, kind=self.kind)
        if not isinstance(self.hidden, list | tuple) or len(self.hidden) > _MOST_LAYERS:
            raise TypeError(f"hidden must be a tuple of sizes such as (10,), got {self.hidden!r}.")
        check.count(blocks=self.blocks)
        if self.blocks > _MOST_BLOCKS:
            raise ValueError(f"blocks must be at most {_MOST_BLOCKS}, got {self.blocks}.")
        convert(self, hidden=each(count()), blocks=count(), num_bins=count(at_least=2))

    def build(self, dim: int, *, key: Key[Array, ""]) -> AbstractBijection:
        """A map from standard normals, close to the identity."""
        if self.kind == "mean-field":
            return ActNorm.create(dim)
        if self.kind == "full-rank":
            return LU.create(dim, key=key)
        sizes: dict[str, Any] = {"blocks": self.blocks, "hidden": self.hidden, "key": key}
        if self.kind == "nsf":
            sizes["num_bins"] = self.num_bins
        return getattr(architectures, self.kind)(dim, **sizes).bijection


class Skeleton:
    """A guide without its numbers: from a vector to the map it makes.

    Weights that a mask holds at zero are not among the numbers: their gradients are zero, and what a
    record costs grows with the length of the vector.
    """

    def __init__(self, guide: Guide, dim: int):
        self.guide, self.dim = guide, dim
        built = guide.build(dim, key=jax.random.key(0))
        trained, self._fixed = trainable_part(built)
        everything, self._unravel = ravel_pytree(trained)
        self._whole = everything.size
        self._free = np.flatnonzero(ravel_pytree(trainable_part(_with_masks(built))[0])[0])
        self.size = self._free.size

    def start(self, key: Key[Array, ""]) -> Float[Array, " numbers"]:
        """The numbers of the identity, or of a map close to it."""
        everything = ravel_pytree(trainable_part(self.guide.build(self.dim, key=key))[0])[0]
        numbers = everything[self._free]
        # the small weights of a last layer bend a normal by percents: they grow if they are needed
        return numbers if self.guide.kind not in _GAUSSIAN else jnp.zeros_like(numbers)

    def bijection(self, numbers: Float[Array, " numbers"]) -> AbstractBijection:
        """The map of some numbers."""
        everything = jnp.zeros(self._whole, numbers.dtype).at[self._free].set(numbers)
        return eqx.combine(self._unravel(everything), self._fixed)


def _with_masks(bijection: AbstractBijection) -> AbstractBijection:
    """`bijection` with ones for numbers: zeros where a weight is held at zero by its mask."""

    def ones(node: Any) -> Any:
        filled = jax.tree.map(lambda x: jnp.ones_like(x) if eqx.is_inexact_array(x) else x, node)
        if not isinstance(node, MaskedDense):
            return filled
        mask = jnp.broadcast_to(node.mask, node.weight.shape)
        return eqx.tree_at(lambda layer: layer.weight, filled, mask)

    return jax.tree.map(ones, bijection, is_leaf=lambda node: isinstance(node, MaskedDense))


@lru_cache(maxsize=64)
def skeleton(guide: Guide, dim: int) -> Skeleton:
    """The skeleton of a guide, one object for all fits: what is compiled for one serves all."""
    return Skeleton(guide, dim)
