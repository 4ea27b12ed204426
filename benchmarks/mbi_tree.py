"""The peer of the marginals: noisy pairs of columns along a tree, joined by the inference of `mbi`.

It gets for free what ours has to pay for: the spanning tree of the pairs that depend most on each
other and the bins of numbers are read from the records. All noise is one Gaussian release.
"""

import json
import sys
import warnings
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

import veilflow as vf
from benchmarks import marginals
from benchmarks.timing import clock
from veilflow.privacy import calibration

BINS = 32
"""Approximate number of bins of a number: half of equal width, half of about equal mass."""


def measure(name: str, size: int, num_fresh: int, epsilon: float) -> marginals.Figures:
    """The figures of one fit, as `marginals.ours` has them."""
    records, fresh, schema = marginals.tables(name, size, num_fresh)
    mu = calibration.gaussian_mu(vf.Budget(epsilon=epsilon, delta=marginals.DELTA))
    made: list[pd.DataFrame] = []
    num_rows = max(num_fresh, size)
    seconds = clock(lambda: made.append(synthesize(records, schema, mu=mu, num_rows=num_rows)))
    return {**marginals.figures(made[0], fresh, schema, size), "seconds": seconds}


def synthesize(
    records: pd.DataFrame, schema: vf.Schema, *, mu: float, num_rows: int
) -> pd.DataFrame:
    """Rows of a model of noisy tables."""
    import mbi

    rng = np.random.default_rng(marginals.SEED)
    edges = {name: _edges(records[name].to_numpy(), c) for name, c in schema.columns.items()}
    codes = {name: _codes(records[name], c, edges[name]) for name, c in schema.columns.items()}
    sizes = {name: _size(c, edges[name]) for name, c in schema.columns.items()}
    asked = _tables(codes, sizes, schema.label)
    deviation = len(asked) ** 0.5 / mu  # a record is in one cell of each
    measured = []
    for names in asked:
        counts = _counts(codes, sizes, names)
        noisy = counts + deviation * rng.normal(size=counts.size)
        measured.append(mbi.LinearMeasurement(noisy, names, deviation))
    domain = mbi.Domain(tuple(sizes), tuple(sizes.values()))
    model: Any = mbi.estimation.MirrorDescent().estimate(domain, measured, known_total=len(records))
    np.random.seed(marginals.SEED)  # noqa: NPY002  its rows come from the global generator
    drawn = model.synthetic_data(rows=num_rows).to_dict()
    return pd.DataFrame(
        {name: _cells(drawn[name], c, edges[name], rng) for name, c in schema.columns.items()}
    )


def _edges(values: np.ndarray, column: Any) -> np.ndarray | None:
    """Where bins of whole numbers begin, and where the last one ends; None for categories."""
    if not column.has_position:
        return None
    even = np.linspace(column.low, column.high + 1, BINS // 2 + 1).round()
    quantiles = np.quantile(values, np.arange(1, BINS // 2) / (BINS // 2)).round()
    # a value that is several quantiles is a heap: a bin of its own
    found, times = np.unique(quantiles, return_counts=True)
    return np.unique([*even, *found, *(found[times > 1] + 1)])


def _size(column: Any, edges: np.ndarray | None) -> int:
    return len(column.values) if edges is None else len(edges) - 1


def _codes(cells: Any, column: Any, edges: np.ndarray | None) -> np.ndarray:
    if edges is None:
        return pd.Index(column.values).get_indexer(pd.Index(cells))
    return np.searchsorted(edges, cells.to_numpy(), side="right") - 1


def _cells(
    codes: np.ndarray, column: Any, edges: np.ndarray | None, rng: np.random.Generator
) -> np.ndarray:
    """Categories by name; numbers drawn evenly from their bin."""
    if edges is None:
        return np.array(column.values)[codes]
    return rng.integers(edges[codes].astype(int), edges[codes + 1].astype(int))


def _tables(codes: dict, sizes: dict, label: str | None) -> list[tuple[str, ...]]:
    """Single columns, the edges of the tree, and each column with the label."""
    tree: list[tuple[str, ...]] = []
    joined = {name: name for name in codes}
    for pair in sorted(combinations(codes, 2), key=lambda p: -_dependence(codes, sizes, p)):
        one, two = (joined[name] for name in pair)
        if one != two:
            tree.append(pair)
            joined = {name: one if root == two else root for name, root in joined.items()}
    with_label = [(name, label) for name in codes if label is not None and name != label]
    known = {frozenset(pair) for pair in tree}
    star = [pair for pair in with_label if frozenset(pair) not in known]
    return [*((name,) for name in codes), *tree, *star]


def _dependence(codes: dict, sizes: dict, names: tuple[str, ...]) -> float:
    """The distance of a table from that of independent columns."""
    table = _counts(codes, sizes, names).reshape([sizes[name] for name in names])
    expected = table.sum(1, keepdims=True) * table.sum(0, keepdims=True) / table.sum()
    return float(np.abs(table - expected).sum())


def _counts(codes: dict, sizes: dict, names: tuple[str, ...]) -> np.ndarray:
    shape = [sizes[name] for name in names]
    places = np.ravel_multi_index([codes[name] for name in names], shape)
    return np.bincount(places, minlength=int(np.prod(shape))).astype(float)


if __name__ == "__main__":
    import jax

    jax.config.update("jax_enable_x64", True)  # as it asks
    warnings.simplefilter("ignore")
    name, size, num_fresh, epsilon = sys.argv[1:]
    print(json.dumps(measure(name, int(size), int(num_fresh), float(epsilon))))
