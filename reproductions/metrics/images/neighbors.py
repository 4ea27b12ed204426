"""Precision and recall of generated images, by nearest neighbors among features.

As private as the real images: no ledger pays for them.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from reproductions.metrics.rows import Rows, tables

_CHUNK_BYTES = 2**27
"""Distances held at once."""

_ROUNDING = 1e-12
"""Squared distances are sums and differences of squared norms: off by this part of them."""


@dataclass(frozen=True)
class PrecisionRecall:
    """How much of one set lies where the other does. As private as the real images.

    Attributes:
        precision: The part of generated images among the real ones: fidelity.
        recall: The part of real images among the generated ones: diversity.
    """

    precision: float
    recall: float

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self)


def precision_recall(real_features: Any, fake_features: Any, k: int = 3) -> PrecisionRecall:
    """The improved precision and recall of Kynkaanniemi et al. (2019).

    Around each row of a set lies a ball that reaches to its k-th nearest neighbor in the set. A row of
    the other set is among them if it is in any ball. Both numbers depend on the size of the sets:
    compare only equal sizes; 10,000 rows of each are usual. Memory stays at a block of distances.

    Args:
        real_features: A row of features per real image.
        fake_features: Likewise, for generated images.
        k: Which neighbor sets the radius; each set needs more rows than this.
    """
    real, fake = tables(real_features=real_features, fake_features=fake_features)
    for name, rows in (("real_features", real), ("fake_features", fake)):
        if len(rows) <= k:
            raise ValueError(
                f"{name} must have more than k = {k} rows, got {len(rows)}. Take more images."
            )
    center = real.mean(axis=0)  # smaller norms, smaller rounding
    real, fake = real - center, fake - center
    return PrecisionRecall(
        precision=float(_covered(fake, real, k).mean()),
        recall=float(_covered(real, fake, k).mean()),
    )


def _covered(rows: Rows, others: Rows, k: int) -> Bool[np.ndarray, " rows"]:
    """Which rows lie in the ball of any of the others."""
    # its own distance, 0, comes first: the k-th neighbor is at place k
    radii = np.concatenate(
        [np.partition(block, k, axis=1)[:, k] for block in _squared_distances(others, others)]
    )
    return np.concatenate(
        [(block <= radii[None]).any(axis=1) for block in _squared_distances(rows, others)]
    )


def _squared_distances(rows: Rows, others: Rows) -> Iterator[Float[np.ndarray, "block others"]]:
    """Block by block; below the rounding they are 0."""
    norms, other_norms = (np.square(x).sum(axis=1) for x in (rows, others))
    smallest = _ROUNDING * max(norms.max(), other_norms.max())
    size = max(1, _CHUNK_BYTES // (others.itemsize * len(others)))
    for first in range(0, len(rows), size):
        part = slice(first, first + size)
        block = norms[part, None] + other_norms[None] - 2 * rows[part] @ others.T
        block[block < smallest] = 0
        yield block
