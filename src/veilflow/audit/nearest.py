"""Membership inference on synthetic rows or images: whose nearest one is too near?

A small distance is a reason to worry; a large one is no evidence of privacy, and nothing here says so.
"""

from typing import Any

import numpy as np
from jaxtyping import Float

from veilflow.audit.coordinates import points

_FEW = 24
"""Columns up to which a tree finds the nearest faster than a look at all."""
_BLOCK = 1024


def nearness(model: Any, rows: Any, synthetic: Any) -> Float[np.ndarray, " rows"]:
    """Minus the distance from each row to the nearest synthetic one, on the declared scales.

    Args:
        model: For its declared columns only.
        rows: The rows to attack.
        synthetic: The published rows.
    """
    known = points(model, synthetic)
    if not len(known):
        raise ValueError("there must be at least one synthetic row.")
    return -_distances(points(model, rows), known)


def _distances(rows: np.ndarray, known: np.ndarray) -> Float[np.ndarray, " rows"]:
    """From each row to the nearest that is known."""
    if known.shape[1] <= _FEW:
        from scipy.spatial import KDTree

        return np.asarray(KDTree(known).query(rows)[0], float)
    # among many columns, as images have, a tree looks at everything, and slowly
    lengths = np.sum(known**2, axis=1)
    found = np.empty(len(rows))
    for start in range(0, len(rows), _BLOCK):
        block = rows[start : start + _BLOCK]
        squares = np.sum(block**2, axis=1)[:, None] + lengths - 2 * block @ known.T
        found[start : start + _BLOCK] = np.sqrt(np.maximum(squares.min(axis=1), 0))
    return found
