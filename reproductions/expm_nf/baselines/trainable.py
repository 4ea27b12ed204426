"""Networks of `vf.expm` as modules that gradients are taken of.

There a network is a function of one flat vector, which suits samplers. Steps of gradients want layers
that know their own clipped sums (`veilflow.nn`). Both compute the same function, and `theta` goes from
the layers back to the vector.
"""

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

import veilflow as vf
from veilflow.nn import Dense, Reused


def trainable_of(
    network: Any, inputs: Any, *, key: Key[Array, ""], dropout: float = 0.0
) -> "Linear | TrainableGruD":
    """A fresh module of a network for two classes.

    Args:
        network: The network of the classifier.
        inputs: Inputs of all records; only the number of hours of a series is read.
        key: For random weights.
        dropout: The share of a series's last state that is left out in training.

    Raises:
        TypeError: Nobody has said how to train it.
    """
    if isinstance(network, vf.expm.GruD):
        return TrainableGruD.create(network, hours=inputs[0].shape[1], key=key, dropout=dropout)
    if dropout:
        raise TypeError("dropout is for networks with a hidden state.")
    if isinstance(network, vf.expm.Logistic):
        return Linear(Dense(weight=jnp.zeros((1, network.num_features)), bias=jnp.zeros(1)))
    raise TypeError(f"a {type(network).__name__} cannot be trained by gradients here.")


def bce(model: Any, record: tuple[Any, Array], key: Any = None) -> Float[Array, ""]:
    """The cross-entropy of one record."""
    inputs, label = record
    return bce_of(model.logit(inputs, key), label)


def l2(model: Any, record: tuple[Any, Array], key: Any = None) -> Float[Array, ""]:
    """The squared error of the probabilities of one record: the exponential mechanism's loss."""
    inputs, label = record
    return l2_of(model.logit(inputs, key), label)


def bce_of(logit: Float[Array, ""], label: Any) -> Float[Array, ""]:
    """The cross-entropy at given log odds."""
    return jax.nn.softplus(jnp.where(label == 1, -logit, logit))


def l2_of(logit: Float[Array, ""], label: Any) -> Float[Array, ""]:
    """The squared error at given log odds."""
    return vf.expm.BoundedLoss("l2")(jax.nn.sigmoid(logit), label)


LOSS_FNS = {"bce": bce, "l2": l2}
LOSSES_OF_LOGITS = {"bce": bce_of, "l2": l2_of}


class Linear(eqx.Module):
    """Logistic regression."""

    layer: Dense

    def logit(self, record: Float[Array, " features"], key: Any = None) -> Float[Array, ""]:
        """Log odds of the second class."""
        return self.layer(record)[0]

    def theta(self) -> Float[np.ndarray, " dim"]:
        """The weights, the intercept behind them."""
        assert self.layer.bias is not None
        return np.concatenate([np.asarray(self.layer.weight)[0], np.asarray(self.layer.bias)])


class Cell(eqx.Module):
    """One hour of GRU-D: its layers are used once an hour, and clipped over all hours of a record."""

    drive: Dense
    """From filled values and mask to update, reset and candidate."""
    gates: Dense
    """From the state to update and reset."""
    candidate: Dense
    fade: Dense
    """From times since to the decay of the state."""
    value_decay: Float[Array, " features"]
    value_decay_bias: Float[Array, " features"]

    def __call__(self, state: Array, last: Array, mask: Array, since: Array) -> Array:
        kept = jnp.exp(-jax.nn.relu(self.value_decay * since + self.value_decay_bias))
        filled = jnp.where(mask > 0, last, kept * last)
        state = state * jnp.exp(-jax.nn.relu(self.fade(since)))
        hidden = state.shape[0]
        driven = self.drive(jnp.concatenate([filled, mask]))
        gates = jax.nn.sigmoid(driven[: 2 * hidden] + self.gates(state))
        update, reset = gates[:hidden], gates[hidden:]
        candidate = jnp.tanh(driven[2 * hidden :] + self.candidate(reset * state))
        return (1 - update) * state + update * candidate


class TrainableGruD(eqx.Module):
    """The whole network."""

    cell: Reused[Cell]
    readout: Dense
    dropout: float = eqx.field(static=True, default=0.0)

    @classmethod
    def create(
        cls, network: Any, *, hours: int, key: Key[Array, ""], dropout: float = 0.0
    ) -> "TrainableGruD":
        """A fresh one for series of so many hours, in which nothing decays yet."""
        features, hidden = network.num_features, network.hidden
        drive, gates, candidate, fade, readout = jax.random.split(key, 5)
        cell = Cell(
            drive=Dense.create(2 * features, 3 * hidden, key=drive),
            gates=Dense.create(hidden, 2 * hidden, key=gates, bias=False),
            candidate=Dense.create(hidden, hidden, key=candidate, bias=False),
            fade=Dense.create(features, hidden, key=fade),
            value_decay=jnp.zeros(features),
            value_decay_bias=jnp.zeros(features),
        )
        return cls(Reused(cell, uses=hours), Dense.create(hidden, 1, key=readout), dropout)

    def logit(self, record: tuple[Any, Any, Any], key: Any = None) -> Float[Array, ""]:
        """Log odds of the second class, after the last hour; with a key, after dropout."""
        return self.read(self.state(record), key)

    def read(self, state: Float[Array, " hidden"], key: Any = None) -> Float[Array, ""]:
        """Log odds from the last state."""
        if self.dropout and key is not None:
            kept = jax.random.bernoulli(key, 1 - self.dropout, state.shape)
            state = jnp.where(kept, state / (1 - self.dropout), 0.0)
        return self.readout(state)[0]

    def state(self, record: tuple[Any, Any, Any]) -> Float[Array, " hidden"]:
        """The state after the last hour."""
        values, mask, since = (jnp.asarray(part) for part in record)
        hours = (_carried(values, mask), mask, since)

        def hour(cell: Cell, state: Array, now: tuple[Array, Array, Array]) -> tuple[Array, None]:
            return cell(state, *now), None

        state, _ = self.cell.scan(hour, jnp.zeros(self.readout.weight.shape[1]), hours)
        return state

    def normalized(
        self, mean: Float[Array, " hidden"], deviation: Float[Array, " hidden"]
    ) -> "TrainableGruD":
        """The network that reads (state - mean) / deviation, as one that reads the state."""
        weight = self.readout.weight / deviation[None]
        bias = self.readout.bias - weight @ mean
        return eqx.tree_at(lambda m: (m.readout.weight, m.readout.bias), self, (weight, bias))

    def theta(self) -> Float[np.ndarray, " dim"]:
        """The parameters in the order of `GruD`, matrices times the root of their width."""
        cell, readout = self.cell.module, self.readout
        assert cell.drive.bias is not None
        assert cell.fade.bias is not None
        assert readout.bias is not None
        parts = (
            cell.drive.weight,
            cell.gates.weight,
            cell.candidate.weight,
            cell.drive.bias,
            cell.value_decay,
            cell.value_decay_bias,
            cell.fade.weight,
            cell.fade.bias,
            readout.weight,
            readout.bias,
        )
        scaled = (part * (math.sqrt(part.shape[1]) if part.ndim == 2 else 1.0) for part in parts)
        return np.concatenate([np.asarray(part).ravel() for part in scaled])


def _carried(
    values: Float[Array, "time features"], mask: Float[Array, "time features"]
) -> Float[Array, "time features"]:
    """Each feature's last measured value, 0 before the first."""
    hours = jnp.arange(len(mask))[:, None]
    last = jax.lax.cummax(jnp.where(mask > 0, hours, -1))
    return jnp.where(last >= 0, jnp.take_along_axis(values, jnp.maximum(last, 0), axis=0), 0.0)
