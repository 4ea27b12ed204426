"""How far synthetic rows are from fresh real rows, and what a model learns from them.

Total variation is between histograms of one, two and three columns. A number has bins with equally
many real rows, 20, 10 and 5 of them, so that bins follow the rows and not the declared range; heavy
values have a bin of their own. A list has its most frequent values, and one bin for the others.
"""

import itertools

import numpy as np
import pandas as pd

import veilflow as vf
from benchmarks.peer_data import Data
from benchmarks.structures import STRUCTURES, Kept, kept
from veilflow import evaluation

BINS = {1: 20, 2: 10, 3: 5}
"""Bins by the number of columns: there are more cells than that, but fewer than rows."""
TRIPLES = 150
LONG = 100
"""A list with more values is no feature of the models that are trained on synthetic rows."""
RANKED = 10_000
CLASSIFIERS = ("gradient boosting", "logistic regression")

LOWER = (
    "total variation, 1 column",
    "total variation, 2 columns",
    "total variation, 3 columns",
    "rank correlations, error",
    "raw correlations, error",
)
HIGHER = (
    "gradient boosting, AUROC",
    "gradient boosting, macro-F1",
    "gradient boosting, R2",
    "logistic regression, AUROC",
    "logistic regression, macro-F1",
    "ridge regression, R2",
    "structure kept",
)
"""Measures by which way is better. A table has those of its label."""


def measure(name: str, found: Data, synthetic: pd.DataFrame) -> tuple[dict[str, float], list[Kept]]:
    """All measures of synthetic rows by name, and each structure."""
    real, schema = found.test, found.schema
    measures = {
        f"total variation, {number} column{'s' * (number > 1)}": _variation(
            real, synthetic, schema, number
        )
        for number in BINS
    }
    numbers = [column for column, one in schema.columns.items() if one.has_position]
    if len(numbers) > 1:
        ranks = evaluation.compare_rank_correlations(real, synthetic, schema, max_rows=RANKED)
        measures["rank correlations, error"] = ranks.rmse
        measures["raw correlations, error"] = _raw_error(real, synthetic, numbers)
    measures |= _learned(real, synthetic, schema)
    known = name in STRUCTURES
    structures = kept(name, real, synthetic) if known else _kept(real, synthetic, schema)
    if structures:
        measures["structure kept"] = float(np.mean([as_real(one) for one in structures]))
    return measures, structures


def _kept(real: pd.DataFrame, synthetic: pd.DataFrame, schema: vf.Schema) -> list[Kept]:
    """What always holds in the rows of a table of which nobody said so, and is found in them."""
    kept = []
    for one in evaluation.find_structure(real, schema):
        share = evaluation.share_kept(one, synthetic)
        columns = ", ".join(one.columns)
        kept.append(Kept(one.kind, columns, one.share, 0.0 if np.isnan(share) else share))
    return kept


def as_real(one: Kept) -> float:
    """1 where a structure holds in synthetic rows as often as in real ones, 0 where it is lost."""
    return max(0.0, 1 - abs(one.synthetic - one.real) / max(one.real, 1e-9))


def _variation(
    real: pd.DataFrame, synthetic: pd.DataFrame, schema: vf.Schema, number: int
) -> float:
    """The mean total variation of all sets of so many columns, or of some drawn sets of three."""
    coded = [_coded(real, synthetic, name, schema, BINS[number]) for name in schema.columns]
    sets = list(itertools.combinations(range(len(coded)), number))
    if number == 3 and len(sets) > TRIPLES:
        drawn = np.random.default_rng(0).choice(len(sets), TRIPLES, replace=False)
        sets = [sets[i] for i in drawn]
    return float(np.mean([_distance([coded[i] for i in one]) for one in sets]))


def _coded(
    real: pd.DataFrame, synthetic: pd.DataFrame, name: str, schema: vf.Schema, bins: int
) -> tuple[np.ndarray, np.ndarray, int]:
    """A column of both tables as codes, and their number; a gap is the last code."""
    if schema.columns[name].has_position:
        first, second = (_numbers(frame, name) for frame in (real, synthetic))
        levels = np.linspace(0, 1, bins + 1)[1:-1]
        quantiles = np.nanquantile(first, levels, method="inverted_cdf")
        edges, times = np.unique(quantiles, return_counts=True)
        heavy = edges[times > 1]
        edges = np.sort(np.concatenate([edges, np.nextafter(heavy, np.inf)]))
        codes = [
            np.where(np.isnan(x), len(edges) + 1, np.searchsorted(edges, x, "right"))
            for x in (first, second)
        ]
        return codes[0], codes[1], len(edges) + 2
    usual = real[name].value_counts().index[: bins - 1]
    places = {value: place for place, value in enumerate(usual)}
    codes = [
        np.where(
            frame[name].isna(),
            len(usual) + 1,
            frame[name].map(places).astype("float64").fillna(len(usual)),
        ).astype(np.int64)
        for frame in (real, synthetic)
    ]
    return codes[0], codes[1], len(usual) + 2


def _distance(columns: list[tuple[np.ndarray, np.ndarray, int]]) -> float:
    shares = []
    for side in (0, 1):
        joint = np.zeros(len(columns[0][side]), np.int64)
        for column in columns:
            joint = joint * column[2] + column[side]
        cells = int(np.prod([column[2] for column in columns]))
        shares.append(np.bincount(joint, minlength=cells) / len(joint))
    return 0.5 * float(np.abs(shares[0] - shares[1]).sum())


def _numbers(frame: pd.DataFrame, name: str) -> np.ndarray:
    return pd.to_numeric(frame[name], errors="coerce").to_numpy(np.float64, na_value=np.nan)


def _raw_error(real: pd.DataFrame, synthetic: pd.DataFrame, names: list[str]) -> float:
    """The root mean squared error of correlations; that with a constant column is 0."""
    first, second = (
        pd.DataFrame({name: _numbers(frame, name) for name in names}).corr().fillna(0.0).to_numpy()
        for frame in (real, synthetic)
    )
    return float(np.sqrt(np.mean((first - second)[np.triu_indices(len(names), 1)] ** 2)))


def _learned(real: pd.DataFrame, synthetic: pd.DataFrame, schema: vf.Schema) -> dict[str, float]:
    """Scores on real rows of models that learned from synthetic ones."""
    short = {
        name: column
        for name, column in schema.columns.items()
        if not isinstance(column, vf.Categorical) or len(column.values) <= LONG
    }
    assert schema.label is not None
    if schema.columns[schema.label].has_position:
        regressors = evaluation.compare_regressors(
            real, synthetic, vf.Schema(short, label=schema.label)
        ).scores
        return {f"{name}, R2": score.r2 for name, score in regressors.items()}
    scores = evaluation.compare_classifiers(
        real, synthetic, vf.Schema(short, label=schema.label), classifiers=CLASSIFIERS
    ).scores
    found = {}
    for name, score in scores.items():
        found |= {f"{name}, AUROC": score.auroc, f"{name}, macro-F1": score.macro_f1}
    return found
