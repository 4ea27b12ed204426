"""What always holds in one column of numbers: steps, spikes, sparse values, times as whole numbers."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from veilflow.evaluation.structure.single import (
    FORMS,
    Format,
    Multiple,
    OftenMultiple,
    Sparse,
    Spike,
    multiples,
)
from veilflow.evaluation.structure.statement import Statement, Table
from veilflow.tabular.columns import Column, Datetime, Numeric

_ALWAYS = 0.99
_STEPS = tuple(times * 10.0**power for power in range(-6, 13) for times in (1, 5))
_LEAST_MULTIPLES = 5
"""The fewest multiples of a step that the range must have."""
_OFTEN = 0.05
"""The least share of rounder numbers, beyond that by chance."""
_MANY = 30
"""A spike is a value among more than so many."""
_HIGH, _TALL = 0.02, 5.0
"""The least share of a spike, and its least height, in heights of its neighbors."""
_MOST_SPIKES = 3
_MOST_SPARSE = 2000
_FULL = 0.3
"""The largest share of a grid that sparse values take."""


def statements_of(name: str, column: Column, sample: Table, table: Table) -> Iterator[Statement]:
    """What holds in a column by itself.

    Args:
        name: Its name.
        column: Its declaration.
        sample: The rows to look in.
        table: All rows, from which lists of values are taken.
    """
    cells = sample.numbers(name, column)
    cells = cells[~np.isnan(cells)]
    about: dict[str, Any] = {"columns": (name,), "declared": (column,)}
    if len(cells) < _MANY or not isinstance(column, Numeric | Datetime):
        return
    if isinstance(column, Datetime):
        values, counts = np.unique(cells, return_counts=True)
        yield from (Spike(**about, value=v) for v in _spikes(values, counts))
        return
    yield from (Format(**about, form=form) for form in _forms(cells))
    grid = _grid(cells)
    if grid is not None and grid > (column.step or 0) * 1.5:
        yield Multiple(**about, step=grid)
    values, counts = np.unique(table.numbers(name, column), return_counts=True)
    counts = counts[~np.isnan(values)]
    values = values[~np.isnan(values)]
    if _is_sparse(values, counts, grid):
        yield Sparse(**about, values=tuple(values.tolist()))
    spikes = _spikes(values, counts)
    yield from (Spike(**about, value=value) for value in spikes)
    often = _often(cells[~np.isin(cells, spikes)], grid)
    if often is not None:
        yield OftenMultiple(**about, step=often)


def _reach(cells: np.ndarray) -> float:
    """The range in which nearly all numbers lie."""
    low, high = np.quantile(cells, (0.005, 0.995))
    return float(high - low)


def _grid(cells: np.ndarray) -> float | None:
    """The largest step of which nearly all numbers are multiples."""
    some = cells[cells != 0]
    reach = _reach(cells)
    for step in reversed(_STEPS):
        if step * _LEAST_MULTIPLES <= reach and multiples(some, step).mean() >= _ALWAYS:
            return step
    return None


def _often(cells: np.ndarray, grid: float | None) -> float | None:
    """The largest step of which far more numbers are multiples than by chance."""
    some = cells[cells != 0]
    if len(some) < _MANY:
        return None
    reach, base = _reach(some), grid or 0.0
    excess = {}
    for step in _STEPS:
        if step > 1.5 * base and step * _LEAST_MULTIPLES <= reach:
            chance = base / step
            share = float(multiples(some, step).mean())
            excess[step] = (share - chance) / (1 - chance)
    best = max(excess.values(), default=0.0)
    if best < _OFTEN:
        return None
    return max(step for step, more in excess.items() if more >= 0.8 * best)


def _is_sparse(values: np.ndarray, counts: np.ndarray, grid: float | None) -> bool:
    if not len(values) or len(values) > _MOST_SPARSE or counts.sum() < 20 * len(values):
        return False
    if len(values) == 1:
        return True
    cells = np.inf if grid is None else (values[-1] - values[0]) / grid + 1
    return len(values) <= _FULL * cells


def _spikes(values: np.ndarray, counts: np.ndarray) -> list[float]:
    """The values that are far more frequent than those beside them."""
    if len(values) <= _MANY:
        return []
    shares = counts / counts.sum()
    beside = np.stack([np.roll(shares, shift) for shift in (-3, -2, -1, 1, 2, 3)])
    tall = (shares >= _HIGH) & (shares >= _TALL * np.median(beside, axis=0))
    best = np.flatnonzero(tall)
    best = best[np.argsort(-shares[best], kind="stable")][:_MOST_SPIKES]
    return values[best].tolist()


def _forms(cells: np.ndarray) -> Iterator[str]:
    """The ways of writing times that nearly all numbers follow, and few would by chance."""
    hours, minutes = (np.unique(part) for part in (cells // 100, cells % 100))
    # years such as 2019 are no times: these have many hours, and minutes up to 59
    varied = len(hours) > 5 and len(minutes) > 10 and minutes[-1] >= 50
    if varied and FORMS["clock"][1](cells).mean() >= 0.999:
        yield "clock"
    days = (cells >= 1500_01_01) & (cells <= 2199_12_31)
    if days.mean() >= _ALWAYS and FORMS["day"][1](cells[days]).mean() >= 0.999:
        yield "day"
