"""Rows as they enter a sum: finite, and mapped through bijections that were released before."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from veilflow.flows import AbstractBijection

Rows = Float[np.ndarray, "rows dim"]

_CHUNK = 8192
"""Rows handled at once, by one compiled program."""


def finite(rows: Rows) -> Rows:
    """Each row that holds a number that is not finite, moved to zero: it is inside every domain.

    Files with such rows are refused at the door and maps keep rows finite. The sensitivity of a sum
    must not rest on either: one NaN would take the share of all other rows with it.
    """
    good = np.isfinite(rows).all(axis=1, keepdims=True)
    return np.where(good, rows, np.zeros((), rows.dtype))


def seen_through(bijection: AbstractBijection, rows: Rows) -> Rows:
    """Rows taken back through a released map: a function of each row by itself, so it is free."""
    parts = np.split(rows, range(_CHUNK, len(rows), _CHUNK))
    return np.concatenate([_inverse(bijection, part) for part in parts])


def _inverse(bijection: AbstractBijection, rows: Rows) -> Rows:
    padded = np.zeros((_CHUNK, rows.shape[1]), np.float32)
    padded[: len(rows)] = rows
    return np.asarray(_mapped(bijection, jnp.asarray(padded)))[: len(rows)]


@eqx.filter_jit
def _mapped(
    bijection: AbstractBijection, rows: Float[Array, "rows dim"]
) -> Float[Array, "rows dim"]:
    return jax.vmap(lambda x: bijection.inverse_and_log_det(x)[0])(rows)
