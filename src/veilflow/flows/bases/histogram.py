"""A density that is constant on the cells of a grid over a box."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from veilflow._core import check
from veilflow.flows.bases.simple import AbstractBase
from veilflow.nn.frozen import AbstractFrozen


class Histogram(AbstractBase, AbstractFrozen):
    """Masses of 2^bits cells along each axis of the box from -`border` to `border`; never trained."""

    dim: int = eqx.field(static=True)
    bits: int = eqx.field(static=True)
    border: float = eqx.field(static=True)
    log_mass: Float[Array, " cells"]
    """Log-mass of each cell; the last coordinate runs fastest."""
    up_to: Float[Array, " cells"]
    """Cumulative mass within blocks of cells, about as many cells per block as there are blocks. Summed
    over the whole of a large grid, float32 would lose single cells."""

    @classmethod
    def create(cls, mass: Float[np.ndarray, "..."], *, border: float) -> "Histogram":
        """From positive masses that sum to 1: an array with one axis of 2^bits cells per coordinate."""
        mass = np.asarray(mass, np.float64)
        check.positive(border=border)
        bits = max(mass.shape[:1] or (1,)).bit_length() - 1
        if mass.ndim < 1 or set(mass.shape) != {2**bits}:
            raise ValueError(f"mass must have 2^bits cells along each axis, got {mass.shape}.")
        if not (np.all(mass > 0) and abs(mass.sum() - 1) < 1e-6):
            raise ValueError("masses must be positive and sum to 1.")
        log_mass = np.log(mass.ravel()).astype(np.float32)
        arrays = jnp.asarray(log_mass), jnp.asarray(_up_to(log_mass))
        return cls(mass.ndim, bits, float(border), *arrays)

    def restored(self) -> "Histogram":
        """The histogram of these log-masses, checked: for arrays that come from a file."""
        log_mass = np.asarray(self.log_mass)
        if not abs(np.logaddexp.reduce(np.float64(log_mass))) <= 1e-5:
            raise ValueError("masses must sum to 1.")
        up_to = jnp.asarray(_up_to(log_mass))
        return Histogram(self.dim, self.bits, self.border, self.log_mass, up_to)

    def log_prob(self, z: Float[Array, " dim"]) -> Float[Array, ""]:
        """The natural log of the density at one example; -inf outside the box."""
        side = 2**self.bits
        parts = jnp.floor((z / self.border + 1) * (side / 2))
        inside = jnp.all(
            jnp.abs(z) <= self.border
        )  # the border belongs to the box: clamped rows lie on it
        parts = jnp.clip(parts, 0, side - 1).astype(jnp.int32)
        cell = jnp.zeros((), jnp.int32)
        for axis in range(self.dim):
            cell = cell * side + parts[axis]
        log_volume = self.dim * np.log(2 * self.border / side)
        return jnp.where(inside, self.log_mass[cell] - log_volume, -jnp.inf)

    def sample(self, key: Key[Array, ""]) -> Float[Array, " dim"]:
        """One example; the key is spent. A block is drawn first, then a cell in it."""
        cell_key, position_key = jax.random.split(key)
        first, second = jax.random.uniform(cell_key, (2,))
        size = _block_size(self.up_to.size)
        totals = self.up_to[size - 1 :: size]
        ends = jnp.cumsum(totals)
        block = jnp.searchsorted(ends, first * ends[-1], side="right")
        block = jnp.minimum(block, totals.size - 1)
        cell, mass = block * size, second * totals[block]
        half = size // 2
        while half:  # a binary search in the block, whose size is a power of two
            cell = jnp.where(self.up_to[cell + half - 1] <= mass, cell + half, cell)
            half //= 2
        parts = jnp.stack(jnp.unravel_index(cell, (2**self.bits,) * self.dim))
        unit = (parts + jax.random.uniform(position_key, (self.dim,))) / 2**self.bits
        return self.border * (2 * unit - 1)


def _block_size(cells: int) -> int:
    """Cells in a block: a power of two, about the square root of all."""
    return 2 ** (cells.bit_length() // 2)


def _up_to(log_mass: Float[np.ndarray, " cells"]) -> Float[np.ndarray, " cells"]:
    mass = np.exp(np.float64(log_mass)).reshape(-1, _block_size(log_mass.size))
    return np.cumsum(mass, axis=1).ravel().astype(np.float32)
