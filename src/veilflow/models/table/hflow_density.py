"""The flow of the paper as a density of rows: ranks and dequantized codes, splines and linear maps.

A listed column is a listed variable. A number becomes its rank: the share of records below it, by the
released histogram of its column. Ranks are about uniform, so the flow sees neither spikes nor tails. A
value stands for a span of ranks, as wide as the share of its cell; where in the span a record lies
carries no information, and is drawn. A number that may be missing is two variables: a listed one that
says whether it is missing, and a continuous one, for which a missing cell spans all ranks.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from veilflow.flows.hflow import HFlow
from veilflow.flows.variables import BELOW_ONE, Continuous, Kind, Listed, Row, Variables
from veilflow.models.table.architecture import HFlowArchitecture
from veilflow.models.table.coder import CodedColumn, Coder
from veilflow.models.table.density import AbstractTableDensity, Loss
from veilflow.nn.frozen import trainable_part
from veilflow.tabular.codec import EncodedRows

_FLOOR = 1e-3
"""Weight of the first histogram beside better shares of bins: no cell has a share of zero."""
_CHUNK = 4096
"""Rows scored at once by one compiled program."""
_DRAWS = 64
"""Draws of noise for the score of one row."""
_AT_ONCE = 128
"""Rows of a chunk that are scored at once, each with all of its draws."""


class Spans(NamedTuple):
    """Rows as variables: the code of each, or the span of ranks from `low` to `high`."""

    codes: Int[Array, "*rows variables"]
    low: Float[Array, "*rows variables"]
    high: Float[Array, "*rows variables"]


@dataclass(frozen=True)
class Ranks:
    """The variables of a coder."""

    coder: Coder

    @property
    def variables(self) -> Variables:
        """One variable for a column, two for a number that may be missing."""
        kinds: list[Kind] = []
        for column in self.coder.columns:
            if column.cells is None:
                kinds.append(Listed(column.num_codes))
            else:
                kinds += [Listed(2), Continuous()] if column.nullable else [Continuous()]
        return Variables(kinds)

    @property
    def shares(self) -> list[Float[np.ndarray, " codes"]]:
        """The latest share of each code of the listed variables."""
        return [
            _floored(column.mass if column.cells is None else _missing(column))
            for column in self.coder.columns
            if column.cells is None or column.nullable
        ]

    def spans(self, rows: EncodedRows) -> Spans:
        """Rows as variables, each from its own row; nothing is drawn."""
        empty = np.zeros(len(rows))
        variables: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        for j, column in enumerate(self.coder.columns):
            own = rows.codes[:, j]
            if column.cells is None:
                variables.append((own, empty, empty))
                continue
            up_to, cells = _up_to(column), column.cells.of(rows.positions[:, j])
            missing = column.nullable & (own == 1)
            low = np.where(missing, 0.0, up_to[cells])
            high = np.where(missing, 1.0, up_to[cells + 1])
            if column.nullable:
                variables.append((own, empty, empty))
            variables.append((np.zeros_like(own), low, high))
        codes, low, high = (np.stack(part, axis=1) for part in zip(*variables, strict=True))
        return Spans(
            jnp.asarray(codes, jnp.int32),
            jnp.asarray(low, jnp.float32),
            jnp.asarray(high, jnp.float32),
        )

    def rows(
        self,
        codes: Int[np.ndarray, "rows variables"],
        positions: Float[np.ndarray, "rows variables"],
        rng: np.random.Generator,
    ) -> EncodedRows:
        """Draw rows at these codes and ranks, from within their cells. Any numbers make rows."""
        shape = (len(codes), len(self.coder.columns))
        encoded, places = np.zeros(shape, np.int32), np.zeros(shape)
        at = 0
        for j, column in enumerate(self.coder.columns):
            own = codes[:, at]
            if column.cells is None:
                encoded[:, j] = np.clip(own, 0, column.num_codes - 1)
                at += 1
                continue
            missing = column.nullable & (own == 1)
            at += column.nullable
            ranks = np.clip(np.nan_to_num(positions[:, at]), 0, BELOW_ONE)
            cells = np.searchsorted(_up_to(column), ranks, side="right") - 1
            cells = np.clip(cells, 0, column.cells.num - 1)
            drawn = column.draw(cells, rng)
            encoded[:, j], places[:, j] = missing, np.where(missing, 0.0, drawn)
            at += 1
        return EncodedRows(encoded, places)

    def log_slope(self, rows: EncodedRows) -> Float[np.ndarray, " rows"]:
        """The logarithm of the slope of ranks: from a density of ranks to one in units of the data."""
        total = np.zeros(len(rows))
        for j, column in enumerate(self.coder.columns):
            if column.cells is None:
                continue
            cells = column.cells.of(rows.positions[:, j])
            each = np.log(_shares(column))[cells] + column.log_in_cell(rows.positions[:, j], cells)
            missing = column.nullable & (rows.codes[:, j] == 1)
            total += np.where(missing, 0.0, each)
        return total


def _missing(column: CodedColumn) -> Float[np.ndarray, " two"]:
    """The shares of observed and of missing cells of a number."""
    return np.array([column.mass[:-1].sum(), column.mass[-1]])


def _floored(shares: Float[np.ndarray, " codes"]) -> Float[np.ndarray, " codes"]:
    """Shares none of which is zero."""
    return (1 - _FLOOR) * shares / shares.sum() + _FLOOR / len(shares)


def _shares(column: CodedColumn) -> Float[np.ndarray, " cells"]:
    """The share of each cell among the observed ones, from the latest shares of bins."""
    bins = column.bins
    assert bins is not None
    of_bins = column.mass[: bins.num][bins.of(np.arange(len(bins.mass)))]
    shares = of_bins * np.exp(bins.log_within())
    shares = (1 - _FLOOR) * shares / max(shares.sum(), 1e-30) + _FLOOR * bins.mass
    return shares / shares.sum()


def _up_to(column: CodedColumn) -> Float[np.ndarray, " cells+1"]:
    """The share of records below each cell, and below the end."""
    up_to = np.concatenate([[0.0], np.cumsum(_shares(column))])
    return np.minimum(up_to / up_to[-1], 1.0)


def _loss(flow: HFlow, record: Spans, key: Key[Array, ""]) -> Array:
    """The loss of one record for one draw of its ranks and of the noise on its codes."""
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
        """A fresh density."""
        return cls(coder, _built(coder, architecture, key))

    def records(self, rows: EncodedRows) -> Spans:
        """Codes and spans of ranks, in which every step draws anew where a record lies."""
        return Ranks(self.coder).spans(rows)

    def draw(self, num_rows: int, key: Key[Array, ""], rng: np.random.Generator) -> EncodedRows:
        codes, positions = _draw(self.flow, key, num_rows)
        return Ranks(self.coder).rows(np.asarray(codes), np.asarray(positions), rng)

    def log_prob(self, rows: EncodedRows) -> Float[np.ndarray, " rows"]:
        """Lower bounds in expectation: the logarithms of means over draws of ranks and noise."""
        spans = self.records(rows)
        scores = np.empty(len(rows))
        for block, first in enumerate(range(0, len(rows), _CHUNK)):
            part = Spans(*(array[first : first + _CHUNK] for array in spans))
            num = len(part.codes)
            padded = jax.tree.map(lambda x, n=num: jnp.pad(x, ((0, _CHUNK - n), (0, 0))), part)
            key = jax.random.fold_in(jax.random.key(0), block)  # public: the same scores each time
            scores[first : first + num] = np.asarray(_log_prob(self.flow, padded, key))[:num]
        # where numbers overflow the density is zero
        scores = np.nan_to_num(scores, nan=-np.inf, neginf=-np.inf)
        return scores + Ranks(self.coder).log_slope(rows)

    def arrays(self) -> list[Any]:
        """The trained arrays: all others follow from the settings."""
        return jax.tree.leaves(trainable_part(self.flow)[0])

    @classmethod
    def shapes(cls, coder: Coder, architecture: HFlowArchitecture) -> list[Any]:
        """The shapes of `arrays`, which depend only on the kinds of the coder's columns."""
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
        """The density that `arrays` described."""
        flow = _built(coder, architecture, jax.random.key(0))
        own, fixed = trainable_part(flow)
        trained = jax.tree.unflatten(jax.tree.structure(own), arrays)
        return cls(coder, eqx.combine(trained, fixed))


def _built(coder: Coder, architecture: HFlowArchitecture, key: Key[Array, ""]) -> HFlow:
    ranks = Ranks(coder)
    return architecture.build(ranks.variables, key=key, shares=ranks.shares)


@eqx.filter_jit
def _draw(flow: HFlow, key: Array, num_rows: int) -> Row:
    def one(key: Array) -> Row:
        point = flow.flow.sample(key)
        return flow.variables.row(point)

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
