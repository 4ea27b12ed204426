"""The parts and sizes of a fitted density, from which a file is rebuilt."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from veilflow._core import fields
from veilflow.flows import (
    AbstractBase,
    AbstractBijection,
    Affine,
    Blend,
    Chain,
    FixedLinear,
    Flow,
    GaussianMixture,
    Histogram,
    Permutation,
    PiecewiseLinear,
    Scan,
    ShapedMixture,
    Uniform,
    UniformBall,
)
from veilflow.models.architecture import Architecture
from veilflow.models.density_base import NORMAL, SIMPLE, is_simple, name_of, simple_base

_MOST_BITS = 24
"""A grid has at most 2^24 cells."""
_MOST_COLUMNS = 100_000
_OUTSIDE = 1 + 1e-5
"""The floor of a ball is this much larger than declared: norms on its border are rounded."""


@dataclass(frozen=True, kw_only=True)
class Assembly:
    """The parts of a density, from base to data: base, flow, linear map, marginals.

    Over a mixture by EM the flow is the shape of its components; over any other base it follows it.
    """

    dim: int
    architecture: Architecture | None = None
    """The trained flow; None where the start is the whole model."""
    linear: bool = False
    """Whether a released linear map follows."""
    pieces: int | None = None
    """The number of pieces of the released marginals, if there are any."""
    components: int | None = None
    """The number of components of a released mixture as base; None for one that `base` names."""
    base: str = NORMAL
    """The name of the base where no mixture was released."""
    bits: int | None = None
    """Bits along each axis of a released grid that is blended with the mixture, if there is one."""
    blend: float | None = None
    """The weight of the mixture in that blend."""
    border: float = 1.0
    """The border of the domain, in flow coordinates."""
    floor: float = 1e-3
    """The weight of a uniform density over the domain beside the flow."""

    def __post_init__(self) -> None:
        count = fields.optional(fields.count())
        fields.convert(
            self,
            dim=fields.count(),
            linear=fields.flag,
            pieces=count,
            components=count,
            base=fields.word(*SIMPLE),
            bits=count,
            blend=fields.optional(fields.fraction),
            border=fields.positive,
            floor=fields.fraction,
        )
        if self.dim > _MOST_COLUMNS:  # a flow without arrays could claim any number of columns
            raise ValueError(f"dim must be at most {_MOST_COLUMNS}, got {self.dim}.")
        if self.base != NORMAL and self.components:
            raise ValueError(f"a base is a mixture or {self.base}, not both.")
        if (self.bits is None) != (self.blend is None) or (self.bits and not self.components):
            raise ValueError("a grid has bits, a mixture and the weight of its blend, all or none.")
        if self.bits is not None and self.bits * self.dim > _MOST_BITS:
            raise ValueError(f"a grid has at most 2^{_MOST_BITS} cells.")

    @property
    def num_numbers(self) -> int:
        """The number of numbers in all arrays, counted before anything is built."""
        dim = self.dim
        count = 0 if self.architecture is None else self.architecture.num_parameters(dim)
        count += dim + dim**2 + 1 if self.linear else 0
        count += 0 if self.pieces is None else dim * (2 * self.pieces + 1)
        count += 0 if self.components is None else self.components * (1 + dim + 2 * dim**2)
        return count + (0 if self.bits is None else 2 * 2 ** (self.bits * dim))

    def skeleton(self) -> Any:
        """The flow with shapes in place of arrays."""

        def build() -> Flow:
            dim, key = self.dim, jax.random.key(0)
            start: list[AbstractBijection] = []
            if self.linear:
                start.append(FixedLinear(factor=np.eye(dim), shift=np.zeros(dim)))
            if self.pieces is not None:
                knots = np.broadcast_to(np.arange(self.pieces + 1.0), (dim, self.pieces + 1))
                start.append(PiecewiseLinear.create(knots, border=self.border))
            if self.architecture is None:
                return join(self._base(), start)
            return join(over(self._base(), self.architecture.build(dim, key=key)), start)

        return eqx.filter_eval_shape(build)

    def _base(self) -> AbstractBase:
        if self.components is None:
            return simple_base(self.base, self.dim)
        k, dim = self.components, self.dim
        square = jnp.zeros((k, dim, dim))
        mixture = GaussianMixture(dim, jnp.zeros(k), jnp.zeros((k, dim)), square, square)
        if self.bits is None or self.blend is None:
            return mixture
        cells = jnp.zeros(2 ** (self.bits * dim))
        grid = Histogram(dim, self.bits, self.border, cells, cells)
        return Blend((mixture, grid), (self.blend, 1 - self.blend))

    def floored(self, flow: Flow, *, ball: bool) -> Blend:
        """`flow` with the floor: otherwise one row without density would dominate a mean score.

        Args:
            flow: The flow over flow coordinates.
            ball: Whether the domain is a ball and not a box: in ten dimensions the box around a ball
                has 400 times its volume.
        """
        uniform = Uniform(self.dim, low=-self.border, high=self.border)
        if ball:
            uniform = UniformBall(self.dim, radius=_OUTSIDE * self.border)
        return Blend((flow, uniform), (1 - self.floor, self.floor))

    def with_base(self, base: AbstractBase) -> "Assembly":
        """This assembly with the sizes of a released base."""
        if isinstance(base, ShapedMixture):
            base = base.mixture
        if isinstance(base, GaussianMixture):
            return replace(self, components=len(base.means))
        if isinstance(base, Blend):
            mixture, grid = base.bases
            assert isinstance(mixture, GaussianMixture)
            assert isinstance(grid, Histogram)
            return replace(
                self, components=len(mixture.means), bits=grid.bits, blend=base.weights[0]
            )
        return replace(self, base=name_of(base)) if is_simple(base) else self


def over(base: AbstractBase, flow: Flow) -> Flow | ShapedMixture:
    """A flow that was built over a standard normal, over another base instead."""
    if is_simple(base):
        return Flow(base, flow.bijection)  # all coordinates are alike, in any order
    if isinstance(base, GaussianMixture):
        return ShapedMixture(base, flow)
    return Flow(base, in_order(flow.bijection))


def join(density: AbstractBase | Flow, start: Sequence[AbstractBijection]) -> Flow:
    """The flow that consists of released parts."""
    if isinstance(density, Flow):
        base, parts = density.base, [density.bijection, *start]
    else:
        base, parts = density, list(start)
    identity = Affine(shift=np.zeros(base.dim), scale=np.ones(base.dim))
    return Flow(base, Chain(parts or [identity]))


def restored(flow: Flow) -> Flow:
    """`flow`, with arrays from a file, whose released parts are checked and derived arrays recomputed.

    Raises:
        ValueError: Arrays of a part do not belong together.
    """
    released = (FixedLinear, GaussianMixture, Histogram, PiecewiseLinear)
    return jax.tree.map(
        lambda part: part.restored() if isinstance(part, released) else part,
        flow,
        is_leaf=lambda part: isinstance(part, released),
    )


def in_order(trained: AbstractBijection) -> AbstractBijection:
    """Scanned blocks whose permutations cancel: the coordinates of a released base keep their order."""
    assert isinstance(trained, Scan)
    assert isinstance(trained.block, Chain)
    (order,) = (part.order for part in trained.block.bijections if isinstance(part, Permutation))
    total = np.arange(trained.dim)
    for _ in range(trained.num_blocks):
        total = total[np.asarray(order)]
    return Chain((Permutation(np.argsort(total)), trained))
