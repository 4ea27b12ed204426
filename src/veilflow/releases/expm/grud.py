"""GRU-D: a recurrent network for series with missing values, as a function of one parameter vector."""

# JAX and jaxtyping leave types open (trees, loops, new arrays); see [tool.pyright] in pyproject.toml
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportUnknownLambdaType=false

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from veilflow._core.fields import convert, count
from veilflow.releases.expm.network import Network


class Series(NamedTuple):
    """One record: values, which of them were measured, and when; or many, with a leading axis."""

    values: Float[Array | np.ndarray, "*records time features"]
    """Scaled by public constants, so that 0 is a normal value."""
    mask: Float[Array | np.ndarray, "*records time features"]
    """1 where a value was measured, 0 where it is missing. Missing `values` are never read."""
    since: Float[Array | np.ndarray, "*records time features"]
    """Time since the same feature was last measured in the same record, or since the beginning."""


class _Weights(NamedTuple):
    """The parameter vector, unpacked."""

    into_gates: Array
    """From filled values and mask to update, reset and candidate."""
    back_to_gates: Array
    """From the state to update and reset."""
    back_to_candidate: Array
    gate_bias: Array
    value_decay: Array
    value_decay_bias: Array
    state_decay: Array
    state_decay_bias: Array
    readout: Array
    readout_bias: Array


@dataclass(frozen=True, kw_only=True)
class GruD(Network):
    """A gated recurrent unit that takes missing values into account.

    While a feature is missing, it decays from its last value to 0, the public constant of normal
    values; the state decays, too. With mask `m`, time since measurement `d` and last value `x`:

        x^ = m x + (1 - m) exp(-max(0, w d + b)) x
        h  = exp(-max(0, W d + c)) h
        z, r = sigmoid(U [x^, m] + V h + b),  h~ = tanh(U [x^, m] + V (r h) + b)
        h  = (1 - z) h + z h~

    and the output is sigmoid(v.h + b) of the last state. Every matrix is divided by the square root of
    its width, so that a prior with one scale suits all parameters. There is no dropout: the loss of a
    record must be a function of the parameters alone.

    References:
        Che, Purushotham, Cho, Sontag, Liu, "Recurrent neural networks for multivariate time series
        with missing values", 2018.
    """

    hidden: int = 32

    def __post_init__(self) -> None:
        super().__post_init__()
        convert(self, hidden=count())
        if self.num_classes != 2:
            raise ValueError(f"GRU-D has two classes, got num_classes={self.num_classes}.")

    @property
    def dim(self) -> int:
        return sum(math.prod(shape) for shape in self._shapes())

    @property
    def width(self) -> int:
        return 6 * (self.hidden + self.num_features)

    def outputs(self, theta: Float[Array, " dim"], record: Series) -> Float[Array, ""]:
        """The probability of class 1, for one record."""
        values, mask, since = (jnp.asarray(part) for part in record)
        weights = self._unpack(theta)
        last = carried(values, mask)

        def hour(
            state: Float[Array, " hidden"], now: tuple[Array, Array, Array]
        ) -> tuple[Array, None]:
            return _step(weights, state, *now), None

        state, _ = jax.lax.scan(hour, jnp.zeros(self.hidden, theta.dtype), (last, mask, since))
        return jax.nn.sigmoid(weights.readout @ state + weights.readout_bias)

    def _shapes(self) -> _Weights:
        hidden, features = self.hidden, self.num_features
        shapes: Any = (
            (3 * hidden, 2 * features),
            (2 * hidden, hidden),
            (hidden, hidden),
            (3 * hidden,),
            (features,),
            (features,),
            (hidden, features),
            (hidden,),
            (1, hidden),
            (),
        )
        return _Weights(*shapes)

    def _unpack(self, theta: Float[Array, " dim"]) -> _Weights:
        shapes = self._shapes()
        ends = np.cumsum([math.prod(shape) for shape in shapes])
        parts = jnp.split(theta, ends[:-1])
        # matrices are divided by the square root of their width, vectors are not
        pairs = zip(parts, shapes, strict=True)
        scaled = (
            part.reshape(shape) / (math.sqrt(shape[1]) if len(shape) == 2 else 1.0)
            for part, shape in pairs
        )
        weights = _Weights(*scaled)
        return weights._replace(readout=weights.readout[0])


def carried(
    values: Float[Array, "time features"], mask: Float[Array, "time features"]
) -> Float[Array, "time features"]:
    """The last measured value of each feature, 0 before the first. It uses no parameters."""

    def hour(last: Array, now: tuple[Array, Array]) -> tuple[Array, Array]:
        value, measured = now
        last = jnp.where(measured > 0, value, last)
        return last, last

    return jax.lax.scan(hour, jnp.zeros_like(values[0]), (values, mask))[1]


def _step(
    weights: _Weights,
    state: Float[Array, " hidden"],
    last: Float[Array, " features"],
    mask: Float[Array, " features"],
    since: Float[Array, " features"],
) -> Float[Array, " hidden"]:
    """The state an hour later."""
    fade = jnp.exp(-jax.nn.relu(weights.value_decay * since + weights.value_decay_bias))
    filled = jnp.where(mask > 0, last, fade * last)
    state = state * jnp.exp(-jax.nn.relu(weights.state_decay @ since + weights.state_decay_bias))
    hidden = state.shape[0]
    driven = weights.into_gates @ jnp.concatenate([filled, mask]) + weights.gate_bias
    gates = jax.nn.sigmoid(driven[: 2 * hidden] + weights.back_to_gates @ state)
    update, reset = gates[:hidden], gates[hidden:]
    candidate = jnp.tanh(driven[2 * hidden :] + weights.back_to_candidate @ (reset * state))
    return (1 - update) * state + update * candidate
