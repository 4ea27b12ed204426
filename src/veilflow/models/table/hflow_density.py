"""The paper's flow as a density of rows: dequantized codes and ranks, splines and linear maps."""

import math
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from veilflow.flows.hflow import HFlow
from veilflow.flows.variables import BELOW_ONE, Row
from veilflow.models.table.architecture import HFlowArchitecture
from veilflow.models.table.coder import Coder
from veilflow.models.table.density import AbstractTableDensity, Loss
from veilflow.models.table.ranks import Ranks, Spans
from veilflow.nn.frozen import trainable_part
from veilflow.tabular.codec import EncodedRows

_CHUNK = 4096
_DRAWS = 64
"""Draws of noise for the score of one row."""
_AT_ONCE = 128
"""Rows scored at once, each with all of its draws."""


def _loss(flow: HFlow, record: Spans, key: Key[Array, ""]) -> Array:
    """The bound of one record at one draw of its ranks and of the noise on its codes."""
    rank_key, noise_key = jax.random.split(key)
    share = jax.random.uniform(rank_key, record.low.shape)
    ranks = jnp.minimum(record.low + share * (record.high - record.low), BELOW_ONE)
    return flow.private_loss(record.codes, ranks, noise_key)


def _public_loss(flow: HFlow) -> Array:
    return flow.public_loss()


@dataclass(frozen=True)
class HFlowDensity(AbstractTableDensity):
    """An `HFlow` over the ranks of a coder."""

    flow: HFlow

    kind = "hflow"
    public_loss = staticmethod(_public_loss)

    @property
    def loss(self) -> Loss:
        """Minus a lower bound of the log-density, without what is public."""
        return _loss

    @classmethod
    def create(
        cls, coder: Coder, architecture: HFlowArchitecture, *, key: Key[Array, ""]
    ) -> "HFlowDensity":
        """A fresh flow; the key is spent, for the weights."""
        return cls(coder, architecture.build(Ranks(coder).variables, key=key))

    def records(self, rows: EncodedRows) -> Spans:
        """Codes and spans of ranks; where in them a record lies is drawn anew in every step."""
        return Ranks(self.coder).spans(rows)

    def draw(self, num_rows: int, key: Key[Array, ""], rng: np.random.Generator) -> EncodedRows:
        """Draws. What the flow has beyond the ends of the ranks is folded back."""
        codes, positions = _draw(self.flow, key, num_rows)
        return Ranks(self.coder).rows(np.asarray(codes), np.asarray(positions), rng)

    def log_prob(self, rows: EncodedRows) -> Float[np.ndarray, " rows"]:
        """Lower bounds in expectation: logs of means over draws of ranks and noise."""
        spans = self.records(rows)
        found = np.empty(len(rows))
        for block, first in enumerate(range(0, len(rows), _CHUNK)):
            part = Spans(*(array[first : first + _CHUNK] for array in spans))
            num = len(part.codes)
            padded = jax.tree.map(lambda x, n=num: jnp.pad(x, ((0, _CHUNK - n), (0, 0))), part)
            key = jax.random.fold_in(jax.random.key(0), block)  # public: the same scores each time
            found[first : first + num] = np.asarray(_log_prob(self.flow, padded, key))[:num]
        # where numbers overflow there is no density
        found = np.nan_to_num(found, nan=-np.inf, neginf=-np.inf)
        return found + Ranks(self.coder).log_slope(rows)

    def arrays(self) -> list[Any]:
        """Trained numbers only: all others follow from the settings."""
        return jax.tree.leaves(trainable_part(self.flow)[0])

    @classmethod
    def shapes(cls, coder: Coder, architecture: HFlowArchitecture) -> list[Any]:
        """The shapes of `arrays`, for a coder of which only the kinds of columns matter."""
        variables = Ranks(coder).variables
        architecture.check_fits(variables.dim)
        skeleton = eqx.filter_eval_shape(
            lambda: architecture.build(variables, key=jax.random.key(0))
        )
        return cls(coder, skeleton).arrays()

    @classmethod
    def restored(
        cls, coder: Coder, arrays: list[Any], architecture: HFlowArchitecture
    ) -> "HFlowDensity":
        """The density of `arrays`."""
        flow = architecture.build(Ranks(coder).variables, key=jax.random.key(0))
        own, fixed = trainable_part(flow)
        trained = jax.tree.unflatten(jax.tree.structure(own), arrays)
        return cls(coder, eqx.combine(trained, fixed))


@eqx.filter_jit
def _draw(flow: HFlow, key: Array, num_rows: int) -> Row:
    def one(key: Array) -> Row:
        point = flow.flow.sample(key)
        codes, _ = flow.variables.row(point)
        # a rank beyond an end lands as far inside: at the end itself it would be a spike
        return codes, jnp.minimum(1 - jnp.abs(jnp.mod(point, 2) - 1), BELOW_ONE)

    return jax.lax.map(one, jax.random.split(key, num_rows), batch_size=2048)


@eqx.filter_jit
def _log_prob(flow: HFlow, spans: Spans, key: Array) -> Array:
    def one(both: tuple[Spans, Array]) -> Array:
        record, key = both
        keys = jax.random.split(key, _DRAWS)
        log_weights = -jax.vmap(lambda each: _loss(flow, record, each))(keys)
        return jax.nn.logsumexp(log_weights) - math.log(_DRAWS)

    keys = jax.random.split(key, len(spans.codes))
    return jax.lax.map(one, (spans, keys), batch_size=_AT_ONCE) - flow.public_loss()
