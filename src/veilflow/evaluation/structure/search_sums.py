"""Columns that are sums or products of others."""

import itertools
from collections.abc import Iterator

import numpy as np

from veilflow.evaluation.structure.relations import (
    Product,
    Total,
)
from veilflow.evaluation.structure.search import (
    LEAST_ROWS,
    SCREENED,
    Found,
    Search,
    agreeing,
    num_values,
    related,
)
from veilflow.evaluation.structure.statement import Statement, same

_MOST_SUMMED = 60
"""The most columns of numbers that are tried: there are too many triples else."""


def sums(search: Search, found: Found) -> Iterator[Statement]:
    """One column is the sum of two others, or of several."""
    known = related(found)
    places = _measured(search)
    seen: set[frozenset[str]] = set()
    for i, j in itertools.combinations(places, 2):
        x, ys = search.screened(i)
        made = x + ys[:, j]
        for z in agreeing(_close(made, ys), ys, made):
            names = tuple(search.names[k] for k in (z, i, j))
            group = frozenset(names)
            pairs = map(frozenset, itertools.combinations(names, 2))
            if len(group) == 3 and group not in seen and not known & set(pairs):
                seen.add(group)
                yield Total(**search.declared(*names), signs=(1, 1))
    yield from _long_sums(search, places, seen)


def _long_sums(search: Search, places: list[int], seen: set[frozenset[str]]) -> Iterator[Statement]:
    """Sums of three and more columns, by least squares on rows without gaps."""
    few = [k for k in places if np.isnan(search.numbers[:, k]).mean() < 0.2]
    rows = search.numbers[search.order][:, few]
    rows = rows[~np.isnan(rows).any(axis=1)][: max(SCREENED, 10 * len(few))]
    scale = np.abs(rows).max(axis=0, initial=1e-9)
    if len(rows) < max(5 * len(few), 2 * LEAST_ROWS):
        return
    for k in np.argsort(-np.abs(rows).mean(axis=0)):
        others = np.delete(np.arange(len(few)), k)
        weights, _, rank, _ = np.linalg.lstsq(
            rows[:, others] / scale[others], rows[:, k], rcond=None
        )
        weights = weights / scale[others]
        signs = np.round(weights)
        used = np.flatnonzero(signs)
        exact = np.abs(weights - signs) < 1e-6
        if len(used) < 3 or (np.abs(signs) > 1).any() or not exact.all() or rank < len(others):
            continue
        names = [search.names[few[k]], *(search.names[few[others[u]]] for u in used)]
        if frozenset(names) not in seen:
            seen.add(frozenset(names))
            yield Total(**search.declared(*names), signs=tuple(int(signs[u]) for u in used))


def products(search: Search, found: Found) -> Iterator[Statement]:
    """One column is the product of two others."""
    known = related(found)
    places = _measured(search)
    for i, j in itertools.combinations_with_replacement(places, 2):
        x, ys = search.screened(i)
        made = x * ys[:, j]
        if np.count_nonzero(np.isin(np.abs(ys[:, j]), (0, 1))) > len(ys) / 2:
            continue  # a product with 0 and 1 is no product
        for z in agreeing(same(made[:, None], ys), ys, made):
            names = tuple(search.names[k] for k in (z, i, j))
            pairs = map(frozenset, itertools.combinations(names, 2))
            if z not in (i, j) and not known & set(pairs):
                yield Product(**search.declared(*names))


def _close(made: np.ndarray, others: np.ndarray) -> np.ndarray:
    return np.abs(made[:, None] - others) <= 1e-6 * np.abs(others)


def _measured(search: Search) -> list[int]:
    """Columns of numbers that vary much, and so may be sums: the first ones."""
    return [
        place
        for place, name in enumerate(search.names)
        if search.column(name).kind == "numeric" and num_values(search, name) > 10
    ][:_MOST_SUMMED]
