"""Sections of the curator's report for tables and rows of numbers; as private as the real rows."""

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from veilflow.evaluation.classifiers import compare_classifiers
from veilflow.evaluation.detection import detection_score
from veilflow.evaluation.number_summaries import QUANTILES, NumberSummary, compare_numbers
from veilflow.evaluation.rank_correlation import RankCorrelations, compare_rank_correlations
from veilflow.evaluation.regressors import compare_regressors
from veilflow.evaluation.structure import find_structure, shares_kept
from veilflow.evaluation.table_marginals import compare_table_marginals
from veilflow.models.domain import Ball, Box
from veilflow.models.protocols import RowModel, TableModel
from veilflow.reports import svg
from veilflow.reports.table_drawings import Tables, marginal_drawings, pair_drawings
from veilflow.tabular.codec import decode, encode
from veilflow.tabular.columns import Column, Datetime, Numeric
from veilflow.tabular.facts import EPOCH
from veilflow.tabular.io import read_rows
from veilflow.tabular.raw import open_numbers, open_values
from veilflow.tabular.schema import Schema

if TYPE_CHECKING:
    import pandas as pd

CLASSIFIERS = ("logistic regression", "random forest")
_MOST_PAIRS = 6
_MOST_CORRELATIONS = 8
_MOST_STATEMENTS = 60
_DAY = 86_400


def table_sections(
    model: TableModel | RowModel, data: Any, test: Any, *, max_rows: int, seed: int
) -> dict[str, Any]:
    """Real and synthetic rows side by side: structure, columns, pairs, predictions, detection.

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
    real = _Rows.read(data, schema, vocabularies, max_rows, seed)
    held = real if test is None else _Rows.read(test, schema, vocabularies, max_rows, seed)
    synthetic = model.sample(len(real.read_by_fit), seed=seed)
    if isinstance(synthetic, np.ndarray):
        synthetic = _named(synthetic, schema)
    marginals = compare_table_marginals(real.honest, synthetic, schema, binning="quantiles")
    ranks = compare_rank_correlations(real.honest, synthetic, schema, seed=seed)
    tables = Tables(real.honest, synthetic, schema, dict(vocabularies))
    told = held.read_by_fit

    def learned_from(frame: Any) -> Callable[[], Any]:
        if schema.label is None:
            return lambda: None
        if schema.columns[schema.label].has_position:
            return lambda: compare_regressors(told, frame, schema, seed=seed)
        return lambda: compare_classifiers(told, frame, schema, classifiers=CLASSIFIERS, seed=seed)

    return {
        "table": {
            "rows": real.count,
            "used": len(real.read_by_fit),
            "marginals": marginals,
            "structure": _structure(real.raw, synthetic, schema),
            "summaries": _summaries(compare_numbers(real.honest, synthetic, schema), schema),
            "outside": {name: share for name, share in real.outside.items() if share > 0},
            "columns": marginal_drawings(tables, marginals.one_way),
            "pairs": pair_drawings(tables, marginals.two_way, most=_MOST_PAIRS),
            "correlations": _correlations(ranks),
            "label": schema.label,
            "numeric_label": bool(schema.label and schema.columns[schema.label].has_position),
            "downstream": _or_reason(learned_from(synthetic)),
            # what is reached by learning from real rows
            "baseline": _or_reason(learned_from(real.read_by_fit))[0] if test is not None else None,
            "detection": _or_reason(lambda: detection_score(told, synthetic, schema, seed=seed)),
        }
    }


def _or_reason(measure: Callable[[], Any]) -> tuple[Any, str | None]:
    """A measure, or why it cannot be taken: of few rows, or of a poor model."""
    try:
        return measure(), None
    except ValueError as error:
        return None, str(error)


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


@dataclass(frozen=True, repr=False)
class _Rows:
    """Real rows, at most so many, as they are compared."""

    count: int
    """The number of rows that there were."""
    read_by_fit: "pd.DataFrame"
    """As the model knows them: numbers within the bounds, words that were not discovered as `OTHER`."""
    honest: "pd.DataFrame"
    """With the words themselves, so that what was not discovered counts as lost."""
    raw: "pd.DataFrame"
    """With the numbers themselves, too: sums and copies hold of these."""
    outside: dict[str, float]
    """The share of numbers outside of the bounds, by column."""

    @classmethod
    def read(
        cls,
        source: Any,
        schema: Schema,
        vocabularies: Mapping[str, Sequence[str]],
        max_rows: int,
        seed: int,
    ) -> "_Rows":
        rows = encode(source, schema, vocabularies=vocabularies, extra="ignore", invalid="replace")
        count = len(rows)
        kept = np.arange(count)
        if count > max_rows:
            kept = np.sort(np.random.default_rng(seed).choice(count, max_rows, replace=False))
        known = decode(rows.take(kept), schema, vocabularies=vocabularies)
        honest = known.copy()
        for name, (words, places) in open_values(source, schema, invalid="replace").items():
            said = np.array([*words, None], object)[places[kept]]
            other = known[name].notna().to_numpy() & (places[kept] >= 0)
            honest[name] = np.where(other, said, known[name].to_numpy(object, na_value=None))
        raw, outside = honest.copy(), {}
        columns = {n: c for n, c in schema.columns.items() if isinstance(c, Numeric)}
        for name, numbers in open_numbers(source, schema, list(columns), invalid="replace").items():
            low, high = columns[name].low, columns[name].high
            assert low is not None
            assert high is not None
            raw[name] = numbers[kept]
            present = ~np.isnan(raw[name].to_numpy())
            beyond = (raw[name].to_numpy() < low) | (raw[name].to_numpy() > high)
            outside[name] = float(beyond.sum() / max(1, present.sum()))
        return cls(count, known, honest, raw, outside)


def _structure(real: Any, synthetic: Any, schema: Schema) -> dict[str, Any]:
    """What holds in real rows, and how often in synthetic ones; what is lost most comes first."""
    found = find_structure(real, schema)
    lines = [
        {
            "text": one.text,
            "kind": one.kind,
            "is_rule": one.is_rule,
            "real": one.share,
            "synthetic": None if np.isnan(share) else share,
            "support": (one.support, support),
            "bad": np.isnan(share) or share < 0.9 * one.share or share > 1.5 * one.share + 0.02,
        }
        for one, (share, support) in zip(found, shares_kept(found, synthetic), strict=True)
    ]
    lines.sort(key=lambda line: -abs(line["real"] - (line["synthetic"] or 0)) / line["real"])
    rules = [line for line in lines if line["is_rule"]]
    shares = [line for line in lines if not line["is_rule"]]
    kept = [line["synthetic"] or 0.0 for line in rules]
    return {
        "rules": rules[:_MOST_STATEMENTS],
        "shares": shares[:_MOST_STATEMENTS],
        "left_out": sum(max(0, len(x) - _MOST_STATEMENTS) for x in (rules, shares)),
        "count": len(rules),
        "kept": sum(share >= 0.99 for share in kept),
    }


def _summaries(
    found: dict[str, tuple[NumberSummary, NumberSummary]], schema: Schema
) -> dict[str, Any]:
    """Means, deviations and quantiles as texts, real and synthetic."""
    lines = []
    for name, both in found.items():
        column = schema.columns[name]
        rows = [_summary(one, column) for one in both]
        lines.append({"name": name, "cells": list(zip(*rows, strict=True))})
    heads = ["mean", "deviation", *(f"{100 * q:g} %" for q in QUANTILES)]
    return {"heads": heads, "lines": lines}


def _summary(summary: NumberSummary, column: Column) -> list[str]:
    values = (summary.mean, *summary.quantiles)
    if isinstance(column, Datetime):
        mean, *rest = (_moment(value, column) for value in values)
        return [mean, f"{summary.deviation / _DAY:.4g} days", *rest]
    mean, *rest = (f"{value:,.6g}" for value in values)
    return [mean, f"{summary.deviation:,.6g}", *rest]


def _moment(seconds: float, column: Datetime) -> str:
    if np.isnan(seconds):
        return "none"
    moment = EPOCH + dt.timedelta(seconds=seconds)
    return f"{moment:%Y-%m-%d}" if column.resolution == "day" else f"{moment:%Y-%m-%d %H:%M}"


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
