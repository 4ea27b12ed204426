"""Columns of a real and a synthetic table side by side, as drawings; as private as the real rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from veilflow.reports import svg
from veilflow.tabular.columns import Boolean, Column, Datetime, Numeric, OpenCategorical
from veilflow.tabular.encoded import EncodedRows
from veilflow.tabular.facts import OTHER
from veilflow.tabular.schema import Schema

BINS = 32
PAIR_BINS = 24
_MOST_BARS = 24
_REAL, _SYNTHETIC = (46, 94, 150), (196, 84, 10)


@dataclass(frozen=True, repr=False)
class Tables:
    """Both tables as codes and positions, and what the columns are."""

    real: EncodedRows
    synthetic: EncodedRows
    schema: Schema
    vocabularies: dict[str, Sequence[str]]


def marginal_drawings(tables: Tables, distances: dict[str, float]) -> list[dict[str, Any]]:
    """One drawing a column, the worst first."""
    names = list(tables.schema.names)
    drawn = []
    for name in sorted(names, key=lambda n: -distances[n]):
        i, column = names.index(name), tables.schema.columns[name]
        real, synthetic = (
            _shares(t, i, column, tables, BINS) for t in (tables.real, tables.synthetic)
        )
        labels = _labels(name, column, tables)
        alt = (
            f"Distribution of {name}: real rows as bars, synthetic rows as a line; they differ in "
            f"{100 * distances[name]:.1f} % of the mass."
        )
        order = np.arange(len(real))
        if not column.has_position and len(real) > _MOST_BARS:  # the most frequent ones only
            order = np.argsort(-real, kind="stable")[:_MOST_BARS]
        shown = labels if column.has_position or len(labels) <= 6 else _ends(labels, order)
        drawn.append(
            {
                "name": name,
                "distance": distances[name],
                "svg": svg.histogram(real[order], synthetic[order], labels=shown, alt=alt),
                "gaps": _gaps(i, column, tables),
            }
        )
    return drawn


def pair_drawings(
    tables: Tables, distances: dict[tuple[str, str], float], *, most: int
) -> list[dict[str, Any]]:
    """Joint histograms of the pairs that differ most, real beside synthetic."""
    names = list(tables.schema.names)
    drawn = []
    for pair, distance in sorted(distances.items(), key=lambda item: -item[1])[:most]:
        panels = []
        for what, table, color in (
            ("real", tables.real, _REAL),
            ("synthetic", tables.synthetic, _SYNTHETIC),
        ):
            codes = [
                _bins(table, names.index(n), tables.schema.columns[n], tables, PAIR_BINS)
                for n in pair
            ]
            sizes = [_size(n, tables, PAIR_BINS) for n in pair]
            counts = np.zeros(sizes)
            np.add.at(counts, tuple(codes), 1.0)
            alt = f"Joint distribution of {pair[0]} (across) and {pair[1]} (up), {what} rows."
            panels.append(svg.heat(counts.T / max(counts.sum(), 1), color=color, alt=alt))
        drawn.append({"across": pair[0], "up": pair[1], "distance": distance, "panels": panels})
    return drawn


def _size(name: str, tables: Tables, bins: int) -> int:
    column = tables.schema.columns[name]
    if column.has_position:
        return bins + int(column.nullable)
    return column.num_codes(tables.vocabularies.get(name))


def _bins(table: EncodedRows, i: int, column: Column, tables: Tables, bins: int) -> np.ndarray:
    """The bin of each cell; gaps have the last one."""
    codes = table.codes[:, i].astype(np.int64)
    if not column.has_position:
        return codes
    place = np.minimum((table.positions[:, i] * bins).astype(np.int64), bins - 1)
    return np.where(codes == 1, bins, place) if column.nullable else place


def _shares(table: EncodedRows, i: int, column: Column, tables: Tables, bins: int) -> np.ndarray:
    """Shares of the bins among cells that are there, or of all values, a gap among them."""
    name = tables.schema.names[i]
    counts = np.bincount(
        _bins(table, i, column, tables, bins), minlength=_size(name, tables, bins)
    ).astype(float)
    if column.has_position:
        counts = counts[:bins]
    return counts / max(counts.sum(), 1.0)


def _gaps(i: int, column: Column, tables: Tables) -> tuple[float, float] | None:
    """Shares of missing cells, real and synthetic."""
    if not column.nullable:
        return None
    last = column.num_codes(tables.vocabularies.get(tables.schema.names[i])) - 1
    both = (tables.real, tables.synthetic)
    real, synthetic = (float(np.mean(t.codes[:, i] == last)) if len(t) else 0.0 for t in both)
    return real, synthetic


def _labels(name: str, column: Column, tables: Tables) -> list[str]:
    """Of the ends of a range, or of every value."""
    if isinstance(column, Numeric):
        return [f"{column.low:g}", f"{column.high:g}"]
    if isinstance(column, Datetime):
        return [f"{column.start:%Y-%m-%d}", f"{column.end:%Y-%m-%d}"]
    if isinstance(column, OpenCategorical):
        values = [*map(str, tables.vocabularies.get(name, ())), str(OTHER)]
    elif isinstance(column, Boolean):
        values = ["false", "true"]
    else:
        values = [str(value) for value in getattr(column, "values", ())]
    return [*values, "missing"] if column.nullable else values


def _ends(labels: list[str], order: np.ndarray) -> list[str]:
    kept = [labels[i] if i < len(labels) else "" for i in order]
    return [kept[0], kept[-1]]
