"""Upper bounds on the number of released numbers of a table fit, known before the rows are.

How many numbers get noise depends on what is discovered and on how numbers are cut into bins. The
distance of grid noise from a Gaussian, which is paid for, grows with their number; so the price is
settled for the largest number there can be. Counts, discoveries and choices of marginals draw exact
noise in any case.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np

from veilflow.flows.code_flow import CodeFlow
from veilflow.flows.codebook import Codebook
from veilflow.flows.variables import Continuous, Kind, Listed, Variables
from veilflow.models.table.architecture import CodeArchitecture, HFlowArchitecture
from veilflow.releases.table.cells import cells_of, most_cells
from veilflow.releases.table.discovery import widest
from veilflow.releases.table.histograms import level_sizes
from veilflow.releases.table.units import has_units, most_shape
from veilflow.tabular.columns import Column, Numeric, OpenCategorical, Ordinal
from veilflow.tabular.schema import Schema

_MOST_SPIKES = 20
"""A flow of codes sees each bin that holds a twentieth of its column or more as a feature."""
_USUAL_VALUES = 50
"""A guess of the values of an open column that will be discovered."""
_BINS = 3
"""Largest number of bins over `most_bins`: even bins, heavy cells, and the bins cut off by those."""


def largest_flow(schema: Schema, flow: CodeArchitecture | HFlowArchitecture) -> Any:
    """The shapes of a flow with at least as many numbers as the one that will be trained.

    Args:
        schema: The declared schema.
        flow: The flow with all of its sizes.
    """
    key = jax.random.key(0)  # only shapes are computed
    columns = schema.columns.values()
    if isinstance(flow, HFlowArchitecture):
        variables = Variables(_kinds(schema))
        return eqx.filter_eval_shape(lambda: flow.build(variables, key=key))
    assert flow.hidden is not None
    assert flow.direct is not None
    size = {"hidden": flow.hidden, "direct": flow.direct}
    # a listed column has as many features as codes
    features = [np.ones(_most_features(column, flow)) for column in columns]
    book = Codebook.create(features, ordered=[False] * len(features))
    return eqx.filter_eval_shape(lambda: CodeFlow.create(book, key=key, **size))


def num_features(schema: Schema, *, num_waves: int) -> int:
    """About how many features a flow of codes has of a row, if open columns have few values."""
    total = 0
    for column in schema.columns.values():
        codes = num_waves if column.has_position else _listed_codes(column)
        total += min(codes, _USUAL_VALUES) if isinstance(column, OpenCategorical) else codes
    return total


def histogram_numbers(schema: Schema) -> int:
    """The largest number of counts in the histograms of all columns."""
    total = 0
    for column in schema.columns.values():
        if column.has_position:
            total += sum(level_sizes(_most_cells(column))) + column.nullable
        else:
            total += _listed_codes(column)
    return total


def histogram_levels(schema: Schema) -> int:
    """The largest number of these counts that one row changes."""
    return sum(
        len(level_sizes(_most_cells(column))) if column.has_position else 1
        for column in schema.columns.values()
    )


class Most(NamedTuple):
    """Numbers of a histogram, and how many of them one row changes."""

    numbers: int
    touched: int


def most_difference_cells(schema: Schema) -> Most:
    """The largest histogram of the difference of two numbers."""
    cells = 1
    for column in schema.columns.values():
        if not isinstance(column, Numeric):
            continue
        wide = widest(column) if column.low is None else column
        for one in (wide, replace(wide, resolution=None, integer=False)):
            assert one.low is not None
            assert one.high is not None
            # a difference may have either sign, and the step of its column or none
            both = replace(one, low=one.low - one.high, high=one.high - one.low)
            cells = max(cells, most_cells(both))
    levels = level_sizes(cells)
    return Most(sum(levels) + 1, len(levels))


def unit_levels(schema: Schema) -> int:
    """The largest number of counts of round numbers of all columns."""
    total = 0
    for column in schema.columns.values():
        if isinstance(column, Numeric) and has_units(column):
            magnitudes, levels = most_shape(widest(column) if column.low is None else column)
            total += magnitudes * levels
    return total


def most_codes(schema: Schema, *, most_bins: int) -> tuple[int, ...]:
    """The largest number of codes of each column."""
    return tuple(
        _BINS * most_bins + column.nullable if column.has_position else _listed_codes(column)
        for column in schema.columns.values()
    )


def _most_features(column: Column, flow: CodeArchitecture) -> int:
    """The largest number of features that a flow of codes has of a column."""
    if column.has_position or isinstance(column, Ordinal):
        assert flow.num_waves is not None
        return flow.num_waves + _MOST_SPIKES + column.nullable
    return _listed_codes(column)


def _listed_codes(column: Column) -> int:
    if isinstance(column, OpenCategorical):  # and one for all others
        return column.max_values + 1 + column.nullable
    return column.num_codes()


def _most_cells(column: Column) -> int:
    if isinstance(column, Numeric) and column.low is None:  # to be discovered
        return most_cells(widest(column))
    return cells_of(column).num


def _kinds(schema: Schema) -> Iterator[Kind]:
    """The variables of the paper's flow, with the largest number of codes."""
    for column in schema.columns.values():
        if not column.has_position:
            yield Listed(_listed_codes(column))
            continue
        if column.nullable:
            yield Listed(2)
        yield Continuous()
