"""The density of a table model from the arrays of its file, and the shapes that these must have."""

from dataclasses import asdict
from typing import Any

import numpy as np

from veilflow.models.table import coding
from veilflow.models.table.architecture import HFlowArchitecture
from veilflow.models.table.code_density import CodeDensity
from veilflow.models.table.coder import CodedColumn, Coder
from veilflow.models.table.density import AbstractTableDensity
from veilflow.models.table.hflow_density import HFlowDensity
from veilflow.models.table.table_plan import TablePlan
from veilflow.releases.table.cells import cells_of
from veilflow.tabular.columns import Ordinal
from veilflow.tabular.encoded import Vocabularies
from veilflow.tabular.facts import OTHER
from veilflow.tabular.schema import Schema


def arrays_of(density: AbstractTableDensity) -> dict[str, Any]:
    """The released numbers of a density, as a tree."""
    return {"columns": coding.arrays_of(density.coder), "flow": density.arrays()}


def shapes_of(
    plan: TablePlan,
    schema: Schema,
    vocabularies: Vocabularies,
    *,
    num_codes: tuple[int, ...],
    num_features: tuple[int, ...],
    num_numbers: int,
) -> dict[str, Any]:
    """The shapes of `arrays_of`.

    Args:
        plan: Of the fit.
        schema: With what was discovered.
        vocabularies: Likewise.
        num_codes: Of each column.
        num_features: See `AbstractTableDensity`.
        num_numbers: How many numbers there are in all.

    Raises:
        ValueError: There is no such model.
    """
    flow, columns = plan.flow, schema.columns.values()
    if flow.hidden is None or None in asdict(flow).values():
        raise ValueError("the plan leaves sizes of the flow open.")
    # before anything is built: a file cannot ask for more work than it has numbers
    asked = sum(abs(size) for size in (*num_codes, *num_features, *flow.hidden))
    if isinstance(flow, HFlowArchitecture):
        asked += flow.blocks + flow.bins
    if asked > num_numbers or min((*num_codes, *num_features), default=0) < 0:
        raise ValueError("there are not as many numbers as the settings ask for.")
    coded = coding.shapes_of(schema, vocabularies, num_codes)
    if isinstance(flow, HFlowArchitecture):
        if num_features:
            raise ValueError("only the flow of codes has features.")
        kinds = [
            CodedColumn(
                np.zeros(num),
                False,
                column.nullable,
                cells_of(column) if column.has_position else None,
            )
            for num, column in zip(num_codes, columns, strict=True)
        ]
        return {"columns": coded, "flow": HFlowDensity.shapes(Coder(tuple(kinds)), flow)}
    if len(num_features) != len(num_codes):
        raise ValueError("there must be a number of features for each column.")
    ordered = tuple(column.has_position or isinstance(column, Ordinal) for column in columns)
    return {
        "columns": coded,
        "flow": CodeDensity.shapes(
            num_codes, num_features, flow, ordered=ordered, label=plan.label
        ),
    }


def restored(
    plan: TablePlan, schema: Schema, vocabularies: Vocabularies, arrays: dict[str, Any]
) -> AbstractTableDensity:
    """The density that `arrays_of` described.

    Raises:
        ValueError: The parts do not belong together.
    """
    _check_discovered(plan, schema, vocabularies)
    coder = coding.restored(schema, arrays["columns"])
    if isinstance(plan.flow, HFlowArchitecture):
        return HFlowDensity.restored(coder, arrays["flow"], plan.flow)
    return CodeDensity.restored(coder, arrays["flow"], plan.flow, label=plan.label)


def _check_discovered(plan: TablePlan, schema: Schema, vocabularies: Vocabularies) -> None:
    """Raise unless the schema is the declared one, but for what was discovered."""
    known = {name: plan.schema.columns[name] for name in plan.schema.open}
    if schema.names != plan.schema.names or schema.with_columns(known) != plan.schema:
        raise ValueError("more than what was open is not as it was declared.")
    if set(vocabularies) != set(schema.open):
        raise ValueError("there must be a vocabulary for each open column, and for no other.")
    for words in vocabularies.values():
        if len({*words, OTHER}) <= len(words):
            raise ValueError("a vocabulary must be a list of different texts.")
