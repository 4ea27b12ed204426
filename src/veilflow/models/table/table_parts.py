"""The parts of a table model, from what a fit released and from the arrays of a file."""

from dataclasses import asdict
from functools import partial
from typing import Any

import jax
import numpy as np

from veilflow.flows.gap_rules import Gap, GapRule
from veilflow.models.estimator import Fit
from veilflow.models.table.architecture import HFlowArchitecture
from veilflow.models.table.candidates import questions_of
from veilflow.models.table.code_density import CodeDensity
from veilflow.models.table.coder import CodedColumn, Coder, Details, coder_of, tail_groups
from veilflow.models.table.density import AbstractTableDensity
from veilflow.models.table.found import FOUND, found_in
from veilflow.models.table.hflow_density import HFlowDensity
from veilflow.models.table.table_plan import TablePlan, label_of
from veilflow.models.table.warm_start import WARM, started_warm
from veilflow.privacy.guarantees import Sensitive
from veilflow.releases.marginals.release import Marginals
from veilflow.releases.release import Derived, Monitor
from veilflow.releases.table.cells import cells_of
from veilflow.releases.table.details import ColumnDetails
from veilflow.releases.table.discovery import ColumnBounds, ColumnValues
from veilflow.releases.table.histograms import ColumnHistograms
from veilflow.releases.table.pairs import PairCounts
from veilflow.releases.table.questions import Question
from veilflow.releases.table.units import units_of
from veilflow.releases.training import PrivateTraining, trained
from veilflow.tabular.codec import encode, to_table
from veilflow.tabular.columns import Ordinal
from veilflow.tabular.constraints import Constraint, MissingIf, MissingTogether, Near
from veilflow.tabular.encoded import EncodedRows, Vocabularies
from veilflow.tabular.facts import OTHER
from veilflow.tabular.schema import Schema, replace_column

# -- from what was released ------------------------------------------------------------------------


def declared_schema(fit: Fit) -> Schema:
    """The declared schema, with bounds for every number."""
    declared: Schema = fit.plan.schema
    bounds = {one.column: one for one in fit.plan.releases if isinstance(one, ColumnBounds)}
    columns = {}
    for name, release in bounds.items():
        low, high = fit.released[release.purpose]
        columns[name] = replace_column(declared.columns[name], low=low, high=high)
    return declared.with_columns(columns).bounded()


def schema(fit: Fit) -> Schema:
    """The schema with everything that was discovered, relations between columns included."""
    known = declared_schema(fit)
    found = structure(fit)
    constraints = (*known.constraints, *found)
    return Schema(known.columns, label=known.label, constraints=constraints) if found else known


def structure(fit: Fit) -> tuple[Constraint, ...]:
    """The relations between columns that were found."""
    release = fit.plan.release(PairCounts)
    if release is None or release.purpose not in fit.released:
        return ()
    near, known = fit.plan.differences, declared_schema(fit)
    return found_in(
        fit.released[release.purpose],
        {name: known.columns[name] for name in known.core.names},
        label=known.label,
        num_records=fit.num_records,
        most_near=0 if near is None else near.num_columns,
    )


def vocabularies(fit: Fit) -> dict[str, tuple[str, ...]]:
    """The discovered values of every open column."""
    lists = (one for one in fit.plan.releases if isinstance(one, ColumnValues))
    return {one.column: fit.released[one.purpose] for one in lists}


def declared_rows(fit: Fit) -> Sensitive[EncodedRows]:
    """The records, encoded by declared and discovered facts; relations between columns come later."""
    known, words = declared_schema(fit), vocabularies(fit)
    encode = partial(_encoded, schema=known, vocabularies=words)
    return fit.source.view("declared", lambda: fit.source.records.map(encode))


def rows(fit: Fit) -> Sensitive[EncodedRows]:
    """The records, encoded by everything that was discovered."""
    if not structure(fit):
        return declared_rows(fit)
    facts = {"before": declared_schema(fit), "after": schema(fit), "words": vocabularies(fit)}
    again = partial(_encoded_again, **facts)
    return fit.source.view("encoded", lambda: declared_rows(fit).map(again))


def _encoded(raw: Any, **facts: Any) -> EncodedRows:
    return raw.encoded(**facts)


def _encoded_again(
    encoded: EncodedRows, *, before: Schema, after: Schema, words: Vocabularies
) -> EncodedRows:
    """Rows by the columns that are learned once relations are known. Each row by itself."""
    return encode(to_table(encoded, before, vocabularies=words), after, vocabularies=words)


def differences(fit: Fit) -> tuple[str, ...]:
    """The columns that were found to lie near others, and are learned as their differences."""
    return tuple(one.column for one in structure(fit) if isinstance(one, Near))


def questions(fit: Fit) -> tuple[Question, ...]:
    """What is asked about pairs of columns, from their histograms."""
    known, release = declared_schema(fit), fit.plan.release(PairCounts)
    names = known.core.names
    return questions_of(
        tuple(known.core.columns.values()),
        declared_coder(fit),
        written=[None if name in known.rules else known.columns[name] for name in names],
        num_questions=release.num_questions,
        deviation=release.noise_multiplier * release.num_questions**0.5,
        num_records=fit.num_records,
        follow=[name != known.label and name not in known.rewritten for name in names],
    )


def declared_coder(fit: Fit) -> Coder:
    """The codes of the columns of which histograms were released."""
    release = fit.plan.release(ColumnHistograms)
    return coder_of(
        fit.released[release.purpose],
        tuple(declared_schema(fit).core.columns.values()),
        deviation=release.deviation,
        most_bins=fit.plan.flow.most_bins,
        num_records=fit.num_records,
        details=_details(fit),
    )


def coder(fit: Fit) -> Coder:
    """The codes of the table: from the histograms of columns and, if there is one, a warm start."""
    coder = declared_coder(fit)
    if structure(fit):
        known = dict(zip(declared_schema(fit).core.names, coder.columns, strict=True))
        core = schema(fit).core
        near = differences(fit)
        if near:
            release = fit.plan.differences
            own = coder_of(
                fit.released[release.purpose],
                tuple(core.columns[name] for name in near),
                deviation=release.deviation,
                most_bins=fit.plan.flow.most_bins,
                num_records=fit.num_records,
            )
            known |= dict(zip(near, own.columns, strict=True))
        coder = Coder(tuple(known[name] for name in core.names))
    return coder.with_masses(fit.released[WARM]["masses"]) if WARM in fit.released else coder


def tails(fit: Fit) -> list[Any]:
    """The groups of cells in the tails of columns, from the histograms."""
    release = fit.plan.release(ColumnHistograms)
    return tail_groups(
        fit.released[release.purpose],
        tuple(declared_schema(fit).core.columns.values()),
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
        for column in declared_schema(fit).core.columns.values()
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
    core = schema(fit).core
    return CodeDensity.create(
        coder, plan.flow, label=label_of(core), key=key, rules=gap_rules(core)
    )


def gap_rules(core: Schema) -> tuple[GapRule, ...]:
    """The rules on missing cells of the columns that are learned."""
    rules: list[GapRule] = []
    for one in core.constraints:
        if isinstance(one, MissingIf):
            rules.append(_missing_too(core, one.when, one.column))
        elif isinstance(one, MissingTogether):
            first, *others = one.columns
            for name in others:
                rules += [_missing_too(core, first, name), _missing_too(core, name, first)]
    return tuple(rules)


def _missing_too(core: Schema, when: str, column: str) -> GapRule:
    return GapRule(Gap(core.names.index(when)), Gap(core.names.index(column)))


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
    core, flow = schema.core, plan.flow
    columns = core.columns.values()
    if flow.hidden is None or None in asdict(flow).values():
        raise ValueError("the plan leaves sizes of the flow open.")
    # before anything is built: a file cannot ask for more work than it has numbers
    needed = sum(abs(size) for size in (*num_codes, *num_features, *flow.hidden))
    if isinstance(flow, HFlowArchitecture):
        needed += flow.blocks + (flow.bins or 0)
    if needed > num_numbers or min((*num_codes, *num_features), default=0) < 0:
        raise ValueError("the file does not have as many numbers as the settings require.")
    coded = Coder.shapes(core, vocabularies, num_codes)
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
    shapes = CodeDensity.shapes(
        num_codes, num_features, flow, ordered=ordered, label=label_of(core)
    )
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
    core = schema.core
    coder = Coder.restored(core, arrays["columns"], mix=arrays.get("places"))
    if isinstance(plan.flow, HFlowArchitecture):
        return HFlowDensity.restored(coder, arrays["flow"], plan.flow)
    return CodeDensity.restored(
        coder, arrays["flow"], plan.flow, label=label_of(core), rules=gap_rules(core)
    )


def _check_discovered(plan: TablePlan, schema: Schema, vocabularies: Vocabularies) -> None:
    """Raise unless the schema is the declared one, except for what was discovered."""
    declared = plan.schema
    known = {name: declared.columns[name] for name in declared.open}
    num = len(declared.constraints)
    found = schema.constraints[num:]
    if found and plan.release(PairCounts) is None:
        raise ValueError("the schema has constraints that were neither declared nor looked for.")
    if any(not isinstance(one, FOUND) for one in found):
        raise ValueError("the schema has constraints of a kind that is not looked for.")
    opened = Schema(
        {**schema.columns, **known}, label=schema.label, constraints=schema.constraints[:num]
    )
    if schema.names != declared.names or opened != declared:
        raise ValueError("the schema differs from the declared one in more than its open columns.")
    if set(vocabularies) != set(schema.core.open):
        raise ValueError("there must be a vocabulary for each open column, and for no other.")
    for words in vocabularies.values():
        if len({*words, OTHER}) <= len(words):
            raise ValueError("a vocabulary must be a list of different texts.")
