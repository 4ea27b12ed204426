"""Values and bounds that nobody declared: found by mechanisms that are paid for.

A value of an open list is released if many records hold it; one that a single record holds passes with
probability at most delta. Bounds are powers of two that hold nearly all records.
"""

import dataclasses
import math
from typing import Any

import numpy as np

from veilflow.models.table.recipe import TableRecipe
from veilflow.privacy.guarantees import Sensitive
from veilflow.privacy.mechanisms import discover_categories, private_bounds
from veilflow.tabular.codec import open_numbers, open_values
from veilflow.tabular.columns import Column, Numeric, OpenCategorical
from veilflow.tabular.schema import Schema

_SMALLEST, _LARGEST = 2.0**-20, 2.0**60
"""Magnitudes between which bounds are looked for."""
_MOST_STEPS = 2.0**45
"""Steps of a grid between zero and the largest bound."""


def open_columns(schema: Schema) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Columns whose values, and columns whose bounds, have to be discovered."""
    lists = tuple(n for n in schema.open if isinstance(schema.columns[n], OpenCategorical))
    return lists, tuple(n for n in schema.open if n not in lists)


def discover(
    source: Any, schema: Schema, recipe: TableRecipe, *, private: bool
) -> tuple[Schema, dict[str, tuple[str, ...]]]:
    """The schema with bounds for every number, and a vocabulary for every open list.

    Guarantee:
        For each open list an (epsilon, delta) release, for each unknown range an epsilon release,
        as the recipe says; without `private` they are read from the data, and the ledger says so.
    """
    lists, ranges = open_columns(schema)
    found: dict[str, Column] = {}
    for name, values in open_numbers(source, schema, ranges).items() if ranges else ():
        column = schema.columns[name]
        assert isinstance(column, Numeric)
        low, high = _range(values, column.step, recipe.discovery_epsilon, private=private)
        found[name] = dataclasses.replace(column, low=low, high=high)
    vocabularies = {}
    for name, (words, places) in open_values(source, schema).items() if lists else ():
        column = schema.columns[name]
        assert isinstance(column, OpenCategorical)
        counts = _counts(words, places, recipe, private=private)
        kept = sorted(counts, key=lambda word: (-counts[word], word))[: column.max_values]
        vocabularies[name] = tuple(sorted(kept))
    return schema.with_columns(found), vocabularies


def widest(column: Numeric) -> Numeric:
    """The column with the widest bounds that `discover` may find: public."""
    # bounds are powers of two, the last of them the first that is large enough
    reach = 2.0 ** math.ceil(math.log2(_largest(column.step)))
    low, high = _on_grid(-reach, reach, column.step)
    return dataclasses.replace(column, low=low, high=high)


def _largest(step: float | None) -> float:
    """Public: a grid must not have more values than double precision tells apart."""
    return _LARGEST if step is None else min(_LARGEST, step * _MOST_STEPS)


def _on_grid(low: float, high: float, step: float | None) -> tuple[float, float]:
    if step is None:
        return low, high
    return math.floor(low / step) * step, math.ceil(high / step) * step


def _range(
    values: np.ndarray, step: float | None, epsilon: float, *, private: bool
) -> tuple[float, float]:
    """Bounds of numbers, on the grid if they have one."""
    largest = _largest(step)
    if private:
        smallest = min(_SMALLEST, largest / _MOST_STEPS)
        found = private_bounds(
            Sensitive(values), epsilon=epsilon, smallest=smallest, largest=largest
        )
        low, high = found.value
    else:
        there = np.clip(values[np.isfinite(values)], -largest, largest)
        low, high = (float(there.min()), float(there.max())) if there.size else (0.0, 1.0)
        high = high if low < high else low + 1.0
    return _on_grid(low, high, step)


def _counts(
    words: list[str], places: np.ndarray, recipe: TableRecipe, *, private: bool
) -> dict[str, int]:
    if not private:
        counts = np.bincount(places[places >= 0], minlength=len(words)).tolist()
        return dict(zip(words, counts, strict=True))
    # who says nothing votes for None, which is no word
    said = np.array([*words, None], object)[places]
    released = discover_categories(
        Sensitive(said), epsilon=recipe.discovery_epsilon, delta=recipe.discovery_delta
    )
    return {word: count for word, count in released.value if isinstance(word, str)}
