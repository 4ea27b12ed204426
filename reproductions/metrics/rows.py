"""Rows as the measures need them: two-dimensional, finite, of one width."""

from typing import Any

import numpy as np
from jaxtyping import Float

Rows = Float[np.ndarray, "rows dim"]


def tables(*, min_columns: int = 1, **named: Any) -> tuple[Rows, ...]:
    """The named arrays in double precision, checked to be tables of equally many columns.

    Raises:
        ValueError: The message names the argument and shows shapes only, never a cell.
    """
    found = {name: np.asarray(rows, np.float64) for name, rows in named.items()}
    for name, rows in found.items():
        if rows.ndim != 2 or 0 in rows.shape or rows.shape[1] < min_columns:
            raise ValueError(
                f"{name} must be a table of at least one row and {min_columns} column(s), got an "
                f"array of shape {rows.shape}."
            )
        if not np.isfinite(rows).all():
            raise ValueError(f"{name} must hold finite numbers only.")
    widths = {name: rows.shape[1] for name, rows in found.items()}
    if len(set(widths.values())) > 1:
        shown = ", ".join(f"{name} has {width}" for name, width in widths.items())
        raise ValueError(f"all sets of rows must have the same columns: {shown}.")
    return tuple(found.values())
