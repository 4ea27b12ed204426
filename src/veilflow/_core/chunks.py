"""A compiled function applied to many rows in chunks of one size, so that it is compiled once."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree


def apply_in_chunks(fn: Callable[[Any], Any], rows: PyTree[np.ndarray], *, size: int) -> np.ndarray:
    """`fn` of chunks of `size` rows, concatenated; the last chunk is padded with zeros.

    Args:
        fn: Maps (size, ...) to an array with a first axis of `size`, each row by itself.
        rows: An array of rows, or a tree of arrays with the rows as first axis; there may be no rows.
        size: Number of rows in a chunk.
    """
    num = len(jax.tree.leaves(rows)[0])
    parts = []
    for start in range(0, max(num, 1), size):
        count = min(size, num - start)

        def chunk(array: np.ndarray, start: int = start, count: int = count) -> np.ndarray:
            if count == size:
                return array[start : start + size]
            padded = np.zeros((size, *array.shape[1:]), array.dtype)
            padded[:count] = array[start : start + count]
            return padded

        parts.append(np.asarray(fn(jax.tree.map(chunk, rows)))[:count])
    return np.concatenate(parts)
