"""Classifiers as pure functions of one flat parameter vector."""

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
from veilflow.releases.expm.exact_dot import exact_dot


@dataclass(frozen=True, kw_only=True)
class Network(Tagged, ABC):
    """What targets and samplers know of a classifier: frozen sizes, by which programs are cached.

    Attributes:
        num_features: Numbers in a row, or at each time of a series.
        num_classes: How many classes are told apart.
    """

    exact: ClassVar[bool] = False
    """Whether the outputs of a record depend on nothing but it and the parameters, to the last bit.

    See `exact_dot`. Where it is False, a guarantee says that float32 sums count as exact."""

    num_features: int
    num_classes: int = 2

    def __post_init__(self) -> None:
        convert(self, num_features=count(), num_classes=count(at_least=2))

    @property
    @abstractmethod
    def dim(self) -> int:
        """How many parameters there are."""

    @property
    @abstractmethod
    def width(self) -> int:
        """Roughly how many numbers one record takes on its way through, for one parameter vector."""

    @abstractmethod
    def outputs(self, theta: Float[Array, " dim"], record: Any) -> Float[Array, "*outputs"]:
        """Probabilities for one record: of the second of two classes, or one for each of more."""


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

    The weights of a layer are divided by the root of how many numbers it sums, so that a prior of one
    scale suits all parameters.
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
    """A rule for fields: sizes of one or more hidden layers."""
    sizes = each(count())(name, value if isinstance(value, list | tuple) else (value,))
    if not sizes:
        raise ValueError(f"{name} must name at least one layer. Without one use Logistic.")
    return sizes


def _layer(weights: Float[Array, "out into"], values: Float[Array, " before"]) -> Array:
    """One sum for each row of weights, whose last entry is an intercept."""
    with_one = jnp.concatenate([values, jnp.ones(1, values.dtype)])
    return jax.vmap(exact_dot, (0, None))(weights, with_one)


def _probabilities(logits: Float[Array, " outputs"]) -> Array:
    return jax.nn.sigmoid(logits[0]) if logits.shape[0] == 1 else jax.nn.softmax(logits)
