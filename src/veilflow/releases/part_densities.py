"""Parts of the records, and one density for each part. Nothing here is private.

`split` assigns records to parts by a keyed hash: a record is in one part, whatever the other records
are. The proof of an ensemble needs only that, with any key. The key is secret for another reason:
whoever knew it could choose records that all fall into one part.

The proof also needs that the model of a part is the same *whatever the other parts hold*, their sizes
included. So no array here has a shape that depends on a number of records, no sum runs over parts, and
each part has keys of its own.
"""

# JAX and jaxtyping leave types open (trees, loops, new arrays); see [tool.pyright] in pyproject.toml
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportUnknownLambdaType=false

import hashlib
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
"""Rows that are scored at once, by one compiled program."""
_NARROWEST = 1e-3
"""Floor of the standard deviation by which a column is scaled, in flow coordinates."""
_DIGEST = 16
_PERSON = b"parts"


class PartDensities(eqx.Module):
    """A density for each part, all of one kind; the first axis of every array is the part."""

    density: Any
    center: Float[Array, "parts dim"]
    scale: Float[Array, "parts dim"]

    def log_prob(self, rows: Float[np.ndarray, "rows dim"]) -> Float[np.ndarray, "parts rows"]:
        """Log-densities in flow coordinates; NaN counts as minus infinity."""
        log_probs = np.empty((len(self.center), len(rows)))
        for start in range(0, len(rows), _CHUNK):
            part = rows[start : start + _CHUNK].astype(np.float32)
            padded = np.zeros((_CHUNK, rows.shape[1]), np.float32)
            padded[: len(part)] = part
            scored = np.asarray(_log_prob(self, jnp.asarray(padded)))
            log_probs[:, start : start + _CHUNK] = scored[:, : len(part)]
        return np.nan_to_num(log_probs, nan=-np.inf, posinf=np.inf, neginf=-np.inf)


class PartModels(Tagged, ABC):
    """Settings that determine how each part learns a density."""

    @property
    @abstractmethod
    def rounds(self) -> int:
        """The number of rounds that a monitor of the training counts."""

    @abstractmethod
    def train(
        self,
        parts: Sequence[Part],
        *,
        flow: Any,
        secret: Secret,
        monitor: Monitor = lambda done: None,
    ) -> PartDensities:
        """A density for each part, all of them trained by one program.

        Args:
            parts: Rows in flow coordinates.
            flow: The architecture of the flows, if flows are trained.
            secret: Source of all randomness.
            monitor: Called with the number of rounds done.
        """

    @abstractmethod
    def num_numbers(self, dim: int, *, flow: Any) -> int:
        """The least numbers of one part: a file is checked for them before anything is built."""

    @abstractmethod
    def untrained(self, dim: int, num_parts: int, *, flow: Any) -> PartDensities:
        """Densities with these shapes and arbitrary values."""


def centers_and_scales(parts: Sequence[Part]) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of each column in each part; 0 and 1 for an empty part."""
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


def split(
    rows: Float[np.ndarray, "rows dim"], *, parts: int, secret: Secret
) -> list[Float[np.ndarray, "part dim"]]:
    """The rows of each part, in the order of their hashes.

    Equal rows are in the same part. The parts depend on the records but not on their order, so a
    permuted table gives the same parts.

    Args:
        rows: Finite numbers, one row per record.
        parts: Number of parts.
        secret: The key of the hash.
    """
    digests = [_digest(row, secret) for row in canonical(rows)]
    # the first half of a hash determines the part, all of it the order there
    homes = np.array([int.from_bytes(d[: _DIGEST // 2], "big") % parts for d in digests], int)
    ordered = np.array(sorted(range(len(digests)), key=digests.__getitem__), int)
    return [rows[ordered[homes[ordered] == part]] for part in range(parts)]


def canonical(rows: Float[np.ndarray, "rows dim"]) -> Float[np.ndarray, "rows dim"]:
    """Rows in which equal numbers have equal bytes: little-endian, and without minus zero."""
    return np.ascontiguousarray(rows, dtype="<f8") + 0.0  # minus zero plus zero is zero


def _digest(row: Float[np.ndarray, " dim"], secret: Secret) -> bytes:
    key = secret.reveal()
    return hashlib.blake2b(row.tobytes(), key=key, person=_PERSON, digest_size=_DIGEST).digest()
