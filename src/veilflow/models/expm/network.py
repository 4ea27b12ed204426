"""Classifiers as pure functions of one flat parameter vector."""

import itertools
import math
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from veilflow._core import check
from veilflow.models.expm.exact_dot import exact_dot


@runtime_checkable
class Network(Protocol):
    """What targets and samplers know of a classifier. Frozen and hashable, to cache programs by."""

    @property
    def dim(self) -> int:
        """How many parameters there are."""
        ...

    @property
    def num_classes(self) -> int:
        """How many classes are told apart."""
        ...

    @property
    def width(self) -> int:
        """Roughly how many numbers one record takes on its way through, for one parameter vector."""
        ...

    @property
    def exact(self) -> bool:
        """Whether the outputs of a record depend on nothing but it and the parameters, to the last bit.

        See `exact_dot`. Where it is False, a guarantee says that float32 sums count as exact.
        """
        ...

    def outputs(self, theta: Float[Array, " dim"], record: Any) -> Float[Array, "*outputs"]:
        """Probabilities for one record: of the second of two classes, or one for each of more."""
        ...

    def to_json(self) -> dict[str, Any]:
        """The sizes as plain JSON values, under a `name`."""
        ...


@dataclass(frozen=True, kw_only=True)
class Logistic:
    """Logistic regression over numbers in [-1, 1]; the last parameter of a class is its intercept."""

    num_features: int
    num_classes: int = 2

    exact = True
    """By `exact_dot`."""

    def __post_init__(self) -> None:
        check.count(num_features=self.num_features)
        check.count(num_classes=self.num_classes, at_least=2)

    @property
    def dim(self) -> int:
        """How many parameters there are."""
        return self._num_outputs * (self.num_features + 1)

    @property
    def width(self) -> int:
        """Numbers per record and parameter vector."""
        return self._num_outputs

    @property
    def _num_outputs(self) -> int:
        return 1 if self.num_classes == 2 else self.num_classes

    def outputs(
        self, theta: Float[Array, " dim"], record: Float[Array, " features"]
    ) -> Float[Array, "*outputs"]:
        """Probabilities for one record."""
        weights = theta.reshape(self._num_outputs, self.num_features + 1)
        return _probabilities(_layer(weights, record))

    def to_json(self) -> dict[str, Any]:
        """The sizes as plain JSON values."""
        return {
            "name": "logistic",
            "num_features": self.num_features,
            "num_classes": self.num_classes,
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "Logistic":
        """The network written by `to_json`."""
        return cls(num_features=data["num_features"], num_classes=data["num_classes"])


@dataclass(frozen=True, kw_only=True)
class Mlp:
    """One or more hidden layers of tanh units over numbers in [-1, 1].

    The weights of a layer are divided by the root of how many numbers it sums, so that a prior of one
    scale suits all parameters.
    """

    num_features: int
    hidden: tuple[int, ...] = (16,)
    num_classes: int = 2

    exact = True
    """By `exact_dot`."""

    def __post_init__(self) -> None:
        check.count(num_features=self.num_features)
        check.count(num_classes=self.num_classes, at_least=2)
        hidden = self.hidden if isinstance(self.hidden, list | tuple) else (self.hidden,)
        if not hidden:
            raise ValueError("hidden must name at least one layer. Without one use Logistic.")
        for units in hidden:
            check.count(hidden=units)
        object.__setattr__(self, "hidden", tuple(int(units) for units in hidden))

    @property
    def _shapes(self) -> list[tuple[int, int]]:
        outputs = 1 if self.num_classes == 2 else self.num_classes
        sizes = (self.num_features, *self.hidden, outputs)
        return [(out, into + 1) for into, out in itertools.pairwise(sizes)]

    @property
    def dim(self) -> int:
        """How many parameters there are."""
        return sum(map(math.prod, self._shapes))

    @property
    def width(self) -> int:
        """Numbers per record and parameter vector."""
        return max(out for out, _ in self._shapes)

    def outputs(
        self, theta: Float[Array, " dim"], record: Float[Array, " features"]
    ) -> Float[Array, "*outputs"]:
        """Probabilities for one record."""
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

    def to_json(self) -> dict[str, Any]:
        """The sizes as plain JSON values."""
        return {
            "name": "mlp",
            "num_features": self.num_features,
            "hidden": list(self.hidden),
            "num_classes": self.num_classes,
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "Mlp":
        """The network written by `to_json`."""
        return cls(
            num_features=data["num_features"],
            hidden=tuple(data["hidden"]),
            num_classes=data["num_classes"],
        )


def from_json(data: dict[str, Any]) -> Network:
    """The network written by `to_json`, of a known name."""
    if data["name"] == "grud":
        from veilflow.models.expm.grud import GruD

        return GruD.from_json(data)
    return {"logistic": Logistic, "mlp": Mlp}[data["name"]].from_json(data)


def _layer(weights: Float[Array, "out into"], values: Float[Array, " before"]) -> Array:
    """One sum for each row of weights, whose last entry is an intercept."""
    with_one = jnp.concatenate([values, jnp.ones(1, values.dtype)])
    return jax.vmap(exact_dot, (0, None))(weights, with_one)


def _probabilities(logits: Float[Array, " outputs"]) -> Array:
    return jax.nn.sigmoid(logits[0]) if logits.shape[0] == 1 else jax.nn.softmax(logits)
