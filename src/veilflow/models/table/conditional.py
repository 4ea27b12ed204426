"""Rows of a flow, also with some cells given: drawn in its order, then resampled by weight.

Where the given columns come first in that order every weight is the same, and rows are exact. Else
rows are drawn with the given codes put in place, each weighs as much as these codes were likely on
the way, and a share of all rows proportional to its weight is kept.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Int32, Key

from veilflow.flows.code_flow import FREE, CodeFlow, CodeSampler
from veilflow.releases.table.cells import is_real
from veilflow.tabular.codec import EncodedRows, Vocabularies, encode, open_numbers
from veilflow.tabular.columns import Categorical, Ordinal
from veilflow.tabular.facts import OTHER
from veilflow.tabular.positions import below_one, to_positions
from veilflow.tabular.schema import Schema

_PART = 128
"""Rows drawn at once: the units of few rows stay in the cache of a processor."""


@dataclass(frozen=True)
class Given:
    """Cells that all rows shall have."""

    names: tuple[str, ...]
    fixed: Bool[np.ndarray, " columns"]
    """Which columns they are in."""
    row: EncodedRows
    """One row with these cells; the others hold anything."""

    @classmethod
    def of(cls, cells: Mapping[str, Any], schema: Schema, vocabularies: Vocabularies) -> "Given":
        """From values by the names of their columns; None is a missing cell.

        Raises:
            ValueError: If there is no such column, or it does not have the value.
        """
        import pandas as pd

        for name in cells:
            if name not in schema.columns:
                raise ValueError(
                    f"given names {name!r}, which is no column. There are "
                    f"{', '.join(schema.names)}."
                )
        part = Schema({name: schema.columns[name] for name in cells})
        words = {name: vocabularies[name] for name in cells if name in vocabularies}
        frame = pd.DataFrame(
            {name: pd.Series([cell], dtype=object) for name, cell in cells.items()}
        )
        encoded = _encoded(frame, part, words)
        places = [schema.names.index(name) for name in cells]
        codes, positions = np.zeros((2, 1, len(schema.names)))
        codes[:, places], positions[:, places] = encoded.codes, encoded.positions
        reals = [name for name, column in part.columns.items() if is_real(column)]
        for name, number in open_numbers(frame, part, reals).items():
            # encoded rows may be in single precision
            exact = below_one(to_positions(part.columns[name], number), np.float64)
            positions[:, schema.names.index(name)] = np.where(np.isnan(number), 0, exact)
        fixed = np.isin(np.arange(len(schema.names)), places)
        return cls(tuple(cells), fixed, EncodedRows(codes.astype(np.int32), positions))

    def put_into(self, rows: EncodedRows) -> EncodedRows:
        """The rows with the given cells: within its bin, too, a number is what was given."""
        return EncodedRows(
            np.where(self.fixed, self.row.codes, rows.codes),
            np.where(self.fixed, self.row.positions, rows.positions),
        )


def _encoded(frame: Any, schema: Schema, vocabularies: Vocabularies) -> EncodedRows:
    """One row of given cells; errors tell what may be given, and not how to mend a table."""
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
        unknown = bool(words) and parts[-1].codes[0, 0] == len(words[name])
        if unknown and str(cell).strip() != OTHER:
            raise ValueError(
                f"given: column {name!r} has no value {cell!r} that was discovered. Give one of "
                f"{_listed((*words[name], OTHER))}."
            )
    codes = np.concatenate([part.codes for part in parts], axis=1)
    return EncodedRows(codes, np.concatenate([part.positions for part in parts], axis=1))


def _listed(values: Sequence[Any]) -> str:
    shown = [repr(value) for value in values[:8]]
    return ", ".join([*shown, "..."] if len(values) > 8 else shown)


@dataclass(frozen=True)
class Weighted:
    """Rows of codes with the logarithms of their weights."""

    codes: Int32[np.ndarray, "rows columns"]
    log_weights: Float[np.ndarray, " rows"]


@eqx.filter_jit
def draw(flow: CodeFlow, key: Key[Array, ""], num_rows: int) -> Int32[Array, "rows columns"]:
    """`num_rows` independent rows."""
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
    """One row for each row of `given`, in which `FREE` marks what is to be drawn."""
    allowed = np.ones(flow.codebook.log_mass.shape, bool) if allowed is None else allowed
    codes, log_weights = _draw_given(flow, jnp.asarray(given), jnp.asarray(allowed), key)
    return Weighted(np.asarray(codes), np.asarray(log_weights, np.float64))


def is_exact(flow: CodeFlow, given: Bool[np.ndarray, " columns"]) -> bool:
    """Whether the given columns come before all free ones."""
    in_order = [bool(given[j]) for j in flow.order]
    return in_order == sorted(in_order, reverse=True)


def effective_size(log_weights: Float[np.ndarray, " rows"]) -> float:
    """How many rows of equal weight say as much."""
    weights = np.exp(log_weights - log_weights.max())
    return float(weights.sum() ** 2 / (weights**2).sum())


def resampled(
    log_weights: Float[np.ndarray, " rows"], num_rows: int, rng: np.random.Generator
) -> Int[np.ndarray, " num_rows"]:
    """Places of `num_rows` of the rows, each as often as its weight says, by systematic draws."""
    weights = np.exp(log_weights - log_weights.max())
    up_to = np.cumsum(weights) / weights.sum()
    at = (np.arange(num_rows) + rng.uniform()) / num_rows
    return rng.permutation(np.minimum(np.searchsorted(up_to, at), len(up_to) - 1))


@eqx.filter_jit
def _draw_given(flow: CodeFlow, given: Array, allowed: Array, key: Array) -> tuple[Array, Array]:
    keys, sampler = jax.random.split(key, len(given)), CodeSampler.of(flow)
    return jax.lax.map(
        lambda one: sampler.sample_given(one[0], one[1], allowed), (keys, given), batch_size=_PART
    )
