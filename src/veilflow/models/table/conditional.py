"""Rows of a flow, also with some cells given: drawn in its order, then resampled by weight.

Where the given columns come first in that order every weight is the same, and rows are exact. Else
rows are drawn with the given codes put in place, each weighs as much as these codes were likely on
the way, and a share of all rows proportional to its weight is kept.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Int32, Key

from veilflow.flows.code_flow import CodeFlow
from veilflow.models.table.cells import is_real
from veilflow.tabular.codec import EncodedRows, Vocabularies, encode, open_numbers
from veilflow.tabular.columns import OpenCategorical
from veilflow.tabular.facts import OTHER
from veilflow.tabular.positions import below_one, to_positions
from veilflow.tabular.schema import Schema

_PART = 2048
"""Rows drawn at once: the hidden units of few rows stay in the cache of a processor."""


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
        encoded = encode(frame, part, vocabularies=words)
        for place, (name, cell) in enumerate(cells.items()):
            if isinstance(part.columns[name], OpenCategorical):
                unknown = encoded.codes[0, place] == len(words[name])
                if unknown and str(cell).strip() != OTHER:
                    raise ValueError(
                        f"column {name!r} has no value {cell!r} that was discovered. Give one of "
                        f"{', '.join(map(repr, words[name][:8]))}{', ...' * (len(words[name]) > 8)} "
                        f"or {OTHER!r}."
                    )
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


@dataclass(frozen=True)
class Weighted:
    """Rows of codes with the logarithms of their weights."""

    codes: Int32[np.ndarray, "rows columns"]
    log_weights: Float[np.ndarray, " rows"]


@eqx.filter_jit
def draw(flow: CodeFlow, key: Key[Array, ""], num_rows: int) -> Int32[Array, "rows columns"]:
    """`num_rows` independent rows."""
    return jax.lax.map(flow.sample, jax.random.split(key, num_rows), batch_size=_PART)


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
    keys = jax.random.split(key, len(given))
    return jax.lax.map(
        lambda one: flow.sample_given(one[0], one[1], allowed), (keys, given), batch_size=_PART
    )
