"""Rows of a schema to listed and continuous variables and back: what the paper's flow sees of a table.

A listed column is a listed variable. A number becomes its rank: the share of records below it, by the
released histogram of its column. Ranks are about even, so spikes and tails are gone before the flow. A
value stands for a span of ranks, as wide as the share of its cell; where in it a record lies says
nothing, and is drawn. A number that may be missing is two variables, a listed one that says whether it
is, and a continuous one, for which a missing cell spans all ranks.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from veilflow.flows.variables import BELOW_ONE, Continuous, Kind, Listed, Variables
from veilflow.models.table.coder import CodedColumn, Coder
from veilflow.tabular.codec import EncodedRows

_FLOOR = 1e-3
"""Weight of the first histogram beside better shares of bins: no cell has a share of zero."""


class Spans(NamedTuple):
    """Rows as variables: the code of each, and the ranks from `low` to `high` it may lie at."""

    codes: Int[Array, "*rows variables"]
    low: Float[Array, "*rows variables"]
    high: Float[Array, "*rows variables"]


@dataclass(frozen=True)
class Ranks:
    """The variables of a coder."""

    coder: Coder

    @property
    def variables(self) -> Variables:
        """One for a column, two for a number that may be missing."""
        kinds: list[Kind] = []
        for column in self.coder.columns:
            if column.cells is None:
                kinds.append(Listed(column.num_codes))
            else:
                kinds += [Listed(2), Continuous()] if column.nullable else [Continuous()]
        return Variables(kinds)

    def spans(self, rows: EncodedRows) -> Spans:
        """Rows as variables, each by itself; nothing is drawn."""
        empty = np.zeros(len(rows))
        found: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        for j, column in enumerate(self.coder.columns):
            own = rows.codes[:, j]
            if column.cells is None:
                found.append((own, empty, empty))
                continue
            up_to, cells = _up_to(column), column.cells.of(rows.positions[:, j])
            missing = column.nullable & (own == 1)
            low = np.where(missing, 0.0, up_to[cells])
            high = np.where(missing, 1.0, up_to[cells + 1])
            if column.nullable:
                found.append((own, empty, empty))
            found.append((np.zeros_like(own), low, high))
        codes, low, high = (np.stack(part, axis=1) for part in zip(*found, strict=True))
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
        """The rows at these codes and ranks, drawn within their cells. Any numbers make rows."""
        shape = (len(codes), len(self.coder.columns))
        found, places = np.zeros(shape, np.int32), np.zeros(shape)
        at = 0
        for j, column in enumerate(self.coder.columns):
            own = codes[:, at]
            if column.cells is None:
                found[:, j] = np.clip(own, 0, column.num_codes - 1)
                at += 1
                continue
            missing = column.nullable & (own == 1)
            at += column.nullable
            ranks = np.clip(np.nan_to_num(positions[:, at]), 0, BELOW_ONE)
            cells = np.searchsorted(_up_to(column), ranks, side="right") - 1
            cells = np.clip(cells, 0, column.cells.num - 1)
            drawn = column.cells.draw(cells, rng.uniform(size=len(codes)))
            found[:, j], places[:, j] = missing, np.where(missing, 0.0, drawn)
            at += 1
        return EncodedRows(found, places)

    def log_slope(self, rows: EncodedRows) -> Float[np.ndarray, " rows"]:
        """Log of how fast ranks rise: from a density of ranks to one in units of the data."""
        total = np.zeros(len(rows))
        for j, column in enumerate(self.coder.columns):
            if column.cells is None:
                continue
            each = np.log(_shares(column)) - column.cells.log_size
            missing = column.nullable & (rows.codes[:, j] == 1)
            total += np.where(missing, 0.0, each[column.cells.of(rows.positions[:, j])])
        return total


def _shares(column: CodedColumn) -> Float[np.ndarray, " cells"]:
    """Share of each cell among cells that are there: bins by their own shares, as last released."""
    bins = column.bins
    assert bins is not None
    of_bins = column.mass[: bins.num][bins.of(np.arange(len(bins.mass)))]
    shares = of_bins * np.exp(bins.log_within())
    shares = (1 - _FLOOR) * shares / max(shares.sum(), 1e-30) + _FLOOR * bins.mass
    return shares / shares.sum()


def _up_to(column: CodedColumn) -> Float[np.ndarray, " cells+1"]:
    """Share of what lies below each cell, and below the end."""
    up_to = np.concatenate([[0.0], np.cumsum(_shares(column))])
    return np.minimum(up_to / up_to[-1], 1.0)
