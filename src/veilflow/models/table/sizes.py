"""How many numbers a fit of a table has at most, known before the rows.

How many numbers get noise depends on what is discovered and on how numbers are cut into bins. Its
price, the distance of grid noise from a Gaussian, grows with their number; so it is settled for the
most that there can be. Counts, discoveries and choices of marginals draw exact noise in any case.
"""

from collections.abc import Iterator
from typing import Any

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
from veilflow.tabular.columns import Column, Numeric, OpenCategorical, Ordinal
from veilflow.tabular.schema import Schema

_MOST_SPIKES = 20
"""Bins of a column that hold a twentieth of it or more, which a flow of codes sees one by one."""
_BINS = 3
"""Bins over `most_bins`: those of the rest, heavy cells, and what is cut off between them."""


def largest_flow(schema: Schema, flow: CodeArchitecture | HFlowArchitecture) -> Any:
    """The shapes of a flow with at least as many numbers as the one that will be trained.

    Args:
        schema: As declared.
        flow: With all of its sizes.
    """
    key = jax.random.key(0)  # shapes are all that is made
    columns = schema.columns.values()
    if isinstance(flow, HFlowArchitecture):
        variables = Variables(_kinds(schema))
        return eqx.filter_eval_shape(lambda: flow.build(variables, key=key))
    assert flow.hidden is not None
    hidden = flow.hidden
    # a network sees as many numbers of a listed column as it has codes
    seen = [np.ones(_most_features(column, flow)) for column in columns]
    book = Codebook.create(seen, ordered=[False] * len(seen))
    return eqx.filter_eval_shape(lambda: CodeFlow.create(book, key=key, hidden=hidden))


def histogram_numbers(schema: Schema) -> int:
    """Numbers in the histograms of all columns, at most."""
    total = 0
    for column in schema.columns.values():
        if column.has_position:
            total += sum(level_sizes(_most_cells(column))) + column.nullable
        else:
            total += _listed_codes(column)
    return total


def histogram_levels(schema: Schema) -> int:
    """Numbers in these histograms that one row changes, at most."""
    return sum(
        len(level_sizes(_most_cells(column))) if column.has_position else 1
        for column in schema.columns.values()
    )


def most_codes(schema: Schema, *, most_bins: int) -> tuple[int, ...]:
    """Codes of each column in the model, at most."""
    return tuple(
        _BINS * most_bins + column.nullable if column.has_position else _listed_codes(column)
        for column in schema.columns.values()
    )


def _most_features(column: Column, flow: CodeArchitecture) -> int:
    """Numbers that a flow of codes sees of a column, at most."""
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
    """Variables of the paper's flow, with as many codes as there can be."""
    for column in schema.columns.values():
        if not column.has_position:
            yield Listed(_listed_codes(column))
            continue
        if column.nullable:
            yield Listed(2)
        yield Continuous()
