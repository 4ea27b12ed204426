"""Many blocks of one kind, traced and compiled once."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from veilflow._core import check
from veilflow.flows.bijection import AbstractBijection, Condition, has_taps

_UNROLLED = 5
"""Blocks traced side by side under taps, at the most: compile time grows with them."""


class Scan(AbstractBijection):
    """`num_blocks` blocks of one structure, each with parameters of its own.

    `block` has one more leading axis on every array leaf, one entry for each block; taps are leaves
    and are scanned along with the parameters. As in a chain, block 0 is nearest to the base:
    forward runs 0, 1, ..., inverse runs ..., 1, 0.
    """

    block: AbstractBijection
    num_blocks: int = eqx.field(static=True)
    unroll: int = eqx.field(static=True, default=1)
    """Blocks traced side by side: more compile faster code, slower."""

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
        """Blocks made by `make`, each from a key of its own.

        Args:
            make: A block from a key.
            num_blocks: How many blocks.
            key: Spent here, for all blocks.

        Returns:
            The blocks, stacked.
        """
        check.count(num_blocks=num_blocks)
        # a loop, not a vmap: random bits for many keys at once take seconds to compile
        made = [make(block_key) for block_key in jax.random.split(key, num_blocks)]
        stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *made)
        return cls(block=stacked, num_blocks=num_blocks)

    @property
    def dim(self) -> int:
        """How many numbers an example has."""
        return self.block.dim

    def forward_and_log_det(
        self, z: Float[Array, " dim"], condition: Condition = None
    ) -> tuple[Float[Array, " dim"], Float[Array, ""]]:
        """Base to data, block 0 first."""
        step = lambda block, z: block.forward_and_log_det(z, condition)  # noqa: E731
        return self._run(step, z, reverse=False)

    def inverse_and_private_log_det(
        self, x: Float[Array, " dim"], condition: Condition = None
    ) -> tuple[Float[Array, " dim"], Float[Array, ""]]:
        """Data to base, block 0 last."""
        step = lambda block, x: block.inverse_and_private_log_det(x, condition)  # noqa: E731
        return self._run(step, x, reverse=True)

    def public_log_det(self) -> Float[Array, ""]:
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

        # Taps that come back from a loop are copied block by block; without the loop they are not,
        # which is worth an eighth of a private step.
        unroll = min(self.num_blocks, _UNROLLED) if has_taps(self.block) else self.unroll
        x, log_dets = jax.lax.scan(
            one_block, x, arrays, length=self.num_blocks, reverse=reverse, unroll=unroll
        )
        return x, jnp.sum(log_dets)
