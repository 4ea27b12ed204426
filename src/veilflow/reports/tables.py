"""Sections of the curator's report for tables and rows of numbers; as private as the real rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from veilflow.evaluation.classifiers import compare_classifiers
from veilflow.evaluation.rank_correlation import RankCorrelations
from veilflow.evaluation.table_report import table_report
from veilflow.models.domain import Ball, Box
from veilflow.models.protocols import RowModel, TableModel
from veilflow.reports import svg
from veilflow.tabular.codec import decode, encode
from veilflow.tabular.columns import Boolean, Column, Datetime, Numeric, OpenCategorical
from veilflow.tabular.encoded import EncodedRows
from veilflow.tabular.facts import OTHER
from veilflow.tabular.io import read_rows
from veilflow.tabular.schema import Schema

if TYPE_CHECKING:
    import pandas as pd

CLASSIFIERS = ("logistic regression", "random forest")
BINS = 32
PAIR_BINS = 24
_MOST_PAIRS = 6
_MOST_CORRELATIONS = 8
_MOST_BARS = 24
_MOST_LABELS = 6
_REAL, _SYNTHETIC = (46, 94, 150), (196, 84, 10)


def table_sections(
    model: TableModel | RowModel, data: Any, test: Any, *, max_rows: int, seed: int
) -> dict[str, Any]:
    """Real and synthetic rows side by side: columns, pairs, correlations, classifiers, detection.

    Args:
        model: A model of a table, or of rows of numbers.
        data: The rows of the fit.
        test: Rows held out, or None.
        max_rows: The most rows to measure with; of more rows, a random sample is used.
        seed: The seed of all draws.
    """
    schema, vocabularies = _columns(model)
    if not isinstance(model, TableModel):  # rows of numbers, which may come without names
        data, test = (_numbers(rows, model, schema) for rows in (data, test))
    real, num_rows = _frame(data, schema, vocabularies, max_rows, seed)
    held = real if test is None else _frame(test, schema, vocabularies, max_rows, seed)[0]
    synthetic = model.sample(len(real), seed=seed)
    if isinstance(synthetic, np.ndarray):
        synthetic = _named(synthetic, schema)
    classifiers = CLASSIFIERS if schema.label else ()
    scores = table_report(real, held, synthetic, schema, classifiers=classifiers, seed=seed)
    baseline = None
    if test is not None and classifiers:  # what classifiers reach that learn from real rows
        baseline = compare_classifiers(held, real, schema, classifiers=classifiers, seed=seed)
    # every column by itself, whatever it follows from
    alone = Schema(schema.columns)
    tables = Tables(
        encode(real, alone, vocabularies=vocabularies),
        encode(synthetic, alone, vocabularies=vocabularies),
        alone,
        dict(vocabularies),
    )
    return {
        "table": {
            "rows": num_rows,
            "used": len(real),
            "scores": scores,
            "marginals": marginal_drawings(tables, scores.marginals.one_way),
            "pairs": pair_drawings(tables, scores.marginals.two_way, most=_MOST_PAIRS),
            "correlations": _correlations(scores.rank_correlations),
            "baseline": baseline,
        }
    }


def _columns(model: TableModel | RowModel) -> tuple[Schema, Mapping[str, Sequence[str]]]:
    """The schema of a table; for rows of numbers, a number within its bounds for each column."""
    if isinstance(model, TableModel):
        return model.schema, model.vocabularies
    names = model.columns or tuple(f"x{i + 1}" for i in range(model.dim))
    domain = model.domain
    if isinstance(domain, Box):
        ends = domain.low, domain.high
    else:
        assert isinstance(domain, Ball)
        ends = -domain.row_norm, domain.row_norm
    low, high = (np.broadcast_to(np.asarray(end, float), (model.dim,)) for end in ends)
    columns = {n: Numeric(float(a), float(b)) for n, a, b in zip(names, low, high, strict=True)}
    return Schema(columns), {}


def _numbers(rows: Any, model: RowModel, schema: Schema) -> "pd.DataFrame | None":
    return None if rows is None else _named(read_rows(rows, columns=model.columns).values, schema)


def _named(values: np.ndarray, schema: Schema) -> "pd.DataFrame":
    import pandas as pd

    return pd.DataFrame(values, columns=list(schema.names))


def _frame(
    source: Any, schema: Schema, vocabularies: Mapping[str, Sequence[str]], max_rows: int, seed: int
) -> "tuple[pd.DataFrame, int]":
    """Rows as a fit reads them, at most `max_rows`, and how many there were."""
    rows = encode(source, schema, vocabularies=vocabularies, extra="ignore", invalid="replace")
    count = len(rows)
    if count > max_rows:
        kept = np.random.default_rng(seed).choice(count, max_rows, replace=False)
        rows = rows.take(np.sort(kept))
    return decode(rows, schema, vocabularies=vocabularies), count


def _correlations(ranks: RankCorrelations) -> dict[str, Any] | None:
    names, real, synthetic = ranks.columns, ranks.real, ranks.synthetic
    if len(names) < 2:
        return None
    matrices = {"Real": real, "Synthetic": synthetic, "Difference": synthetic - real}
    listed = ", ".join(names)
    pairs = [
        (names[i], names[j], float(real[i, j]), float(synthetic[i, j]))
        for i, j in zip(*np.triu_indices(len(names), 1), strict=True)
    ]
    return {
        "columns": names,
        "rmse": ranks.rmse,
        "panels": [
            (what, svg.signed(x, alt=f"{what} of {listed}: blue is positive, orange negative."))
            for what, x in matrices.items()
        ],
        "worst": sorted(pairs, key=lambda pair: -abs(pair[3] - pair[2]))[:_MOST_CORRELATIONS],
    }


@dataclass(frozen=True, repr=False)
class Tables:
    """Both tables as codes and positions, and what the columns are."""

    real: EncodedRows
    synthetic: EncodedRows
    schema: Schema
    vocabularies: dict[str, Sequence[str]]

    def column(self, name: str) -> Column:
        """The declared column of a name."""
        return self.schema.columns[name]

    def size(self, name: str, bins: int) -> int:
        """The number of bins of a column; a gap has one of its own."""
        column = self.column(name)
        if column.has_position:
            return bins + int(column.nullable)
        return column.num_codes(self.vocabularies.get(name))

    def bins_of(self, rows: EncodedRows, name: str, bins: int) -> np.ndarray:
        """The bin of each cell of a column; gaps have the last one."""
        i, column = self.schema.names.index(name), self.column(name)
        codes = rows.codes[:, i].astype(np.int64)
        if not column.has_position:
            return codes
        place = np.minimum((rows.positions[:, i] * bins).astype(np.int64), bins - 1)
        return np.where(codes == 1, bins, place) if column.nullable else place

    def shares(self, rows: EncodedRows, name: str) -> np.ndarray:
        """Shares of the bins among numbers that are there, or of all values, gaps among them."""
        counts = np.bincount(self.bins_of(rows, name, BINS), minlength=self.size(name, BINS))
        if self.column(name).has_position:
            counts = counts[:BINS]
        return counts / max(counts.sum(), 1)


def marginal_drawings(tables: Tables, distances: dict[str, float]) -> list[dict[str, Any]]:
    """One drawing per column, the worst first."""
    drawings = []
    for name in sorted(tables.schema.names, key=lambda n: -distances[n]):
        column, labels = tables.column(name), _labels(name, tables)
        real, synthetic = (tables.shares(t, name) for t in (tables.real, tables.synthetic))
        order = np.arange(len(real))
        if not column.has_position and len(real) > _MOST_BARS:  # the most frequent ones only
            order = np.argsort(-real, kind="stable")[:_MOST_BARS]
        if not column.has_position and len(labels) > _MOST_LABELS:
            labels = [labels[i] if i < len(labels) else "" for i in (order[0], order[-1])]
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
        for what, rows, color in (
            ("real", tables.real, _REAL),
            ("synthetic", tables.synthetic, _SYNTHETIC),
        ):
            counts = np.zeros([tables.size(name, PAIR_BINS) for name in pair])
            np.add.at(counts, tuple(tables.bins_of(rows, name, PAIR_BINS) for name in pair), 1.0)
            alt = f"Joint distribution of {pair[0]} (across) and {pair[1]} (up), {what} rows."
            panels.append(svg.heat(counts.T / max(counts.sum(), 1), color=color, alt=alt))
        drawings.append({"across": pair[0], "up": pair[1], "distance": distance, "panels": panels})
    return drawings


def _gaps(name: str, tables: Tables) -> tuple[float, float] | None:
    """Shares of missing cells, real and synthetic."""
    column, i = tables.column(name), tables.schema.names.index(name)
    if not column.nullable:
        return None
    last = column.num_codes(tables.vocabularies.get(name)) - 1
    both = (tables.real, tables.synthetic)
    real, synthetic = (float(np.mean(t.codes[:, i] == last)) if len(t) else 0.0 for t in both)
    return real, synthetic


def _labels(name: str, tables: Tables) -> list[str]:
    """Labels for the two ends of a range, or for every value."""
    column = tables.column(name)
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
