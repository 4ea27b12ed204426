"""Rows as they enter a sum: finite, mapped through released bijections, and their second moments."""

# JAX and jaxtyping leave types open (trees, loops, new arrays); see [tool.pyright] in pyproject.toml
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportUnknownLambdaType=false

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from veilflow.flows import AbstractBijection

Rows = Float[np.ndarray, "rows dim"]

_CHUNK = 8192
"""Rows that one compiled program processes at once."""


def finite(rows: Rows) -> Rows:
    """The rows, with zeros in place of each row that is not finite: zero is inside every domain.

    Files with such rows are refused when they are read, and bijections keep rows finite. The
    sensitivity of a sum must not rest on either: one NaN would cancel the share of all other rows.
    """
    good = np.isfinite(rows).all(axis=1, keepdims=True)
    return np.where(good, rows, np.zeros((), rows.dtype))


def seen_through(bijection: AbstractBijection, rows: Rows) -> Rows:
    """The rows in the base coordinates of a released bijection: a function of each row by itself."""
    parts = np.split(rows, range(_CHUNK, len(rows), _CHUNK))
    return np.concatenate([_inverse(bijection, part) for part in parts])


def upper_triangle(matrices: Float[np.ndarray, "*batch n n"]) -> Float[np.ndarray, "*batch pairs"]:
    """The upper triangle, times sqrt(2) off the diagonal: a vector with the norm of the matrix."""
    rows, columns = np.triu_indices(matrices.shape[-1])
    return matrices[..., rows, columns] * np.where(rows == columns, 1.0, 2.0**0.5)


def from_upper_triangle(
    triangles: Float[np.ndarray, "*batch pairs"], size: int
) -> Float[np.ndarray, "*batch n n"]:
    """The symmetric matrices of which `upper_triangle` gives these vectors."""
    rows, columns = np.triu_indices(size)
    matrices = np.empty((*triangles.shape[:-1], size, size))
    matrices[..., rows, columns] = triangles / np.where(rows == columns, 1.0, 2.0**0.5)
    matrices[..., columns, rows] = matrices[..., rows, columns]
    return matrices


def _inverse(bijection: AbstractBijection, rows: Rows) -> Rows:
    padded = np.zeros((_CHUNK, rows.shape[1]), np.float32)
    padded[: len(rows)] = rows
    return np.asarray(_mapped(bijection, jnp.asarray(padded)))[: len(rows)]


@eqx.filter_jit
def _mapped(
    bijection: AbstractBijection, rows: Float[Array, "rows dim"]
) -> Float[Array, "rows dim"]:
    return jax.vmap(lambda x: bijection.inverse_and_log_det(x)[0])(rows)
