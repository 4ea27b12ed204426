"""What always holds in the rows of a table, found in the rows themselves: as private as they are.

Statements are looked for in a sample of the rows, and measured in all of them. One is kept if it holds
in nearly all rows, and would not if the columns had nothing to do with each other: that `age <= income`
is no finding if any age is below any income.
"""

import dataclasses
from typing import TYPE_CHECKING

from veilflow._core import check
from veilflow.evaluation._cells import check_frames, subsample
from veilflow.evaluation.structure.relations import Digits, Follows, Part, Total
from veilflow.evaluation.structure.search import ALWAYS, LEAST_ROWS, Search
from veilflow.evaluation.structure.search_gaps import gaps
from veilflow.evaluation.structure.search_pairs import (
    equal,
    following,
    near,
    of_digits,
    ordered,
    parts_of_moments,
    scaled,
)
from veilflow.evaluation.structure.search_single import statements_of
from veilflow.evaluation.structure.search_sums import products, sums
from veilflow.evaluation.structure.statement import Statement, Table, is_number, measured
from veilflow.tabular.schema import Schema

if TYPE_CHECKING:
    import pandas as pd

_SEARCHES = (
    gaps,
    equal,
    of_digits,
    parts_of_moments,
    scaled,
    sums,
    products,
    near,
    ordered,
    following,
)
"""In this order: what is explained by an earlier one is not found again by a later one."""


def find_structure(
    frame: "pd.DataFrame", schema: Schema, *, max_rows: int = 20_000, seed: int = 0
) -> tuple[Statement, ...]:
    """Find what holds in nearly all rows: gaps, equal columns, order, functions, round numbers, lists.

    The result holds facts about the rows and is as private as they are.

    Args:
        frame: Rows, with all columns of the schema.
        schema: The declared columns; bounds may be unknown.
        max_rows: The most rows to look in. All rows are used to measure what was found there.
        seed: The seed by which these rows are drawn.

    Returns:
        Statements with their share in all rows: about gaps first, then about several columns, then
        about single ones.
    """
    check.count(max_rows=max_rows, at_least=LEAST_ROWS)
    check_frames(schema, frame=frame)
    search = Search.of(subsample(frame, max_rows, seed=seed), schema, seed)
    table = Table(frame)
    found: list[Statement] = []
    for look in _SEARCHES:
        found += search.confirmed(look(search, tuple(found)))
    for name, column in schema.columns.items():
        if is_number(column) and not any(_makes(one, name) for one in found):
            found += statements_of(name, column, search.table, table)
    kept = []
    for statement in found:
        share, support = measured(statement, table)
        if share >= (ALWAYS if statement.is_rule else 0) and support > 0:
            kept.append(dataclasses.replace(statement, share=share, support=support))
    return tuple(kept)


def _makes(statement: Statement, name: str) -> bool:
    """Whether a statement says what a column is: then what holds in it alone is no news."""
    return isinstance(statement, Digits | Part | Follows | Total) and statement.columns[0] == name
