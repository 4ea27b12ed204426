"""Drawings of tables: columns and pairs of columns, real beside synthetic.

Numbers are drawn over the range in which nearly all real ones lie, whatever bounds were declared; the
bins at both ends hold what is beyond. Where numbers have a long tail, bins are logarithmic.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, Int

from veilflow.evaluation._cells import Numbers, code, listed, numbers
from veilflow.reports import svg
from veilflow.tabular.columns import Column, Datetime, Numeric, OpenCategorical
from veilflow.tabular.facts import EPOCH, OTHER
from veilflow.tabular.schema import Schema

if TYPE_CHECKING:
    import pandas as pd

BINS = 32
PAIR_BINS = 24
_MOST_BARS = 24
_MOST_LABELS = 6
_TAIL = 8.0
"""Bins are logarithmic where a tail is this many times as long as the range of half of the numbers."""
_REAL, _SYNTHETIC = (46, 94, 150), (196, 84, 10)


@dataclass(frozen=True)
class Bins:
    """The bins of a column in a drawing; a gap has a bin after them, if there can be one."""

    labels: list[str]
    """Labels of the two ends, or of every bin."""
    note: str
    size: int
    """The number of bins, without that of gaps."""
    edges: Float[np.ndarray, " edges"] | None = None
    """Where the second bin of numbers begins, the third, and so on."""


@dataclass(frozen=True, repr=False)
class Tables:
    """Both tables, what the columns are, and which words were discovered in open ones."""

    real: "pd.DataFrame"
    synthetic: "pd.DataFrame"
    schema: Schema
    vocabularies: dict[str, Sequence[str]]

    @property
    def both(self) -> tuple["pd.DataFrame", "pd.DataFrame"]:
        """The real and the synthetic table."""
        return self.real, self.synthetic

    def column(self, name: str) -> Column:
        """The declared column of a name."""
        return self.schema.columns[name]

    def bins(self, name: str, count: int) -> Bins:
        """The bins of a column: so many for numbers, one for each value of others."""
        column = self.column(name)
        if column.has_position:
            return _number_bins(numbers(self.real, name, column), column, count)
        values = [str(value) for value in self._values(name)]
        values += [str(OTHER)] if isinstance(column, OpenCategorical) else []
        return Bins(values, "", len(values))

    def places(self, frame: Any, name: str, bins: Bins) -> Int[np.ndarray, " rows"]:
        """The bin of each cell: gaps have the last one, words that were not discovered that of `OTHER`."""
        column = self.column(name)
        if bins.edges is not None:
            cells = numbers(frame, name, column)
            found = np.searchsorted(bins.edges, cells, side="right")
            return np.where(np.isnan(cells), bins.size, found)
        codes = code(frame, name, column, bins=1, values=self._values(name)).astype(np.int64)
        return np.where(codes == 0, bins.size, np.minimum(codes - 1, bins.size - 1))

    def shares(self, frame: Any, name: str, bins: Bins) -> Float[np.ndarray, " bins"]:
        """Shares of the bins among numbers that are there, or of all values, gaps among them."""
        counts = np.bincount(self.places(frame, name, bins), minlength=bins.size + 1)
        if bins.edges is not None or not self.column(name).nullable:
            counts = counts[: bins.size]
        return counts / max(counts.sum(), 1)

    def _values(self, name: str) -> tuple[Any, ...]:
        column = self.column(name)
        if isinstance(column, OpenCategorical):
            return tuple(self.vocabularies.get(name, ()))
        return listed(name, column)


def _number_bins(cells: Numbers, column: Column, count: int) -> Bins:
    present = cells[~np.isnan(cells)]
    if not present.size:
        return Bins(["no real number", ""], "", 1, np.zeros(0))
    low, quarter, half, three, high = np.quantile(present, (0.005, 0.25, 0.5, 0.75, 0.995))
    if low == high:
        low, high = float(present.min()), float(present.max())
    step = column.step.total_seconds() if isinstance(column, Datetime) else _step(column)
    note = ""
    if low == high:
        edges = np.zeros(0)
    elif step and (high - low) / step < count:
        edges = np.arange(low + step / 2, high, step)
    elif max(high - half, half - low) > _TAIL * max(three - quarter, 1e-3 * (high - low)):
        # nearly linear up to the size of typical numbers, then logarithmic
        unit = max(float(np.quantile(np.abs(present[present != 0]), 0.25)), 1e-9 * (high - low))
        first, last = np.arcsinh(np.array([low, high]) / unit)
        edges = unit * np.sinh(np.linspace(first, last, count + 1)[1:-1])
        note = "logarithmic bins"
    else:
        edges = np.linspace(low, high, count + 1)[1:-1]
    ends = [_shown(low, column), _shown(high, column)]
    if len(edges) and present.min() < low:
        ends[0] = f"≤ {_shown(edges[0], column)}"
    if len(edges) and present.max() > high:
        ends[1] = f"≥ {_shown(edges[-1], column)}"
    return Bins(ends if len(edges) else ends[:1], note, len(edges) + 1, edges)


def _step(column: Column) -> float | None:
    return column.step if isinstance(column, Numeric) else None


def _shown(value: float, column: Column) -> str:
    if isinstance(column, Datetime):
        import datetime as dt

        return f"{EPOCH + dt.timedelta(seconds=float(value)):%Y-%m-%d}"
    return f"{value:,.4g}"


def marginal_drawings(tables: Tables, distances: dict[str, float]) -> list[dict[str, Any]]:
    """One drawing per column, the worst first."""
    drawings = []
    for name in sorted(tables.schema.names, key=lambda n: -distances[n]):
        column, bins = tables.column(name), tables.bins(name, BINS)
        real, synthetic = (tables.shares(frame, name, bins) for frame in tables.both)
        labels, order = list(bins.labels), np.arange(len(real))
        if bins.edges is None:
            labels += ["missing"] if column.nullable else []
            if len(real) > _MOST_BARS:  # the most frequent ones only
                order = np.argsort(-real, kind="stable")[:_MOST_BARS]
            if len(labels) > _MOST_LABELS:
                labels = [labels[order[0]], labels[order[-1]]]
        alt = (
            f"Distribution of {name}: real rows as bars, synthetic rows as a line; they differ in "
            f"{100 * distances[name]:.1f} % of the mass."
        )
        drawings.append(
            {
                "name": name,
                "distance": distances[name],
                "svg": svg.histogram(real[order], synthetic[order], labels=labels, alt=alt),
                "gaps": _gaps(name, tables),
                "note": bins.note,
                "undiscovered": _undiscovered(name, tables, bins),
            }
        )
    return drawings


def pair_drawings(
    tables: Tables, distances: dict[tuple[str, str], float], *, most: int
) -> list[dict[str, Any]]:
    """Joint histograms of the pairs that differ most, real beside synthetic."""
    drawings = []
    for pair, distance in sorted(distances.items(), key=lambda item: -item[1])[:most]:
        panels = []
        bins = [tables.bins(name, PAIR_BINS) for name in pair]
        shape = [one.size + tables.column(n).nullable for n, one in zip(pair, bins, strict=True)]
        for what, frame, color in zip(
            ("real", "synthetic"), tables.both, (_REAL, _SYNTHETIC), strict=True
        ):
            counts = np.zeros([size + 1 for size in shape])
            places = [tables.places(frame, n, one) for n, one in zip(pair, bins, strict=True)]
            np.add.at(counts, tuple(places), 1.0)
            counts = counts[: shape[0], : shape[1]]
            alt = f"Joint distribution of {pair[0]} (across) and {pair[1]} (up), {what} rows."
            panels.append(svg.heat(counts.T / max(counts.sum(), 1), color=color, alt=alt))
        drawings.append({"across": pair[0], "up": pair[1], "distance": distance, "panels": panels})
    return drawings


def _gaps(name: str, tables: Tables) -> tuple[float, float] | None:
    """Shares of missing cells, real and synthetic."""
    if not tables.column(name).nullable:
        return None
    bins = tables.bins(name, BINS)
    places = (tables.places(frame, name, bins) for frame in tables.both)
    real, synthetic = (float(np.mean(x == bins.size)) if len(x) else 0.0 for x in places)
    return real, synthetic


def _undiscovered(name: str, tables: Tables, bins: Bins) -> float | None:
    """The share of real rows whose word was not discovered."""
    if not isinstance(tables.column(name), OpenCategorical):
        return None
    return float(tables.shares(tables.real, name, bins)[bins.size - 1])
