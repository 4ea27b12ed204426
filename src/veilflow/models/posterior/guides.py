"""Guides: the families in which a posterior is sought, and the guide that the engine trains.

A guide maps standard normals to parameters, a direction in which per-layer gradients of single records
are not available. Its trained numbers therefore lie in one vector, which the engine clips by each
record's own gradient. That gradient is J^T times the record's gradients at the draws, where J is the
Jacobian of all draws with respect to the numbers. No record enters J: it is computed once per step, and
what is left per record is a matrix product.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Key, UInt32

from veilflow._core import check, fields
from veilflow._core.keys import Secret, wrap
from veilflow.flows import (
    LU,
    AbstractBijection,
    ActNorm,
    Chain,
    FixedLinear,
    Flow,
    StandardNormal,
    architectures,
)
from veilflow.nn.frozen import trainable_part
from veilflow.nn.masked import MaskedDense

KINDS = ("maf", "iaf", "nsf", "realnvp", "full-rank", "mean-field")
OBJECTIVES = ("free-energy", "renyi", "forward-kl", "wasserstein", "sliced-wasserstein")
TARGETS = ("quadratic", "values")
_GAUSSIAN = ("full-rank", "mean-field")
_MAX_BLOCKS, _MAX_LAYERS = 100, 10
_MIX = 0x9E3779B1
"""Odd, so that multiplication loses no bit."""


@dataclass(frozen=True, kw_only=True)
class Guide:
    """A family of distributions over parameters, and how it is fitted to what was released.

    Args:
        kind: "maf", "iaf" (samples in one pass), "nsf" (splines) or "realnvp"; or a normal
            distribution, "full-rank" or "mean-field".
        blocks: Number of blocks of a flow.
        hidden: Sizes of the hidden layers in each block's network.
        num_bins: Number of bins of a spline.
        target: What is released for the guide to be fitted to. "quadratic": gradients and curvatures,
            which make a normal posterior, up to the prior. "values": values of the log-likelihood at
            some hundred points as well, for posteriors that are bent or have several modes. Give a
            flow that can follow: `Guide(kind="nsf", blocks=3, hidden=(32,), target="values")`.
        objective: The divergence that is minimized: "free-energy", "renyi", "forward-kl",
            "wasserstein" or "sliced-wasserstein". With values the likelihood of draws is maximized,
            which is "forward-kl", whatever the objective is.
        noise_aware: Whether the width of the posterior includes the uncertainty that the privacy
            noise adds to its location. Without it the posterior is narrower than is honest.
        num_draws: Draws of the guide in each noisy step. All records share them, and each record's
            gradient is averaged over them before it is clipped.
    """

    kind: str = "maf"
    blocks: int = 1
    hidden: tuple[int, ...] = (10,)
    num_bins: int = 8
    objective: str = "free-energy"
    noise_aware: bool = True
    num_draws: int = 64
    target: str = "quadratic"

    def __post_init__(self) -> None:
        if not isinstance(self.hidden, list | tuple) or len(self.hidden) > _MAX_LAYERS:
            raise TypeError(f"hidden must be a tuple of sizes such as (10,), got {self.hidden!r}.")
        check.count(blocks=self.blocks)
        if self.blocks > _MAX_BLOCKS:
            raise ValueError(f"blocks must be at most {_MAX_BLOCKS}, got {self.blocks}.")
        fields.convert(
            self,
            kind=fields.word(*KINDS),
            blocks=fields.count(),
            hidden=fields.each(fields.count()),
            num_bins=fields.count(at_least=2),
            objective=fields.word(*OBJECTIVES),
            target=fields.word(*TARGETS),
            noise_aware=fields.flag,
            num_draws=fields.count(),
        )

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
    """A guide without its numbers: turns a vector of numbers into a map.

    Weights that a mask holds at zero are not among the numbers: their gradients are zero, and the cost
    of a record grows with the length of the vector.
    """

    def __init__(self, guide: Guide, dim: int):
        self.guide, self.dim = guide, dim
        built = guide.build(dim, key=jax.random.key(0))
        trained, self._fixed = trainable_part(built)
        everything, self._unravel = ravel_pytree(trained)
        self._full_size = everything.size
        self._free = np.flatnonzero(ravel_pytree(trainable_part(_with_masks(built))[0])[0])
        self.size = self._free.size

    def start(self, key: Key[Array, ""]) -> Float[Array, " numbers"]:
        """The numbers of the identity, or of a map close to it."""
        everything = ravel_pytree(trainable_part(self.guide.build(self.dim, key=key))[0])[0]
        numbers = everything[self._free]
        # small weights in the last layer bend a normal by a few percent: training grows them if needed
        return numbers if self.guide.kind not in _GAUSSIAN else jnp.zeros_like(numbers)

    def bijection(self, numbers: Float[Array, " numbers"]) -> AbstractBijection:
        """The map with these numbers."""
        everything = jnp.zeros(self._full_size, numbers.dtype).at[self._free].set(numbers)
        return eqx.combine(self._unravel(everything), self._fixed)


def _with_masks(bijection: AbstractBijection) -> AbstractBijection:
    """`bijection` with ones for numbers, and zeros for weights that a mask holds at zero."""

    def ones(node: Any) -> Any:
        filled = jax.tree.map(lambda x: jnp.ones_like(x) if eqx.is_inexact_array(x) else x, node)
        if not isinstance(node, MaskedDense):
            return filled
        mask = jnp.broadcast_to(node.mask, node.weight.shape)
        return eqx.tree_at(lambda layer: layer.weight, filled, mask)

    return jax.tree.map(ones, bijection, is_leaf=lambda node: isinstance(node, MaskedDense))


@lru_cache(maxsize=64)
def skeleton(guide: Guide, dim: int) -> Skeleton:
    """The skeleton of a guide: one object for all fits, so that compiled programs are reused."""
    return Skeleton(guide, dim)


class FlatGuide(eqx.Module):
    """The distribution of `place(bijection(z))` for standard normal z."""

    numbers: Float[Array, " numbers"]
    place: FixedLinear
    """Where the posterior lies, declared or released. Not trained."""
    words: UInt32[Array, "2"]
    """Seed of the draws."""
    skeleton: Skeleton = eqx.field(static=True)

    @classmethod
    def at(
        cls, guide: Guide, mean: np.ndarray, covariance: np.ndarray, *, secret: Secret
    ) -> "FlatGuide":
        """A guide that starts as the normal of this mean and covariance; mean-field: uncorrelated."""
        if guide.kind == "mean-field":
            covariance = np.diag(1 / np.diag(np.linalg.inv(covariance)))  # closest by KL
        bones = skeleton(guide, len(mean))
        return cls(
            numbers=bones.start(secret.key("weights")),
            place=FixedLinear.from_moments(mean, covariance),
            words=jnp.asarray(secret.words("draws", 0, 1)[0]),
            skeleton=bones,
        )

    def flow(self) -> Flow:
        """The guide as a density over parameters."""
        return self._flow(self.numbers)

    def _flow(self, numbers: Array) -> Flow:
        maps = (self.skeleton.bijection(numbers), self.place)
        return Flow(StandardNormal(self.skeleton.dim), Chain(maps))

    def base_draws(self, count: int) -> Float[Array, "count dim"]:
        """Standard normals and their mirror images, different at every step.

        Their key is derived from the numbers, which are released and change with every step. So all
        records of a step, and the terms without records, see the same draws.
        """
        bits = jax.lax.bitcast_convert_type(jax.lax.stop_gradient(self.numbers), jnp.uint32)
        places = jnp.arange(bits.size, dtype=jnp.uint32) * 2 + 1
        mixed = jnp.sum(bits * places * jnp.uint32(_MIX), dtype=jnp.uint32)
        key = wrap(self.words ^ jnp.stack([mixed, mixed >> 16]))
        half = jax.random.normal(key, (-(-count // 2), self.skeleton.dim))
        return jnp.concatenate([half, -half])[:count]

    def draws_and_log_prob(self, base: Any) -> tuple[Float[Array, "count dim"], Array]:
        """Parameters, and the natural log of the guide's density there."""

        def one(z: Array) -> tuple[Array, Array]:
            flow = self.flow()
            theta, log_det = flow.bijection.forward_and_log_det(z)
            return theta, flow.base.log_prob(z) - log_det

        return jax.vmap(one)(base)

    def draws_and_jacobian(
        self, base: Any
    ) -> tuple[Float[Array, "count dim"], Float[Array, "count dim numbers"]]:
        """Parameters, and their Jacobian with respect to the numbers: the same for all records."""

        def one(numbers: Array, z: Array) -> Array:
            return self._flow(numbers).bijection.forward_and_log_det(z)[0]

        here = jax.lax.stop_gradient(self.numbers)
        thetas = jax.vmap(one, (None, 0))(here, base)
        return thetas, jax.vmap(jax.jacrev(one), (None, 0))(here, base)
