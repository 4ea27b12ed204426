"""The parts of a table model, from what a fit released and from the arrays of a file."""

from dataclasses import asdict
from functools import partial
from typing import Any

import jax
import numpy as np

from veilflow.models.estimator import Fit
from veilflow.models.table.architecture import HFlowArchitecture
from veilflow.models.table.code_density import CodeDensity
from veilflow.models.table.coder import CodedColumn, Coder, Details, coder_of, tail_groups
from veilflow.models.table.density import AbstractTableDensity
from veilflow.models.table.hflow_density import HFlowDensity
from veilflow.models.table.table_plan import TablePlan
from veilflow.models.table.warm_start import WARM, started_warm
from veilflow.privacy.guarantees import Sensitive
from veilflow.releases.marginals.release import Marginals
from veilflow.releases.release import Derived, Monitor
from veilflow.releases.table.cells import cells_of
from veilflow.releases.table.details import ColumnDetails
from veilflow.releases.table.discovery import ColumnBounds, ColumnValues
from veilflow.releases.table.histograms import ColumnHistograms
from veilflow.releases.table.units import units_of
from veilflow.releases.training import PrivateTraining, trained
from veilflow.tabular.columns import Ordinal
from veilflow.tabular.encoded import EncodedRows, Vocabularies
from veilflow.tabular.facts import OTHER
from veilflow.tabular.schema import Schema, replace_column

# -- from what was released ------------------------------------------------------------------------


def schema(fit: Fit) -> Schema:
    """The declared schema, with bounds for every number."""
    declared: Schema = fit.plan.schema
    bounds = {one.column: one for one in fit.plan.releases if isinstance(one, ColumnBounds)}
    columns = {}
    for name, release in bounds.items():
        low, high = fit.released[release.purpose]
        columns[name] = replace_column(declared.columns[name], low=low, high=high)
    return declared.with_columns(columns)


def vocabularies(fit: Fit) -> dict[str, tuple[str, ...]]:
    """The discovered values of every open column."""
    lists = (one for one in fit.plan.releases if isinstance(one, ColumnValues))
    return {one.column: fit.released[one.purpose] for one in lists}


def rows(fit: Fit) -> Sensitive[EncodedRows]:
    """The records, encoded by declared and discovered facts."""
    closed, words = schema(fit), vocabularies(fit)
    encode = partial(_encoded, schema=closed, vocabularies=words)
    return fit.source.view("encoded", lambda: fit.source.records.map(encode))


def _encoded(raw: Any, **facts: Any) -> EncodedRows:
    return raw.encoded(**facts)


def coder(fit: Fit) -> Coder:
    """The codes of the table: from the histograms of columns and, if there is one, a warm start."""
    release = fit.plan.release(ColumnHistograms)
    coder = coder_of(
        fit.released[release.purpose],
        tuple(schema(fit).columns.values()),
        deviation=release.deviation,
        most_bins=fit.plan.flow.most_bins,
        num_records=fit.num_records,
        details=_details(fit),
    )
    return coder.with_masses(fit.released[WARM]["masses"]) if WARM in fit.released else coder


def tails(fit: Fit) -> list[Any]:
    """The groups of cells in the tails of columns, from the histograms."""
    release = fit.plan.release(ColumnHistograms)
    return tail_groups(
        fit.released[release.purpose],
        tuple(schema(fit).columns.values()),
        deviation=release.deviation,
        num_records=fit.num_records,
    )


def _details(fit: Fit) -> list[Details | None] | None:
    """What was released of each column beyond its histogram, if it was."""
    if ColumnDetails.purpose not in fit.released:
        return None
    release, counts = fit.plan.release(ColumnDetails), fit.released[ColumnDetails.purpose]
    deviations = release.tail_deviation, release.unit_deviation
    groups, levels = iter(counts[: release.num_columns]), iter(counts[release.num_columns :])
    return [
        Details(next(groups), None if units_of(column) is None else next(levels), *deviations)
        if column.has_position
        else None
        for column in schema(fit).columns.values()
    ]


def warm(fit: Fit, monitor: Monitor) -> dict[str, Any]:
    """The result of a warm start from the marginals that were released."""
    return started_warm(
        fit.released[Marginals.purpose],
        coder(fit),
        partial(_fresh, fit),
        fit.secret,
        resolution=fit.plan.release(Marginals).resolution(fit.num_records),
        steps=fit.plan.release(Derived).steps,
        monitor=monitor,
    )


def density(fit: Fit) -> AbstractTableDensity:
    """The density at this point of the fit: fresh, after a warm start, or trained."""
    density = _fresh(fit, coder(fit))
    if WARM in fit.released:
        density = density.with_flow(trained(density.flow, fit.released[WARM]["flow"]))
    if PrivateTraining.purpose in fit.released:
        density = density.with_flow(trained(density.flow, fit.released[PrivateTraining.purpose]))
    return density


def _fresh(fit: Fit, coder: Coder) -> AbstractTableDensity:
    """A density in which columns are independent."""
    plan, key = fit.plan, fit.secret.key("weights")
    if isinstance(plan.flow, HFlowArchitecture):
        return HFlowDensity.create(coder, plan.flow, key=key)
    return CodeDensity.create(coder, plan.flow, label=plan.label, key=key)


# -- to and from a file ----------------------------------------------------------------------------


def arrays_of(density: AbstractTableDensity) -> dict[str, Any]:
    """The released numbers of a density, as a tree."""
    arrays = {"columns": density.coder.arrays(), "flow": density.arrays()}
    return arrays if density.coder.mix is None else {**arrays, "places": density.coder.mix}


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
        plan: The plan of the fit.
        schema: The schema with everything that was discovered.
        vocabularies: The discovered values of open columns.
        num_codes: The number of codes of each column.
        num_features: See `AbstractTableDensity`.
        num_numbers: The number of numbers in the file.

    Raises:
        ValueError: There is no such model.
    """
    flow, columns = plan.flow, schema.columns.values()
    if flow.hidden is None or None in asdict(flow).values():
        raise ValueError("the plan leaves sizes of the flow open.")
    # before anything is built: a file cannot ask for more work than it has numbers
    needed = sum(abs(size) for size in (*num_codes, *num_features, *flow.hidden))
    if isinstance(flow, HFlowArchitecture):
        needed += flow.blocks + flow.bins
    if needed > num_numbers or min((*num_codes, *num_features), default=0) < 0:
        raise ValueError("the file does not have as many numbers as the settings require.")
    coded = Coder.shapes(schema, vocabularies, num_codes)
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
    shapes = CodeDensity.shapes(num_codes, num_features, flow, ordered=ordered, label=plan.label)
    numbers = sum(column.has_position for column in columns)
    places = jax.ShapeDtypeStruct((numbers, numbers), np.dtype(np.float64))
    return {"columns": coded, "places": places, "flow": shapes}


def restored(
    plan: TablePlan, schema: Schema, vocabularies: Vocabularies, arrays: dict[str, Any]
) -> AbstractTableDensity:
    """The density that `arrays_of` described.

    Raises:
        ValueError: The parts do not belong together.
    """
    _check_discovered(plan, schema, vocabularies)
    coder = Coder.restored(schema, arrays["columns"], mix=arrays.get("places"))
    if isinstance(plan.flow, HFlowArchitecture):
        return HFlowDensity.restored(coder, arrays["flow"], plan.flow)
    return CodeDensity.restored(coder, arrays["flow"], plan.flow, label=plan.label)


def _check_discovered(plan: TablePlan, schema: Schema, vocabularies: Vocabularies) -> None:
    """Raise unless the schema is the declared one, except for what was discovered."""
    known = {name: plan.schema.columns[name] for name in plan.schema.open}
    if schema.names != plan.schema.names or schema.with_columns(known) != plan.schema:
        raise ValueError("the schema differs from the declared one in more than its open columns.")
    if set(vocabularies) != set(schema.open):
        raise ValueError("there must be a vocabulary for each open column, and for no other.")
    for words in vocabularies.values():
        if len({*words, OTHER}) <= len(words):
            raise ValueError("a vocabulary must be a list of different texts.")
