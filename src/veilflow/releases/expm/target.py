"""The exponential mechanism as a density over parameters, with exact sums of losses.

    p(theta) ~ prior(theta) exp(-epsilon * sum of losses / (factor * sensitivity))

A loss is never negative, so one more record can only lower the utility of every theta: the utility is
monotone, and for adding or removing a record the factor is 1. For replacing one it is 2.

Exact samplers use `Target.losses`, whose sums are integers. Integers have no gradient, so the flow and
the Hamiltonian chain use `log_weights`, the same sums in floating point. Their guarantee is conditional
anyway: that the two differ by rounding is part of its assumption.
"""

# JAX and jaxtyping leave types open (trees, loops, new arrays); see [tool.pyright] in pyproject.toml
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportUnknownLambdaType=false

import functools
import math
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from veilflow._core.fields import convert, count, positive
from veilflow.privacy.unit import Adjacency
from veilflow.releases.expm.loss import BoundedLoss, in_units
from veilflow.releases.expm.network import Network
from veilflow.releases.expm.prior import Prior

Records = tuple[Any, Any]
"""Inputs, an array or a tree of arrays with a leading axis, and the class index of each record."""

BITS = 16
"""Losses are rounded to multiples of 2^-16."""
_NUM_RECORDS = 1024
"""Records in a chunk: sums of a chunk fit into 32 bits, and no shape depends on their number."""
_NUM_NUMBERS = 2**21
"""The most numbers in one chunk of records and parameter vectors."""
_NUMBERS = 2**26
"""Numbers that a backward pass may store at a time: 256 MiB of float32."""


@dataclass(frozen=True, kw_only=True)
class Target:
    """The density from which samplers draw, given records.

    Attributes:
        network: From parameters and a record to probabilities.
        loss: The loss of one record.
        prior: The public prior, which is not scaled by epsilon.
        epsilon: The epsilon of one draw.
        factor: 1 for adding or removing a record, 2 for replacing one.
    """

    network: Network
    loss: BoundedLoss
    prior: Prior
    epsilon: float
    factor: int = 1

    def __post_init__(self) -> None:
        convert(self, epsilon=positive, factor=count())
        if self.factor > 2:
            raise ValueError(f"factor must be 1 or 2, got {self.factor}.")
        if self.loss.num_classes != self.network.num_classes:
            raise ValueError(
                f"the loss has {self.loss.num_classes} classes and the network "
                f"{self.network.num_classes}. Give both the same number."
            )

    @property
    def dim(self) -> int:
        """Number of parameters."""
        return self.network.dim

    @property
    def adjacency(self) -> Adjacency:
        """The neighboring relation to which `factor` belongs."""
        return Adjacency.ADD_REMOVE if self.factor == 1 else Adjacency.REPLACE_ONE

    @property
    def rate(self) -> float:
        """Nats per unit of loss: epsilon / (factor * sensitivity)."""
        return self.epsilon / (self.factor * self.loss.sensitivity)

    def loss_sum(self, theta: Float[Array, " dim"], records: Records) -> Float[Array, ""]:
        """The sum of the losses of all records: differentiable, but not exact."""
        inputs, labels = records
        each = jax.vmap(lambda record, label: self.loss(self.network.outputs(theta, record), label))
        return jnp.sum(each(inputs, labels))

    def log_weight(self, theta: Float[Array, " dim"], records: Records) -> Float[Array, ""]:
        """Log density over the prior, up to a constant: at most 0."""
        return -self.rate * self.loss_sum(theta, records)

    def log_density(self, theta: Float[Array, " dim"], records: Records) -> Float[Array, ""]:
        """Log density, up to a constant."""
        return self.log_weight(theta, records) + self.prior.log_prob(theta)

    def losses(
        self, thetas: Float[np.ndarray, "num dim"], records: Records
    ) -> Float[np.ndarray, " num"]:
        """Exact sums of the losses of all records, for many parameter vectors at once.

        Each loss is rounded to a multiple of 2^-16 between 0 and the sensitivity, where NaN counts as
        the sensitivity, and the rounded losses are added as integers. So the order of records does not
        matter, and an additional record raises every sum by 0 to `sensitivity`, exactly, as floats too.

        One assumption remains: the compiled program rounds sigmoid, tanh and logarithm of a number in
        the same way at every position of an array. Shapes are the same for all records.

        Returns:
            Multiples of 2^-16, as float64.
        """
        return np.ldexp(self.whole_losses(thetas, records).astype(np.float64), -BITS)

    def whole_losses(
        self, thetas: Float[np.ndarray, "num dim"], records: Records
    ) -> Int[np.ndarray, " num"]:
        """The same in units of 2^-16, as int64."""
        thetas = np.asarray(thetas, np.float32)
        chunks = [_padded(records, start) for start in range(0, len(records[1]), _NUM_RECORDS)]
        size = self._num_together(len(thetas))
        sums = np.zeros(len(thetas), np.int64)
        for start in range(0, len(thetas), size):
            part = thetas[start : start + size]
            filled = np.zeros((size, self.dim), np.float32)
            filled[: len(part)] = part
            on_device = jnp.asarray(filled)
            # all are started before the first is read: the device never waits for the host
            parts = [_chunk_sums(self.network, self.loss, on_device, *chunk) for chunk in chunks]
            for each in parts:
                sums[start : start + size] += np.asarray(each, np.int64)[: len(part)]
        return sums

    def _num_together(self, num_thetas: int) -> int:
        """Parameter vectors in a chunk: a multiple of 8, if memory allows."""
        most = max(1, _NUM_NUMBERS // (_NUM_RECORDS * max(1, self.network.width)))
        return min(most, -8 * (-num_thetas // 8))


def _padded(records: Records, start: int) -> tuple[Any, Array, Array]:
    """A chunk of records from `start`, padded with zeros, and a mask of its records."""

    def take(array: Any) -> Array:
        array = np.asarray(array)[start : start + _NUM_RECORDS]
        if len(array) == _NUM_RECORDS:
            return jnp.asarray(array)
        filled = np.zeros((_NUM_RECORDS, *array.shape[1:]), array.dtype)
        filled[: len(array)] = array
        return jnp.asarray(filled)

    inputs, labels = records
    inside = np.arange(start, start + _NUM_RECORDS) < len(labels)
    return jax.tree.map(take, inputs), take(labels), jnp.asarray(inside)


@functools.partial(jax.jit, static_argnums=(0, 1))
def _chunk_sums(
    network: Network,
    loss: BoundedLoss,
    thetas: Float[Array, "num dim"],
    inputs: Any,
    labels: Int[Array, " records"],
    inside: Array,
) -> Int[Array, " num"]:
    largest = in_units(loss.sensitivity, bits=BITS)

    def units(theta: Array, record: Any, label: Array) -> Array:
        scaled = loss(network.outputs(theta, record), label) * 2.0**BITS
        # clipped before the conversion to an integer, which would wrap around
        return jnp.round(jnp.clip(jnp.where(jnp.isnan(scaled), largest, scaled), 0, largest))

    each = jax.vmap(jax.vmap(units, (None, 0, 0)), (0, None, None))(thetas, inputs, labels)
    # `largest` is exact in float32: an integer of at most 2^20
    return jnp.sum(jnp.where(inside, each.astype(jnp.int32), 0), axis=1, dtype=jnp.int32)


def log_weights(
    target: Target, thetas: Float[Array, "samples dim"], records: PyTree
) -> Float[Array, " samples"]:
    """`target.log_weight` of every parameter vector, over chunks of the records.

    Intermediate values of a chunk are recomputed for the gradient, so memory does not grow with the
    number of records.
    """
    num = num_records(records)
    if num == 0:  # a neighbor of a data set of one record
        return jnp.zeros(thetas.shape[0], thetas.dtype)
    size = _chunk(target, thetas, records)
    each = jax.checkpoint(jax.vmap(target.log_weight, in_axes=(0, None)))
    full = num // size
    blocks = jax.tree.map(
        lambda leaf: leaf[: full * size].reshape(full, size, *leaf.shape[1:]), records
    )

    def add(total: Array, block: PyTree) -> tuple[Array, None]:
        return total + each(thetas, block), None

    total, _ = jax.lax.scan(add, jnp.zeros(thetas.shape[0], thetas.dtype), blocks)
    if num % size:
        total = total + each(thetas, jax.tree.map(lambda leaf: leaf[full * size :], records))
    return total


def log_densities(
    target: Target, thetas: Float[Array, "samples dim"], records: PyTree
) -> Float[Array, " samples"]:
    """Unnormalized log density of every parameter vector."""
    return log_weights(target, thetas, records) + jax.vmap(target.prior.log_prob)(thetas)


def on_device(records: PyTree) -> PyTree:
    """The records on the device, with 0 for NaN: one NaN would make every gradient NaN.

    In exact sums a record with NaN has the largest loss. Here it has the loss of another input.
    """

    def clean(leaf: Any) -> Array:
        array = jnp.asarray(leaf)
        return jnp.nan_to_num(array) if jnp.issubdtype(array.dtype, jnp.inexact) else array

    return jax.tree.map(clean, records)


def num_records(records: PyTree) -> int:
    """The number of records. It is sensitive and must not leave the sampler."""
    return jax.tree.leaves(records)[0].shape[0]


def _chunk(target: Target, thetas: Array, records: PyTree) -> int:
    """Records whose backward pass, for all parameter vectors, stores `_NUMBERS` numbers."""

    def remembered(theta: Array, record: PyTree) -> Any:
        return jax.vjp(lambda theta: target.log_weight(theta, record), theta)[1]

    one = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((1, *leaf.shape[1:]), leaf.dtype), records)
    theta = jax.ShapeDtypeStruct(thetas.shape[1:], thetas.dtype)
    leaves = jax.tree.leaves(jax.eval_shape(remembered, theta, one))
    numbers = sum(math.prod(leaf.shape) for leaf in leaves)
    size = _NUMBERS // max(1, numbers * thetas.shape[0])
    return min(max(1, size), num_records(records))
