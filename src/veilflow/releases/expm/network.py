"""Classifiers as pure functions of one flat parameter vector, with sums that do not depend on order.

A matrix product in floating point rounds, and how it rounds depends on the position of a row in the
matrix. A new record moves the rows behind it, and could change the losses of all of them in the last
bit; no bound on the record's own loss covers that. `exact_dot` first rounds both factors to grids, so
coarse that no partial sum has more than 24 bits. Then float32 adds without rounding, and the output
for a record depends on that record and on the parameters alone.
"""

# JAX and jaxtyping leave types open (trees, loops, new arrays); see [tool.pyright] in pyproject.toml
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportUnknownLambdaType=false

import itertools
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from veilflow._core.codec import Tagged
from veilflow._core.fields import convert, count, each

VALUE_BITS = 11
"""Values in [-1, 1] are rounded to multiples of 2^-11."""
_WEIGHT_BITS = 13
"""The absolute weights of a block sum to at most 2^13 units of the block."""
_BLOCK = 256
"""Weights that share a unit. Longer vectors are divided into blocks, which are added in order."""


@dataclass(frozen=True, kw_only=True)
class Network(Tagged, ABC):
    """The interface of a classifier: frozen sizes, which also identify compiled programs.

    Attributes:
        num_features: Number of features of a row, or of each time step of a series.
        num_classes: Number of classes.
    """

    exact: ClassVar[bool] = False
    """Whether the outputs for a record depend only on it and the parameters, to the last bit.

    See `exact_dot`. If it is False, the guarantee assumes that float32 sums are exact."""

    num_features: int
    num_classes: int = 2

    def __post_init__(self) -> None:
        convert(self, num_features=count(), num_classes=count(at_least=2))

    @property
    @abstractmethod
    def dim(self) -> int:
        """Number of parameters."""

    @property
    @abstractmethod
    def width(self) -> int:
        """Approximate number of intermediate values for one record and one parameter vector."""

    @abstractmethod
    def outputs(self, theta: Float[Array, " dim"], record: Any) -> Float[Array, "*outputs"]:
        """Probabilities for one record: of the second of two classes, or of each of more classes."""


@dataclass(frozen=True, kw_only=True)
class Logistic(Network):
    """Logistic regression over numbers in [-1, 1]; the last parameter of a class is its intercept."""

    exact: ClassVar[bool] = True
    """By `exact_dot`."""

    @property
    def dim(self) -> int:
        return self._num_outputs * (self.num_features + 1)

    @property
    def width(self) -> int:
        return self._num_outputs

    @property
    def _num_outputs(self) -> int:
        return 1 if self.num_classes == 2 else self.num_classes

    def outputs(
        self, theta: Float[Array, " dim"], record: Float[Array, " features"]
    ) -> Float[Array, "*outputs"]:
        weights = theta.reshape(self._num_outputs, self.num_features + 1)
        return _probabilities(_layer(weights, record))


@dataclass(frozen=True, kw_only=True)
class Mlp(Network):
    """One or more hidden layers of tanh units over numbers in [-1, 1].

    The weights of a layer are divided by the square root of its width, so that a prior with one scale
    suits all parameters.
    """

    exact: ClassVar[bool] = True
    """By `exact_dot`."""

    hidden: tuple[int, ...] = (16,)

    def __post_init__(self) -> None:
        super().__post_init__()
        convert(self, hidden=_layers)

    @property
    def _shapes(self) -> list[tuple[int, int]]:
        outputs = 1 if self.num_classes == 2 else self.num_classes
        sizes = (self.num_features, *self.hidden, outputs)
        return [(out, into + 1) for into, out in itertools.pairwise(sizes)]

    @property
    def dim(self) -> int:
        return sum(map(math.prod, self._shapes))

    @property
    def width(self) -> int:
        return max(out for out, _ in self._shapes)

    def outputs(
        self, theta: Float[Array, " dim"], record: Float[Array, " features"]
    ) -> Float[Array, "*outputs"]:
        shapes = self._shapes
        ends = np.cumsum([math.prod(shape) for shape in shapes])[:-1]
        *first, last = (
            part.reshape(shape) / math.sqrt(shape[1])
            for part, shape in zip(jnp.split(theta, ends), shapes, strict=True)
        )
        values = record
        for weights in first:
            values = jnp.tanh(_layer(weights, values))
        return _probabilities(_layer(last, values))


def _layers(name: str, value: Any) -> tuple[int, ...]:
    """A rule for fields: the sizes of one or more hidden layers."""
    sizes = each(count())(name, value if isinstance(value, list | tuple) else (value,))
    if not sizes:
        raise ValueError(
            f"{name} must have at least one layer. Use Logistic for a model without hidden layers."
        )
    return sizes


def _layer(weights: Float[Array, "out into"], values: Float[Array, " before"]) -> Array:
    """One sum for each row of weights; the last weight of a row is its intercept."""
    with_one = jnp.concatenate([values, jnp.ones(1, values.dtype)])
    return jax.vmap(exact_dot, (0, None))(weights, with_one)


def _probabilities(logits: Float[Array, " outputs"]) -> Array:
    return jax.nn.sigmoid(logits[0]) if logits.shape[0] == 1 else jax.nn.softmax(logits)


def exact_dot(weights: Float[Array, " width"], values: Float[Array, " width"]) -> Float[Array, ""]:
    """The dot product of `weights` and `values`, both rounded; derivatives ignore the rounding.

    Args:
        weights: Any finite numbers.
        values: Numbers, which are clamped to [-1, 1]. NaN makes the result NaN.
    """
    values = _rounded(jnp.clip(values, -1.0, 1.0), jnp.asarray(2.0**-VALUE_BITS, values.dtype))
    total = None
    for start in range(0, weights.shape[0], _BLOCK):
        block = weights[start : start + _BLOCK]
        block = _rounded(block, _unit(block))
        part = jnp.dot(block, values[start : start + _BLOCK], precision=jax.lax.Precision.HIGHEST)
        # the sum of two numbers is rounded in one way only
        total = part if total is None else total + part
    assert total is not None
    return total


def _unit(block: Float[Array, " block"]) -> Float[Array, ""]:
    """A power of two such that the block, rounded to it, has an absolute sum of at most 2^13 units.

    The sum is increased by 1/32, for the half unit that rounding may add to each weight and for its
    own rounding error: 2^13 * 32/33 + 256/2 < 2^13.
    """
    norm = jax.lax.stop_gradient(jnp.sum(jnp.abs(block))) * (1 + 2.0**-5)
    exponent = jnp.frexp(norm)[1]
    return jnp.ldexp(jnp.ones((), block.dtype), exponent - _WEIGHT_BITS)


@jax.custom_jvp
def _rounded(numbers: Float[Array, "*shape"], unit: Float[Array, ""]) -> Float[Array, "*shape"]:
    """The nearest multiples of `unit`, a power of two, so that dividing by it is exact."""
    return jnp.round(numbers / unit) * unit


@_rounded.defjvp
def _(primals: tuple[Array, Array], tangents: tuple[Array, Array]) -> tuple[Array, Array]:
    # the derivative of a step function is zero, so that of the identity is used instead
    return _rounded(*primals), tangents[0]
