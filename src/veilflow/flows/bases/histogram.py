"""A density that is constant on the cells of a grid over a box."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from veilflow._core import check
from veilflow.flows.base import AbstractBase
from veilflow.nn.frozen import AbstractFrozen


class Histogram(AbstractBase, AbstractFrozen):
    """Masses of 2^bits cells along each axis of the box from -`border` to `border`; never trained."""

    dim: int = eqx.field(static=True)
    bits: int = eqx.field(static=True)
    border: float = eqx.field(static=True)
    log_mass: Float[Array, " cells"]
    """Log-mass of each cell; the last coordinate runs fastest."""
    up_to: Float[Array, " cells"]
    """Mass of each cell and all before it."""

    @classmethod
    def create(cls, mass: Float[np.ndarray, "..."], *, border: float) -> "Histogram":
        """From positive masses that sum to 1, an array with one axis of 2^bits cells a coordinate."""
        mass = np.asarray(mass, np.float64)
        check.positive(border=border)
        bits = max(mass.shape[:1] or (1,)).bit_length() - 1
        if mass.ndim < 1 or set(mass.shape) != {2**bits}:
            raise ValueError(f"mass must have 2^bits cells along each axis, got {mass.shape}.")
        if not (np.all(mass > 0) and abs(mass.sum() - 1) < 1e-6):
            raise ValueError("masses must be positive and sum to 1.")
        flat = mass.ravel()
        up_to = np.minimum(np.cumsum(flat), 1.0)
        return cls(mass.ndim, bits, float(border), jnp.float32(np.log(flat)), jnp.float32(up_to))

    def log_prob(self, z: Float[Array, " dim"]) -> Float[Array, ""]:
        """The natural log of the density at one example; -inf outside the box."""
        side = 2**self.bits
        parts = jnp.floor((z / self.border + 1) * (side / 2))
        inside = jnp.all(jnp.abs(z) <= self.border)  # the border is in: clamped rows lie on it
        parts = jnp.clip(parts, 0, side - 1).astype(jnp.int32)
        cell = jnp.zeros((), jnp.int32)
        for axis in range(self.dim):
            cell = cell * side + parts[axis]
        log_volume = self.dim * np.log(2 * self.border / side)
        return jnp.where(inside, self.log_mass[cell] - log_volume, -jnp.inf)

    def sample(self, key: Key[Array, ""]) -> Float[Array, " dim"]:
        """One example; the key is spent."""
        which, where = jax.random.split(key)
        cell = jnp.searchsorted(self.up_to, jax.random.uniform(which), side="right")
        cell = jnp.minimum(cell, self.up_to.size - 1)
        parts = jnp.stack(jnp.unravel_index(cell, (2**self.bits,) * self.dim))
        unit = (parts + jax.random.uniform(where, (self.dim,))) / 2**self.bits
        return self.border * (2 * unit - 1)
