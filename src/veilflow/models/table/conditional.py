"""Rows of a flow with given cells, and rows that satisfy the constraints of a schema.

Where the given columns come first in the order of the flow, all weights are equal and rows are exact
draws. Otherwise rows are drawn with the given codes in place, weighted by how likely these codes were
at their turn, and resampled in proportion to their weights.
"""

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Int32, Key

from veilflow.flows.code_flow import FREE, CodeFlow, CodeSampler
from veilflow.models.table.coder import Coder
from veilflow.releases.table.cells import is_real
from veilflow.tabular.cells import read_column
from veilflow.tabular.codec import encode
from veilflow.tabular.columns import Categorical, Column, Datetime, Numeric, Ordinal
from veilflow.tabular.constraints import Allowed, AtMost, Between
from veilflow.tabular.encoded import EncodedRows, Vocabularies, to_positions
from veilflow.tabular.facts import EPOCH, OTHER
from veilflow.tabular.frames import open_table
from veilflow.tabular.raw import open_numbers
from veilflow.tabular.satisfaction import satisfied
from veilflow.tabular.schema import Schema
from veilflow.tabular.structure import sources

_MICROSECOND = dt.timedelta(microseconds=1)
_PART = 128
"""Rows drawn at once: the hidden units of few rows stay in the cache of a processor."""
_COMMON = 0.01
"""The share from which on a pattern of gaps decides how many rows of the others are kept."""
_LARGEST = 64.0
"""The largest factor by which patterns are thinned: where almost no row satisfies the constraints, the
shares of patterns may move."""


@dataclass(frozen=True)
class Given:
    """Cells that all rows are to have."""

    names: tuple[str, ...]
    fixed: Bool[np.ndarray, " columns"]
    """The columns that have them."""
    row: EncodedRows
    """A row with these cells; its other cells are arbitrary."""

    @classmethod
    def of(cls, cells: Mapping[str, Any], schema: Schema, vocabularies: Vocabularies) -> "Given":
        """The given cells from values by column name; None is a missing cell.

        Raises:
            ValueError: There is no such column, or it does not have the value.
        """
        import pandas as pd

        for name in cells:
            if name not in schema.columns:
                raise ValueError(
                    f"given names {name!r}, which is no column. There are "
                    f"{', '.join(schema.names)}."
                )
            if name in schema.rules:
                others = ", ".join(schema.rules[name].columns[1:])
                raise ValueError(
                    f"given names {name!r}, which follows from other columns. Give {others} instead."
                )
        core = schema.core.names
        part = Schema({name: schema.columns[name] for name in cells})
        words = {name: vocabularies[name] for name in cells if name in vocabularies}
        frame = pd.DataFrame(
            {name: pd.Series([cell], dtype=object) for name, cell in cells.items()}
        )
        encoded = _encoded(frame, part, words)
        places = [core.index(name) for name in cells]
        codes, positions = np.zeros((2, 1, len(core)))
        codes[:, places], positions[:, places] = encoded.codes, encoded.positions
        reals = [name for name, column in part.columns.items() if is_real(column)]
        for name, number in open_numbers(frame, part, reals).items():
            # encoded rows may be in single precision
            exact = to_positions(part.columns[name], number)
            positions[:, core.index(name)] = np.where(np.isnan(number), 0, exact)
        fixed = np.isin(np.arange(len(core)), places)
        return cls(tuple(cells), fixed, EncodedRows(codes.astype(np.int32), positions))

    def holds(self, rows: EncodedRows) -> Bool[np.ndarray, " rows"]:
        """Which rows still have the given cells, whose gaps may follow from those of others."""
        same = rows.codes == self.row.codes
        return (same & (rows.positions == self.row.positions))[:, self.fixed].all(axis=1)

    def rows(
        self, coder: Coder, codes: Int32[np.ndarray, "rows columns"], rng: np.random.Generator
    ) -> EncodedRows:
        """Rows with these codes and the given cells, numbers exactly as they were given."""
        given = self.row.take(np.zeros(len(codes), np.int64))
        return coder.rows(codes, rng, given=given, fixed=np.tile(self.fixed, (len(codes), 1)))


def _encoded(frame: Any, schema: Schema, vocabularies: Vocabularies) -> EncodedRows:
    """One row of given cells. Errors say which cells can be given, not how to repair a table."""
    parts = []
    for name, column in schema.columns.items():
        cell, words = frame[name].item(), {n: v for n, v in vocabularies.items() if n == name}
        try:
            parts.append(encode(frame[[name]], Schema({name: column}), vocabularies=words))
        except ValueError as error:
            if cell is None:
                reason = f"column {name!r} is never missing. Give a value."
            elif isinstance(column, Categorical | Ordinal):
                reason = (
                    f"column {name!r} has no value {cell!r}. Give one of {_listed(column.values)}."
                )
            else:
                reason = str(error)
            raise ValueError(f"given: {reason}") from None
        if cell is not None:
            _check_range(name, column, frame[[name]])
        unknown = bool(words) and parts[-1].codes[0, 0] == len(words[name])
        if unknown and str(cell).strip() != OTHER:
            raise ValueError(
                f"given: column {name!r} has no value {cell!r} that was discovered. Give one of "
                f"{_listed((*words[name], OTHER))}."
            )
    codes = np.concatenate([part.codes for part in parts], axis=1)
    return EncodedRows(codes, np.concatenate([part.positions for part in parts], axis=1))


def _check_range(name: str, column: Column, frame: Any) -> None:
    """Raise if a given number or moment is outside of the bounds, which no row of the model is."""
    if isinstance(column, Datetime):
        low, high = ((x - EPOCH) / _MICROSECOND for x in (column.start, column.end + column.step))
        ends = f"{column.start:%Y-%m-%d %H:%M:%S} and {column.end:%Y-%m-%d %H:%M:%S}"
    elif isinstance(column, Numeric) and column.low is not None and column.high is not None:
        low, high = column.low, column.high
        ends = f"{low:g} and {high:g}"
    else:
        return
    cells = read_column(name, column, next(open_table(frame, chunk=1).blocks)(0), invalid="replace")
    value = float(cells.values[0])
    if not cells.missing[0] and not low <= value <= high:
        raise ValueError(f"given: column {name!r} lies between {ends}. Give a value in this range.")


def _listed(values: Sequence[Any]) -> str:
    shown = [repr(value) for value in values[:8]]
    return ", ".join([*shown, "..."] if len(values) > 8 else shown)


@dataclass(frozen=True)
class Weighted:
    """Rows of codes, and the logarithms of their weights."""

    codes: Int32[np.ndarray, "rows columns"]
    log_weights: Float[np.ndarray, " rows"]


@eqx.filter_jit
def draw(flow: CodeFlow, key: Key[Array, ""], num_rows: int) -> Int32[Array, "rows columns"]:
    """Draw `num_rows` independent rows."""
    codes, _ = _draw_given(
        flow,
        jnp.full((num_rows, flow.dim), FREE),
        jnp.ones(flow.codebook.log_mass.shape, bool),
        key,
    )
    return codes


def draw_given(
    flow: CodeFlow,
    given: Int32[np.ndarray, "rows columns"],
    *,
    allowed: Bool[np.ndarray, " slots"] | None = None,
    key: Key[Array, ""],
) -> Weighted:
    """Draw a row for each row of `given`, in which `FREE` marks the cells to draw."""
    allowed = np.ones(flow.codebook.log_mass.shape, bool) if allowed is None else allowed
    codes, log_weights = _draw_given(flow, jnp.asarray(given), jnp.asarray(allowed), key)
    return Weighted(np.asarray(codes), np.asarray(log_weights, np.float64))


def is_exact(flow: CodeFlow, given: Bool[np.ndarray, " columns"]) -> bool:
    """Whether the given columns come before all others in the order of the flow."""
    in_order = [bool(given[j]) for j in flow.order]
    return in_order == sorted(in_order, reverse=True)


def effective_size(log_weights: Float[np.ndarray, " rows"]) -> float:
    """The effective sample size: the number of equally weighted rows that say as much."""
    weights = np.exp(log_weights - log_weights.max())
    return float(weights.sum() ** 2 / (weights**2).sum())


def resampled(
    log_weights: Float[np.ndarray, " rows"], num_rows: int, rng: np.random.Generator
) -> Int[np.ndarray, " num_rows"]:
    """Indices of `num_rows` rows in proportion to their weights, by systematic resampling."""
    weights = np.exp(log_weights - log_weights.max())
    up_to = np.cumsum(weights) / weights.sum()
    points = (np.arange(num_rows) + rng.uniform()) / num_rows
    return rng.permutation(np.minimum(np.searchsorted(up_to, points), len(up_to) - 1))


@eqx.filter_jit
def _draw_given(flow: CodeFlow, given: Array, allowed: Array, key: Array) -> tuple[Array, Array]:
    keys, sampler = jax.random.split(key, len(given)), CodeSampler.of(flow)
    return jax.lax.map(
        lambda one: sampler.sample_given(one[0], one[1], allowed), (keys, given), batch_size=_PART
    )


class Constrained(NamedTuple):
    """Rows that satisfy all constraints."""

    rows: EncodedRows
    log_weights: Float[np.ndarray, " rows"]
    shares: Float[np.ndarray, " rows"]
    """The share to keep of rows like this one, so that patterns of gaps keep theirs; in (0, 1]."""


def constrained(
    rows: EncodedRows, log_weights: Float[np.ndarray, " rows"], schema: Schema
) -> Constrained:
    """The rows that satisfy the constraints, with gaps as often as among all rows.

    `AtMost` allows every row with a gap, so dropping only the rows that violate it would leave too many
    gaps. Each pattern of gaps in the constrained columns keeps its share instead.
    """
    kept = satisfied(rows, schema)
    # of the constraints that exclude rows, none is about an open column: numbers of codes are known
    excluding = (one for one in schema.constraints if isinstance(one, AtMost | Between | Allowed))
    named = sources([name for one in excluding for name in one.columns], schema.rules)
    core = schema.core
    places = [j for j, n in enumerate(core.names) if n in named and core.columns[n].nullable]
    shares = np.ones(int(kept.sum()))
    if places and kept.any() and not kept.all():
        gap = np.array([core.columns[core.names[j]].num_codes() - 1 for j in places])
        _, pattern = np.unique(rows.codes[:, places] == gap, axis=0, return_inverse=True)
        shares = _shares(pattern.reshape(-1), kept, np.exp(log_weights - log_weights.max()))
    return Constrained(rows.take(kept), log_weights[kept], shares)


def _shares(pattern: np.ndarray, kept: np.ndarray, weights: np.ndarray) -> np.ndarray:
    drawn = np.bincount(pattern, weights)
    left = np.bincount(pattern[kept], weights[kept], minlength=len(drawn))
    lost = np.divide(drawn, left, out=np.ones_like(drawn), where=left > 0)
    most = lost[drawn >= _COMMON * drawn.sum()].max()
    most = min(most, _LARGEST)
    return np.minimum(lost, most)[pattern[kept]] / most
