"""Autoregressive maps: each coordinate is mapped with parameters set by the coordinates before it.

Data to base is one pass of the network. Sampling goes coordinate by coordinate, but each step computes
only the units that the coordinate before it made computable (see `conditioner`), so it is one pass in
all. It is one loop over the coordinates, so the time to compile does not grow with them.

`SharedBlocks` is DP-HFlow's conditional spline network: one masked network serves all blocks, with an
embedding of the block's number as its condition. Under noise every trained parameter has a cost, and
sharing divides their number by that of the blocks. The price is that a record passes the network once
for each block: its layers are `Reused`, and the gradients of the passes add up before they are clipped.

References:
    Papamakarios, Pavlakou, Murray, "Masked autoregressive flow for density estimation", 2017.
    Lee, Kim, Jeong, Ro, "Differentially private normalizing flows for synthetic tabular
    data generation", 2022.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from veilflow._core import check
from veilflow.flows.bijection import (
    AbstractBijection,
    Condition,
    Mapped,
    Scalar,
    Vector,
    refuse_taps,
)
from veilflow.flows.bijections.composition import Scan
from veilflow.flows.conditioner import Known, MaskedMLP
from veilflow.flows.scalar_maps.simple import AbstractScalarMap
from veilflow.nn.dense import Dense
from veilflow.nn.uses import Reused


class Autoregressive(AbstractBijection):
    """`scalar_map` of each coordinate, with parameters set by the coordinates before it."""

    conditioner: MaskedMLP
    scalar_map: AbstractScalarMap

    def __check_init__(self):
        if self.conditioner.num_params != self.scalar_map.num_params:
            raise ValueError(
                f"conditioner must set {self.scalar_map.num_params} parameters per coordinate for "
                f"{type(self.scalar_map).__name__}, got {self.conditioner.num_params}. Build it "
                f"with num_params={self.scalar_map.num_params}."
            )

    @classmethod
    def create(
        cls, dim: int, scalar_map: AbstractScalarMap, *, key: Key[Array, ""], **network: Any
    ) -> "Autoregressive":
        """A map with a new masked network, whose settings are those of `MaskedMLP.create`."""
        return cls(MaskedMLP.create(dim, scalar_map.num_params, key=key, **network), scalar_map)

    @property
    def dim(self) -> int:
        """How many numbers an example has."""
        return self.conditioner.dim

    def forward_and_log_det(self, z: Vector, condition: Condition = None) -> Mapped:
        """Base to data, coordinate by coordinate; the work of one pass of the network."""
        refuse_taps(self)
        network = self.conditioner

        def one_coordinate(known: Known, step: tuple[Array, Array]) -> tuple[Known, Any]:
            i, z_i = step
            params, known = network.parameters_of(i, known)
            x_i, log_det = self.scalar_map.forward_and_log_det(z_i, params)
            return network.with_coordinate(i, x_i, known), (x_i, log_det)

        dtype = jnp.result_type(z, *jax.tree.leaves(network))
        start = network.nothing_known(condition, dtype=dtype)
        _, (x, log_det) = jax.lax.scan(one_coordinate, start, (jnp.arange(self.dim), z))
        return x, jnp.sum(log_det)

    def inverse_and_private_log_det(self, x: Vector, condition: Condition = None) -> Mapped:
        """Data to base, one pass of the network."""
        z, log_det = self.scalar_map.inverse_and_log_det(x, self.conditioner(x, condition))
        return z, jnp.sum(log_det)


class BlockNetwork(eqx.Module):
    """A masked network and the embedding of the block's number that is its condition."""

    embedding: Dense
    masked: MaskedMLP

    def embed(self, block: Int[Array, ""], *, like: Array) -> Float[Array, " embedding"]:
        """The condition that tells the network which block it serves."""
        num_blocks = self.embedding.weight.shape[-1]
        return self.embedding(jax.nn.one_hot(block, num_blocks, dtype=like.dtype))


class SharedBlocks(AbstractBijection):
    """Blocks that, from data to base, are a linear map, an autoregressive map and a reversal.

    Each block has its own linear map; all share the network of the autoregressive maps. As in a
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
        embedding: int = 8,
        linear: Callable[[Key[Array, ""]], AbstractBijection] | None = None,
        **network: Any,
    ) -> "SharedBlocks":
        """Blocks that are each close to a reversal.

        Args:
            dim: How many numbers an example has.
            scalar_map: The map of each coordinate.
            num_blocks: Number of blocks.
            key: Spent here, for all weights.
            embedding: Size of the embedding that tells the network which block it serves.
            linear: Builds a linear map of `dim` coordinates from a key; None for no linear maps.
            **network: Settings of the network, as for `MaskedMLP.create`.

        Returns:
            The blocks.

        Raises:
            ValueError: If a size is out of range or the activation is unknown.
        """
        check.count(num_blocks=num_blocks, embedding=embedding)
        embedding_key, network_key, linear_key = jax.random.split(key, 3)
        masked = MaskedMLP.create(
            dim, scalar_map.num_params, key=network_key, condition_dim=embedding, **network
        )
        embed = Dense.create(num_blocks, embedding, key=embedding_key, bias=False)
        maps = None if linear is None else Scan.create(linear, num_blocks, key=linear_key)
        return cls(Reused(BlockNetwork(embed, masked), uses=num_blocks), scalar_map, maps)

    @property
    def dim(self) -> int:
        """How many numbers an example has."""
        return self.network.module.masked.dim

    @property
    def num_blocks(self) -> int:
        """How many blocks there are."""
        return self.network.uses

    def forward_and_log_det(self, z: Vector, condition: Condition = None) -> Mapped:
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
                z, linear_log_det = linear.forward_and_log_det(z)
                log_det = log_det + linear_log_det
            return z, log_det

        z, log_dets = jax.lax.scan(one_block, z, (jnp.arange(self.num_blocks), arrays))
        return z, jnp.sum(log_dets)

    def inverse_and_private_log_det(self, x: Vector, condition: Condition = None) -> Mapped:
        """Data to base, block 0 last."""
        arrays, rest = eqx.partition(self._linear, eqx.is_array)

        def one_block(
            network: BlockNetwork, x: Array, own: tuple[Array, AbstractBijection]
        ) -> tuple[Array, Array]:
            block, slices = own
            linear, linear_log_det = eqx.combine(slices, rest), jnp.zeros(())
            if linear is not None:
                x, linear_log_det = linear.inverse_and_private_log_det(x)
            spline = Autoregressive(network.masked, self.scalar_map)
            embedded = network.embed(block, like=x)
            z, log_det = spline.inverse_and_private_log_det(x, embedded)
            return z[::-1], linear_log_det + log_det

        # uses are numbered in the order of the loop, so the order of the blocks is reversed instead
        last_first = jax.tree.map(lambda a: a[::-1], (jnp.arange(self.num_blocks), arrays))
        x, log_dets = self.network.scan(one_block, x, last_first)
        return x, jnp.sum(log_dets)

    def public_log_det(self) -> Scalar:
        """The public log-determinant of the linear maps."""
        return jnp.zeros(()) if self.linear is None else self.linear.public_log_det()

    @property
    def _linear(self) -> AbstractBijection | None:
        """The stacked linear maps."""
        return None if self.linear is None else self.linear.block
