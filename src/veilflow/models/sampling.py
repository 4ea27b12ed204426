"""Synthetic rows from a released density, in blocks: memory does not grow with their number.

Row i of a seed depends only on the model, the seed and i, not on the number of rows or the size of
chunks. On another kind of device it is the same row up to rounding.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from veilflow._core import check
from veilflow._core.keys import Secret
from veilflow.flows import AbstractBase, Flow
from veilflow.models.domain import Domain
from veilflow.tabular.stream import write_chunks

Rows = Float[np.ndarray, "rows dim"]

_SPAN = 65_536
"""Rows that share a key; a multiple of the block size of every device."""
_CPU_BLOCK, _CPU_PART = 4096, 1024
"""Rows in one call of the compiled program, and those of them that are drawn at once: the hidden units
of few rows stay in the cache of a processor."""
_FILE_CHUNK, _FILE_NUMBERS = 65_536, 2**22
"""The largest number of rows, and of numbers, in a chunk of a file."""


class AbstractSampler(ABC):
    """A released density that can be sampled. Samples are post-processing and cost nothing."""

    columns: tuple[str, ...] | None

    @property
    @abstractmethod
    def dim(self) -> int:
        """The number of columns."""

    @abstractmethod
    def _blocks(self, num_rows: int, secret: Secret) -> Iterator[Rows]:
        """The rows in blocks of any size, in the units of the data; see `blocks`."""

    def sample(self, num_rows: int, *, seed: int | None = None) -> Rows:
        """Draw synthetic rows within the declared bounds.

        Args:
            num_rows: The number of rows. For more than fit into memory, see `sample_chunks` and
                `sample_to`.
            seed: For the same rows each time; the first of many are those of few. Never use the seed
                of a fit: whoever knows it can remove the noise.
        """
        check.count(num_rows=num_rows, at_least=0)
        chunks = self.sample_chunks(num_rows, seed=seed, chunk_size=max(num_rows, 1))
        return next(chunks, np.empty((0, self.dim)))

    def sample_chunks(
        self, num_rows: int, *, seed: int | None = None, chunk_size: int = 65_536
    ) -> Iterator[Rows]:
        """Draw the rows of `sample` in chunks, each when it is needed.

        Concatenated they equal `sample(num_rows, seed=seed)`, whatever the size of the chunks.

        Args:
            num_rows: The number of rows in all chunks.
            seed: As for `sample`.
            chunk_size: The number of rows in a chunk; the last may have fewer.
        """
        check.count(num_rows=num_rows, at_least=0)
        check.count(chunk_size=chunk_size)
        # checked and seeded here, not when the first chunk is needed
        blocks = self._blocks(num_rows, Secret.from_seed(seed))
        return _regrouped(blocks, num_rows, chunk_size, self.dim)

    def sample_to(
        self,
        path: str | os.PathLike[str],
        num_rows: int,
        *,
        seed: int | None = None,
        monitor: Callable[[int], object] | None = None,
    ) -> None:
        """Write the rows of `sample` to a file as they are drawn, all or nothing.

        If writing is interrupted there is no new file, and an older one of this name is unchanged.

        Args:
            path: The file to write; its suffix names the format, as for `write_rows`.
            num_rows: The number of rows.
            seed: As for `sample`.
            monitor: Called with the number of rows drawn so far, after each chunk.
        """
        size = max(1, min(_FILE_CHUNK, _FILE_NUMBERS // self.dim))
        chunks = self.sample_chunks(num_rows, seed=seed, chunk_size=size)
        if monitor is not None:
            chunks = _watched(chunks, monitor)
        write_chunks(chunks, path, num_rows=num_rows, dim=self.dim, columns=self.columns)


def blocks(
    density: Flow | AbstractBase, domain: Domain, num_rows: int, secret: Secret
) -> Iterator[Rows]:
    """Draw rows from a density over flow coordinates, clamped to the domain, a block at a time."""
    on_cpu = jax.default_backend() == "cpu"
    size, part = (_CPU_BLOCK, _CPU_PART) if on_cpu else (_SPAN, None)

    def decoded(coordinates: Array, first: int) -> Rows:
        rows = np.asarray(coordinates, np.float64)[: num_rows - first]
        # a flow reaches everywhere: rows beyond the border are moved to it, as those of the data were
        return domain.clamp(domain.decode(np.nan_to_num(rows)))

    previous = None
    for first in range(0, num_rows, size):
        key = secret.key("sample", first // _SPAN)
        block = _draw(density, key, jnp.uint32(first % _SPAN), size=size, part=part), first
        # the device computes this block while the host is busy with the previous one
        if previous is not None:
            yield decoded(*previous)
        previous = block
    if previous is not None:
        yield decoded(*previous)


@eqx.filter_jit
def _draw(
    density: Flow | AbstractBase,
    key: Key[Array, ""],
    first: Array,
    *,
    size: int,
    part: int | None,
) -> Float[Array, "size dim"]:
    """Rows `first` to `first + size` of a key, `part` at once or all."""
    places = first + jnp.arange(size, dtype=jnp.uint32)
    keys = jax.vmap(jax.random.fold_in, in_axes=(None, 0))(key, places)
    if part is None:
        return jax.vmap(density.sample)(keys)
    return jax.lax.map(density.sample, keys, batch_size=part)


def _regrouped(blocks: Iterator[Rows], num_rows: int, size: int, dim: int) -> Iterator[Rows]:
    """The same rows in chunks of `size`, each an array of its own."""
    left, chunk, filled = num_rows, np.empty((min(size, num_rows), dim)), 0
    for block in blocks:
        while len(block):
            taken = block[: len(chunk) - filled]
            chunk[filled : filled + len(taken)] = taken
            block, filled = block[len(taken) :], filled + len(taken)
            if filled == len(chunk):
                yield chunk
                left -= filled
                chunk, filled = np.empty((min(size, left), dim)), 0


def _watched(chunks: Iterator[Rows], monitor: Callable[[int], object]) -> Iterator[Rows]:
    done = 0
    for chunk in chunks:
        yield chunk
        done += len(chunk)
        monitor(done)
