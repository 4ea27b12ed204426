"""The densities of all parts as one program, and how a part learns one. Nothing here is private.

The proof of an ensemble needs more than parts that share no record: the model of a part must be the
same *whatever the other parts hold*, their sizes included. So no array here has a shape that follows
from a number of records, no sum runs over parts, and each part has keys of its own.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from veilflow._core.codec import Tagged
from veilflow._core.keys import Secret
from veilflow.releases.release import Monitor

Part = Float[np.ndarray, "part dim"]

_CHUNK = 1024
"""Rows that are scored at once."""
_NARROWEST = 1e-3
"""A column of a part is not scaled up beyond this standard deviation, in flow coordinates."""


class PartDensities(eqx.Module):
    """A density for each part, all of one kind: arrays have the part as first axis."""

    density: Any
    center: Float[Array, "parts dim"]
    scale: Float[Array, "parts dim"]

    def log_prob(self, rows: Float[np.ndarray, "rows dim"]) -> Float[np.ndarray, "parts rows"]:
        """Log-densities over flow coordinates; minus infinity where there is none."""
        found = np.empty((len(self.center), len(rows)))
        for start in range(0, len(rows), _CHUNK):
            part = rows[start : start + _CHUNK].astype(np.float32)
            padded = np.zeros((_CHUNK, rows.shape[1]), np.float32)
            padded[: len(part)] = part
            scored = np.asarray(_log_prob(self, jnp.asarray(padded)))
            found[:, start : start + _CHUNK] = scored[:, : len(part)]
        return np.nan_to_num(found, nan=-np.inf, posinf=np.inf, neginf=-np.inf)


class PartModels(Tagged, ABC):
    """How each part learns a density, as settings of a plan."""

    @property
    @abstractmethod
    def rounds(self) -> int:
        """How far the monitor of a training counts."""

    @abstractmethod
    def train(
        self,
        parts: Sequence[Part],
        *,
        flow: Any,
        secret: Secret,
        monitor: Monitor = lambda done: None,
    ) -> PartDensities:
        """A density for each part, all of them in one program.

        Args:
            parts: Rows in flow coordinates.
            flow: The architecture of all flows, where flows are trained.
            secret: Of everything that is drawn.
            monitor: Called with the number of rounds done.
        """

    @abstractmethod
    def num_numbers(self, dim: int, *, flow: Any) -> int:
        """Numbers of one part, at least: what a file must hold before anything is built for it."""

    @abstractmethod
    def untrained(self, dim: int, num_parts: int, *, flow: Any) -> PartDensities:
        """Densities of these sizes, whatever their numbers."""


def centers_and_scales(parts: Sequence[Part]) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of every column in each part; 0 and 1 for a part without rows."""
    centers = [part.mean(axis=0) if len(part) else np.zeros(part.shape[1]) for part in parts]
    scales = [part.std(axis=0) if len(part) else np.ones(part.shape[1]) for part in parts]
    scales = np.maximum(scales, _NARROWEST)
    return np.asarray(centers, np.float32), np.asarray(scales, np.float32)


def standardized(
    parts: Sequence[Part], centers: np.ndarray, scales: np.ndarray
) -> list[Float[np.ndarray, "part dim"]]:
    """The rows of each part in its own coordinates, in single precision."""
    triples = zip(parts, centers, scales, strict=True)
    return [np.asarray((part - c) / s, np.float32) for part, c, s in triples]


@eqx.filter_jit
def _log_prob(parts: PartDensities, rows: Float[Array, "rows dim"]) -> Float[Array, "parts rows"]:
    def one_part(density: Any, center: Array, scale: Array) -> Array:
        scaled = (rows - center[None]) / scale[None]
        return jax.vmap(density.log_prob)(scaled) - jnp.sum(jnp.log(scale))

    return eqx.filter_vmap(one_part)(parts.density, parts.center, parts.scale)
