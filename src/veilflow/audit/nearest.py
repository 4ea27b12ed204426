"""Membership inference on a synthetic table: whose nearest synthetic row is too near?

A small distance is a reason to worry; a large one is no evidence of privacy, and nothing here says so.
"""

from typing import Any

import numpy as np
from jaxtyping import Float

from veilflow.audit.coordinates import points


def nearness(model: Any, rows: Any, synthetic: Any) -> Float[np.ndarray, " rows"]:
    """Minus the distance from each row to the nearest synthetic one, on the declared scales.

    Args:
        model: For its declared columns only.
        rows: The rows to attack.
        synthetic: The published rows.
    """
    from scipy.spatial import KDTree

    known = points(model, synthetic)
    if not len(known):
        raise ValueError("there must be at least one synthetic row.")
    distances, _ = KDTree(known).query(points(model, rows))
    return -np.asarray(distances, float)
