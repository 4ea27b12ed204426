"""Autoregressive blocks that share one masked network, which is told whose turn it is.

DP-HFlow's conditional spline network: instead of a network for each block there is one for all, with
an embedding of the block's number as its condition. Under noise every trained number costs, and this
divides them by the number of blocks. The price is that a record passes the network once for each
block: its layers are `Reused`, and the gradients of the passes add up before they are clipped.

References:
    Lee, Kim, Jeong, Ro, "Differentially private normalizing flows for synthetic tabular
    data generation", 2022.
"""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from veilflow._core import check
from veilflow.flows.bijection import AbstractBijection, Condition, refuse_taps
from veilflow.flows.bijections.autoregressive import Autoregressive
from veilflow.flows.bijections.scan import Scan
from veilflow.flows.conditioner import MaskedMLP
from veilflow.flows.network import Activation
from veilflow.flows.scalar_map import AbstractScalarMap
from veilflow.nn.dense import Dense
from veilflow.nn.uses import Reused


class BlockNetwork(eqx.Module):
    """A masked network and the embedding of the block's number that is its condition."""

    embedding: Dense
    masked: MaskedMLP

    def embed(self, block: Int[Array, ""], *, like: Array) -> Float[Array, " embedding"]:
        """What the network is told of a block."""
        num_blocks = self.embedding.weight.shape[-1]
        return self.embedding(jax.nn.one_hot(block, num_blocks, dtype=like.dtype))


class SharedBlocks(AbstractBijection):
    """Blocks of, from data to base, a linear map, an autoregressive map and a reversal.

    The linear maps are the blocks' own, the network behind the autoregressive ones is shared. As in a
    `Scan`, block 0 is nearest to the base.
    """

    network: Reused[BlockNetwork]
    scalar_map: AbstractScalarMap
    linear: Scan | None

    @classmethod
    def create(
        cls,
        dim: int,
        scalar_map: AbstractScalarMap,
        num_blocks: int,
        *,
        key: Key[Array, ""],
        hidden: tuple[int, ...] = (100, 100),
        activation: Activation = "tanh",
        embedding: int = 8,
        linear: Callable[[Key[Array, ""]], AbstractBijection] | None = None,
    ) -> "SharedBlocks":
        """Blocks close to a reversal each.

        Args:
            dim: How many numbers an example has.
            scalar_map: What each coordinate goes through.
            num_blocks: How many blocks.
            key: Spent here, for all weights.
            hidden: Sizes of the network's hidden layers.
            activation: "tanh" or "relu".
            embedding: How many numbers tell the network which block it serves.
            linear: A linear map of `dim` coordinates from a key; None for blocks without.

        Returns:
            The blocks.

        Raises:
            ValueError: If a size is out of range or the activation is unknown.
        """
        check.count(num_blocks=num_blocks, embedding=embedding)
        embedding_key, network_key, linear_key = jax.random.split(key, 3)
        masked = MaskedMLP.create(
            dim,
            scalar_map.num_params,
            key=network_key,
            hidden=hidden,
            activation=activation,
            condition_dim=embedding,
        )
        told = Dense.create(num_blocks, embedding, key=embedding_key, bias=False)
        maps = None if linear is None else Scan.create(linear, num_blocks, key=linear_key)
        return cls(Reused(BlockNetwork(told, masked), uses=num_blocks), scalar_map, maps)

    @property
    def dim(self) -> int:
        """How many numbers an example has."""
        return self.network.module.masked.dim

    @property
    def num_blocks(self) -> int:
        """How many blocks there are."""
        return self.network.uses

    def forward_and_log_det(
        self, z: Float[Array, " dim"], condition: Condition = None
    ) -> tuple[Float[Array, " dim"], Float[Array, ""]]:
        """Base to data, block 0 first; each coordinate by coordinate."""
        refuse_taps(self)
        network = self.network.module
        arrays, rest = eqx.partition(self._linear, eqx.is_array)

        def one_block(z: Array, own: tuple[Array, AbstractBijection]) -> tuple[Array, Array]:
            block, slices = own
            spline = Autoregressive(network.masked, self.scalar_map)
            z, log_det = spline.forward_and_log_det(z[::-1], network.embed(block, like=z))
            linear = eqx.combine(slices, rest)
            if linear is not None:
                z, of_linear = linear.forward_and_log_det(z)
                log_det = log_det + of_linear
            return z, log_det

        z, log_dets = jax.lax.scan(one_block, z, (jnp.arange(self.num_blocks), arrays))
        return z, jnp.sum(log_dets)

    def inverse_and_private_log_det(
        self, x: Float[Array, " dim"], condition: Condition = None
    ) -> tuple[Float[Array, " dim"], Float[Array, ""]]:
        """Data to base, block 0 last."""
        arrays, rest = eqx.partition(self._linear, eqx.is_array)

        def one_block(
            network: BlockNetwork, x: Array, own: tuple[Array, AbstractBijection]
        ) -> tuple[Array, Array]:
            block, slices = own
            linear, of_linear = eqx.combine(slices, rest), jnp.zeros(())
            if linear is not None:
                x, of_linear = linear.inverse_and_private_log_det(x)
            spline = Autoregressive(network.masked, self.scalar_map)
            told = network.embed(block, like=x)
            z, log_det = spline.inverse_and_private_log_det(x, told)
            return z[::-1], of_linear + log_det

        # uses come in the order of the loop, so what belongs to the blocks is turned around instead
        last_first = jax.tree.map(lambda a: a[::-1], (jnp.arange(self.num_blocks), arrays))
        x, log_dets = self.network.scan(one_block, x, last_first)
        return x, jnp.sum(log_dets)

    def public_log_det(self) -> Float[Array, ""]:
        """That of the linear maps."""
        return jnp.zeros(()) if self.linear is None else self.linear.public_log_det()

    @property
    def _linear(self) -> AbstractBijection | None:
        """The stacked linear maps."""
        return None if self.linear is None else self.linear.block
