"""Columns that are empty together, because another is, or because another has some value."""

import itertools
from collections.abc import Iterator

import numpy as np

from veilflow.evaluation.structure.relations import (
    GapByValue,
    ImpliedGap,
    MissingTogether,
)
from veilflow.evaluation.structure.search import (
    ALWAYS,
    LEAST_ROWS,
    LIKELY,
    Found,
    Search,
    num_values,
    without_detours,
)
from veilflow.evaluation.structure.statement import Statement

_FEW = 50
"""The most values of a column that may tell where another is empty."""


def gaps(search: Search, found: Found) -> Iterator[Statement]:
    """Columns that are empty together, because another is, or because another has some value."""
    columns = search.schema.columns
    gaps = {name: search.table.missing(name, column) for name, column in columns.items()}
    gaps = {name: gap for name, gap in gaps.items() if LEAST_ROWS <= gap.sum() < len(gap)}
    names = list(gaps)
    if not names:
        return
    masks = np.stack([gaps[name] for name in names]).astype(np.float32)
    both, each = masks @ masks.T, masks.sum(axis=1)
    either = each[:, None] + each[None] - both
    groups = _groups(both >= ALWAYS * either)
    for group in groups:
        if len(group) > 1:
            yield MissingTogether(**search.declared(*(names[i] for i in group)))
    firsts = [group[0] for group in groups]
    implied = {
        (i, j)
        for i, j in itertools.permutations(firsts, 2)
        if both[i, j] >= ALWAYS * each[i] and each[j] <= LIKELY * len(masks[0])
    }
    for i, j in sorted(without_detours(implied)):
        yield ImpliedGap(**search.declared(names[i], names[j]))
    few = [name for name in columns if num_values(search, name) <= _FEW]
    for i in firsts:
        ranked = [one for name in few if (one := _gap_by_value(search, names[i], gaps, name))]
        yield from [one for _, one in sorted(ranked, key=lambda pair: -pair[0])[:1]]


def _gap_by_value(
    search: Search, name: str, gaps: dict[str, np.ndarray], other: str
) -> tuple[float, Statement] | None:
    """Values of another column where this one is empty, and how many of its gaps they explain."""
    gap = gaps[name]
    values, places = search.table.values(other, search.column(other))
    if name == other or len(values) < 2:
        return None
    counts = np.bincount(places + 1, minlength=len(values) + 1)[1:]
    empty = np.bincount(places + 1, weights=gap, minlength=len(values) + 1)[1:]
    chosen = (counts >= 10) & (empty >= ALWAYS * counts)
    if not chosen.any() or chosen.all():
        return None
    explained = empty[chosen].sum() / gap.sum()
    statement = GapByValue(
        **search.declared(name, other),
        values=tuple(value for value, here in zip(values, chosen, strict=True) if here),
        only=bool(explained >= ALWAYS),
    )
    return explained, statement


def _groups(alike: np.ndarray) -> list[list[int]]:
    """Places in groups of which all are like the first."""
    groups: list[list[int]] = []
    for place in range(len(alike)):
        home = next((group for group in groups if alike[group[0], place]), None)
        if home is None:
            groups.append([place])
        else:
            home.append(place)
    return groups
