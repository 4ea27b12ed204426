"""What one record contributes about the parameters, clipped: its gradient and its curvature.

In coordinates u of theta = mean + factor u, the log-likelihood of a record is to second order
g.u - u.Hu / 2. Both g and H are averaged over draws of the guide and then clipped to a length each.
The sum over all records is a vector of known sensitivity, released by a Gaussian mechanism. A guide of
normals needs nothing else: these are its natural gradients.
"""

# JAX and jaxtyping leave types open (trees, loops, new arrays); see [tool.pyright] in pyproject.toml
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportUnknownLambdaType=false

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PyTree

from veilflow.engine.barrier import after_barrier
from veilflow.privacy.guarantees import ClippedSum, Sensitive

LogLikelihood = Callable[[Float[Array, " dim"], Any], Float[Array, ""]]
"""log_likelihood(theta, record) of ONE record, traceable by JAX."""

SENSITIVITY = 2.0**0.5
"""Of the sum of statistics, and of the counts: both parts of a record have a length of at most 1."""

BINS = 160
_LOWEST, _BINS_PER_OCTAVE = -40.0, 2.0
_CHUNK = 512
"""Records that one compiled program processes at once."""
_UNIT = 2.0**-20
"""Shares of records are rounded to multiples of its square, in two steps: numbers of a chunk add up to
less than 2^30 each."""
_INSIDE = 1 - 1e-5
"""Lengths are float32: clipped vectors are slightly shorter than their bound."""


def clipped_statistics(
    log_likelihood: LogLikelihood,
    records: Sensitive[PyTree],
    *,
    draws: Float[np.ndarray, "draws dim"],
    factor: Float[np.ndarray, "dim dim"],
    bounds: tuple[float, float],
) -> ClippedSum:
    """The sum over records of gradient and curvature, each over its bound and no longer than 1.

    Guarantee:
        One record, whatever it holds, moves the sum by at most `SENSITIVITY`: a gradient or curvature
        longer than its bound is clipped to it, and a record with a number that is not finite adds 0.

    Args:
        log_likelihood: The log-likelihood of one record.
        records: Arrays with the record as first axis.
        draws: Parameters at which records are evaluated; means over them are clipped.
        factor: From coordinates to parameters.
        bounds: Of the length of the gradient and of the Frobenius norm of the curvature, in
            coordinates.
    """
    total = over_chunks(_clipped, log_likelihood, records.open(), draws, factor, np.array(bounds))
    return ClippedSum(from_units(total), SENSITIVITY)


def length_counts(
    log_likelihood: LogLikelihood,
    records: Sensitive[PyTree],
    *,
    draws: Float[np.ndarray, "draws dim"],
    factor: Float[np.ndarray, "dim dim"],
) -> ClippedSum:
    """Histograms of the lengths of gradients and of curvatures: two rows of `BINS` counts.

    Guarantee:
        A record adds 1 to one bin of each row, so it moves the counts by `SENSITIVITY`.
    """
    counts = over_chunks(_counted, log_likelihood, records.open(), draws, factor, np.ones(2))
    return ClippedSum(counts.reshape(2, BINS), SENSITIVITY)


def bin_tops() -> Float[np.ndarray, " bins"]:
    """The largest length of each bin."""
    return 2.0 ** (_LOWEST + (1 + np.arange(BINS)) / _BINS_PER_OCTAVE)


def num_statistics(dim: int) -> int:
    """The size of the sum of statistics."""
    return dim + dim * (dim + 1) // 2


def unpacked(
    total: Float[np.ndarray, " numbers"], dim: int, bounds: tuple[float, float]
) -> tuple[Float[np.ndarray, " dim"], Float[np.ndarray, "dim dim"]]:
    """The gradient and the curvature in a released sum, in coordinates."""
    rows, columns = np.triu_indices(dim)
    curvature = np.zeros((dim, dim))
    off = np.where(rows == columns, 1.0, 2.0**-0.5)
    curvature[rows, columns] = total[dim:] * off * bounds[1]
    return total[:dim] * bounds[0], curvature + np.triu(curvature, 1).T


def over_chunks(
    of_chunk: Any, log_likelihood: LogLikelihood, records: PyTree, *public: np.ndarray
) -> Float[np.ndarray, " numbers"]:
    """The sum over all records of whole numbers, which is exact: its order does not matter.

    Args:
        of_chunk: From the likelihood, records, whether each is one or padding, and `public`, to a sum
            of whole numbers.
        log_likelihood: The log-likelihood of one record.
        records: Arrays with the record as first axis.
        public: Declared or released arrays.
    """
    arrays = jax.tree.map(np.asarray, records)
    number, total = len(jax.tree.leaves(arrays)[0]), 0.0
    settings = jax.tree.map(jnp.float32, public)
    for start in range(0, max(number, 1), _CHUNK):  # without records, one empty chunk
        stop = min(start + _CHUNK, number)

        def taken(x: np.ndarray, start: int = start, stop: int = stop) -> np.ndarray:
            padding = [(0, _CHUNK - (stop - start))] + [(0, 0)] * (x.ndim - 1)
            return np.pad(x[start:stop], padding, mode="edge" if number else "constant")

        here = np.arange(_CHUNK) < stop - start
        part = of_chunk(log_likelihood, jax.tree.map(taken, arrays), here, *settings)
        total = total + np.asarray(part, np.float64)
    return np.asarray(total)


def _of_record(
    log_likelihood: LogLikelihood, record: Any, draws: Array, factor: Array
) -> tuple[Float[Array, " dim"], Float[Array, " pairs"]]:
    """Gradient, and curvature as a vector of the same length as the matrix, in coordinates."""

    def moved(u: Array, theta: Array) -> Array:
        return log_likelihood(theta + factor @ u, record)

    zero = jnp.zeros(factor.shape[0], jnp.float32)
    gradient = jnp.mean(jax.vmap(jax.grad(moved), (None, 0))(zero, draws), axis=0)
    curvature = -jnp.mean(jax.vmap(jax.hessian(moved), (None, 0))(zero, draws), axis=0)
    rows, columns = np.triu_indices(factor.shape[0])
    off = jnp.where(jnp.asarray(rows == columns), 1.0, 2.0**0.5)
    return gradient, (curvature + curvature.T)[rows, columns] / 2 * off


@partial(jax.jit, static_argnums=0)
def _clipped(
    log_likelihood: LogLikelihood,
    records: PyTree,
    here: Array,
    draws: Array,
    factor: Array,
    bounds: Array,
) -> Float[Array, " numbers"]:
    said = jax.vmap(lambda record: _of_record(log_likelihood, record, draws, factor))(records)

    def share(*parts: Array) -> Array:
        good = jnp.all(jnp.isfinite(jnp.concatenate(parts)))
        shares = [cut(part, bounds[i]) for i, part in enumerate(parts)]
        return jnp.where(good, jnp.concatenate(shares), 0.0)

    def total(said: tuple[Array, Array], index: Any) -> Array:
        return sum_in_units(jax.vmap(share)(*said), here)

    # lengths must be computed from the same numbers as the vectors that they clip
    return after_barrier(total, said, needed=jnp.any(here))


def sum_in_units(
    shares: Float[Array, "records numbers"], here: Bool[Array, " records"]
) -> Int[Array, " numbers_twice"]:
    """The sum of the records' shares: whole numbers of `_UNIT`, then of its square for what is left.

    A sum of floats would depend on the order of the records, so that one record moved it by more than
    its own length. Each share is a little smaller than its bound, by more than rounding may add.
    """
    scaled = jnp.where(here[:, None], shares, 0.0) / _UNIT
    whole = jnp.round(scaled)
    rest = jnp.round((scaled - whole) / _UNIT)  # exact: a float32 has 24 bits
    return jnp.sum(jnp.concatenate([whole, rest], axis=1).astype(jnp.int32), axis=0)


def from_units(total: Float[np.ndarray, " numbers_twice"]) -> Float[np.ndarray, " numbers"]:
    """The sum of shares from the total of `sum_in_units`."""
    whole, rest = np.split(total, 2)
    return _UNIT * (whole + _UNIT * rest)


def cut(part: Float[Array, " numbers"], bound: Float[Array, ""]) -> Float[Array, " numbers"]:
    """`part / bound`, clipped to a length of 1; a vector that overflows becomes 0."""
    scaled = part / bound
    # divided by the largest entry first, so that squares do not overflow
    largest = jnp.maximum(jnp.max(jnp.abs(scaled)), 1.0)
    unit = scaled / largest
    length = jnp.sqrt(jnp.sum(unit**2)) * largest
    cut = unit * (_INSIDE * largest / jnp.maximum(length, 1.0))
    return jnp.where(jnp.all(jnp.isfinite(cut)), cut, 0.0)


@partial(jax.jit, static_argnums=0)
def _counted(
    log_likelihood: LogLikelihood,
    records: PyTree,
    here: Array,
    draws: Array,
    factor: Array,
    bounds: Array,
) -> Float[Array, " counts"]:
    def places(record: Any) -> Array:
        parts = _of_record(log_likelihood, record, draws, factor)
        return one_hot_lengths(jnp.stack([length_of(part) for part in parts])).ravel()

    counts = jax.vmap(places)(records)
    return jnp.sum(jnp.where(here[:, None], counts, 0.0), axis=0)


def one_hot_lengths(lengths: Float[Array, "*parts"]) -> Float[Array, "*parts bins"]:
    """A 1 in the bin of each length, in the last bin if it is no number."""
    bins = jnp.ceil((jnp.log2(lengths) - _LOWEST) * _BINS_PER_OCTAVE) - 1
    bins = jnp.where(jnp.isnan(bins), BINS - 1, jnp.clip(bins, 0, BINS - 1))
    return jax.nn.one_hot(bins.astype(jnp.int32), BINS)


def length_of(part: Float[Array, " numbers"]) -> Float[Array, ""]:
    """The length of a vector, without overflow."""
    largest = jnp.max(jnp.abs(part))
    safe = jnp.where(largest > 0, largest, 1.0)
    return jnp.where(largest > 0, largest * jnp.sqrt(jnp.sum((part / safe) ** 2)), 0.0)
