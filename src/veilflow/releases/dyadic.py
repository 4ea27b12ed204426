"""Denoising of counts on a fine grid: cells are merged where their differences are only noise.

Cells are in Z-order (the bits of their coordinates interleaved), so halving a box along one axis after
the other is halving a vector. From the finest pairs upward, a split of a box is kept if the difference
between its halves, together with the splits below them, exceeds what Poisson counts with this much
noise explain. Only released counts are read: this is post-processing and costs nothing.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

_PENALTY = 2.0
"""Gain that a split requires: half a squared normal deviate, so 2 is two standard deviations."""
_PRIOR = 0.5
"""Records added to both halves of a split, so that neither is empty."""
_FLOOR = 0.005
"""Mass spread evenly over all cells, so that the density is positive everywhere."""


@dataclass(frozen=True)
class Cells:
    """A density that is constant on cells of the unit cube."""

    mass: Float[np.ndarray, " cells"]
    """Mass of every cell in Z-order; sums to 1."""
    leaf: Int[np.ndarray, " cells"]
    """The box of merged cells to which each cell belongs."""


def denoise(counts: Float[np.ndarray, " cells"], noise_variance: float) -> Cells:
    """Merge cells of noisy `counts` in Z-order; their number is a power of two."""
    levels = [np.asarray(counts, np.float64)]
    while len(levels[-1]) > 1:
        levels.append(levels[-1][0::2] + levels[-1][1::2])
    gain, merged = np.zeros(len(counts)), 1
    splits: list[np.ndarray] = []
    for below in levels[:-1]:
        left, right = below[0::2], below[1::2]
        merged *= 2
        variance = np.maximum(left + right, 0) + noise_variance * merged
        here = 0.5 * (left - right) ** 2 / np.maximum(variance, 1e-9)
        gain = np.maximum(0.0, here - _PENALTY + gain[0::2] + gain[1::2])
        splits.append(gain > 0)

    mass, open_box, leaf = np.ones(1), np.ones(1, bool), np.zeros(1, int)
    for below, split in zip(levels[-2::-1], splits[::-1], strict=True):
        left, right = np.maximum(below[0::2], 0) + _PRIOR, np.maximum(below[1::2], 0) + _PRIOR
        open_box = open_box & split
        part = np.where(open_box, left / (left + right), 0.5)
        mass = np.stack([mass * part, mass * (1 - part)], axis=1).ravel()
        # the halves of an open box become two boxes; those of a closed one remain one box
        new = np.stack([2 * leaf, 2 * leaf + np.where(open_box, 1, 0)], axis=1).ravel()
        leaf, open_box = np.unique(new, return_inverse=True)[1], np.repeat(open_box, 2)
    return Cells((1 - _FLOOR) * mass + _FLOOR / len(mass), leaf)


def cell_index(unit: Float[np.ndarray, "rows dim"], bits: int) -> Int[np.ndarray, " rows"]:
    """The cell in Z-order of each point of the unit cube, cut into 2^bits parts along each axis."""
    parts = np.clip(np.floor(unit * 2**bits), 0, 2**bits - 1).astype(np.int64)
    index = np.zeros(len(parts), np.int64)
    for bit in range(bits - 1, -1, -1):
        for axis in range(parts.shape[1]):
            index = 2 * index + ((parts[:, axis] >> bit) & 1)
    return index


def cell_corner(index: Int[np.ndarray, " cells"], bits: int, dim: int) -> np.ndarray:
    """The lowest corner of each cell, in units of cells: the inverse of `cell_index`."""
    parts = np.zeros((len(index), dim), np.int64)
    for place in range(bits * dim):
        bit, axis = place // dim, dim - 1 - place % dim
        parts[:, axis] |= ((index >> place) & 1) << bit
    return parts
