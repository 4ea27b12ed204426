"""GRU-D as a module: layers are used once an hour, and clipped over all hours of a record."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from veilflow.models.expm.grud import GruD, Series, carried
from veilflow.nn.dense import Dense
from veilflow.nn.reused import Reused


class Cell(eqx.Module):
    """One hour."""

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

    @classmethod
    def create(cls, network: GruD, *, hours: int, key: Key[Array, ""]) -> "TrainableGruD":
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
        return cls(Reused(cell, uses=hours), Dense.create(hidden, 1, key=readout))

    def logits(self, record: Series) -> Float[Array, "1"]:
        """Of one record, after its last hour."""
        values, mask, since = (jnp.asarray(part) for part in record)
        hours = (carried(values, mask), mask, since)

        def hour(cell: Cell, state: Array, now: tuple[Array, Array, Array]) -> tuple[Array, None]:
            return cell(state, *now), None

        state, _ = self.cell.scan(hour, jnp.zeros(self.readout.weight.shape[1]), hours)
        return self.readout(state)

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
