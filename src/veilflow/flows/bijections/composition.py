"""Bijections made of bijections: a chain, a stack of equal blocks, and the inverse of one."""

from collections.abc import Callable, Iterable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Key

from veilflow._core import check
from veilflow.flows.bijection import (
    AbstractBijection,
    Condition,
    Mapped,
    Scalar,
    Vector,
    has_taps,
)


class Chain(AbstractBijection):
    """Bijections from base to data: forward runs first to last, inverse last to first."""

    bijections: tuple[AbstractBijection, ...]

    def __init__(self, bijections: Iterable[AbstractBijection]):
        """Check that the dimensions agree.

        Args:
            bijections: At least one, all of the same dimension, from base to data.

        Raises:
            ValueError: If there is none, or dimensions differ.
        """
        self.bijections = tuple(bijections)
        dims = sorted({bijection.dim for bijection in self.bijections})
        if len(dims) != 1:
            raise ValueError(
                f"a chain needs at least one bijection and one dimension for all, got {dims}."
            )

    @property
    def dim(self) -> int:
        """How many numbers an example has."""
        return self.bijections[0].dim

    def forward_and_log_det(self, z: Vector, condition: Condition = None) -> Mapped:
        """Base to data, first to last."""
        total = jnp.zeros(())
        for bijection in self.bijections:
            z, log_det = bijection.forward_and_log_det(z, condition)
            total = total + log_det
        return z, total

    def inverse_and_private_log_det(self, x: Vector, condition: Condition = None) -> Mapped:
        """Data to base, last to first."""
        total = jnp.zeros(())
        for bijection in reversed(self.bijections):
            x, log_det = bijection.inverse_and_private_log_det(x, condition)
            total = total + log_det
        return x, total

    def public_log_det(self) -> Scalar:
        """The sum over the chain."""
        total = jnp.zeros(())
        for bijection in self.bijections:
            total = total + bijection.public_log_det()
        return total


class Invert(AbstractBijection):
    """Forward is the inverse of `bijection`, inverse its forward.

    The density then uses the forward direction of `bijection`, where taps do not hold: a bijection
    with layers refuses them there.
    """

    bijection: AbstractBijection

    @property
    def dim(self) -> int:
        """How many numbers an example has."""
        return self.bijection.dim

    def forward_and_log_det(self, z: Vector, condition: Condition = None) -> Mapped:
        """Base to data: the inverse of `bijection`."""
        return self.bijection.inverse_and_log_det(z, condition)

    def inverse_and_private_log_det(self, x: Vector, condition: Condition = None) -> Mapped:
        """Data to base: the forward direction of `bijection`."""
        z, log_det = self.bijection.forward_and_log_det(x, condition)
        # what depends on parameters only does so in both directions, with opposite signs
        return z, log_det - self.public_log_det()

    def public_log_det(self) -> Scalar:
        """Minus the public log-determinant of `bijection`."""
        return -self.bijection.public_log_det()


_UNROLLED = 5
"""Most blocks traced side by side under taps: compile time grows with them."""


class Scan(AbstractBijection):
    """`num_blocks` blocks of one structure, each with its own parameters, traced and compiled once.

    Every array leaf of `block` has a leading axis with one entry for each block; taps are leaves and
    are scanned along with the parameters. As in a chain, block 0 is nearest to the base:
    forward runs 0, 1, ..., inverse runs ..., 1, 0.
    """

    block: AbstractBijection
    num_blocks: int = eqx.field(static=True)
    unroll: int = eqx.field(static=True, default=1)
    """Blocks traced side by side; more of them make faster code that takes longer to compile."""

    def __check_init__(self):
        check.count(num_blocks=self.num_blocks)
        leads = {leaf.shape[:1] for leaf in jax.tree.leaves(eqx.filter(self.block, eqx.is_array))}
        if not leads <= {(self.num_blocks,)}:
            raise ValueError(
                f"every array in block must have a leading axis of num_blocks={self.num_blocks}, "
                f"got {sorted(leads)}. Build it with Scan.create."
            )

    @classmethod
    def create(
        cls,
        make: Callable[[Key[Array, ""]], AbstractBijection],
        num_blocks: int,
        *,
        key: Key[Array, ""],
    ) -> "Scan":
        """Blocks made by `make`, each from its own key.

        Args:
            make: Builds a block from a key.
            num_blocks: Number of blocks.
            key: Spent here, for all blocks.

        Returns:
            The blocks, stacked.
        """
        check.count(num_blocks=num_blocks)
        # a loop, not a vmap: random bits for many keys at once take seconds to compile
        blocks = [make(block_key) for block_key in jax.random.split(key, num_blocks)]
        stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *blocks)
        return cls(block=stacked, num_blocks=num_blocks)

    @property
    def dim(self) -> int:
        """How many numbers an example has."""
        return self.block.dim

    def forward_and_log_det(self, z: Vector, condition: Condition = None) -> Mapped:
        """Base to data, block 0 first."""
        step = lambda block, z: block.forward_and_log_det(z, condition)  # noqa: E731
        return self._run(step, z, reverse=False)

    def inverse_and_private_log_det(self, x: Vector, condition: Condition = None) -> Mapped:
        """Data to base, block 0 last."""
        step = lambda block, x: block.inverse_and_private_log_det(x, condition)  # noqa: E731
        return self._run(step, x, reverse=True)

    def public_log_det(self) -> Scalar:
        """The sum over the blocks."""
        log_dets = eqx.filter_vmap(lambda block: block.public_log_det(), axis_size=self.num_blocks)
        return jnp.sum(log_dets(self.block))

    def _run(
        self,
        step: Callable[[AbstractBijection, Array], tuple[Array, Array]],
        x: Array,
        *,
        reverse: bool,
    ) -> tuple[Array, Array]:
        arrays, rest = eqx.partition(self.block, eqx.is_array)

        def one_block(x: Array, slices: AbstractBijection) -> tuple[Array, Array]:
            return step(eqx.combine(slices, rest), x)

        # Taps that a loop returns are copied block by block; unrolling avoids the copies and saves an
        # eighth of a private step.
        unroll = min(self.num_blocks, _UNROLLED) if has_taps(self.block) else self.unroll
        x, log_dets = jax.lax.scan(
            one_block, x, arrays, length=self.num_blocks, reverse=reverse, unroll=unroll
        )
        return x, jnp.sum(log_dets)
