"""The parts of a table model, from what was released: schema, coder, and the density to be trained."""

from functools import partial
from typing import Any

from veilflow.models.estimator import Fit
from veilflow.models.table.architecture import HFlowArchitecture
from veilflow.models.table.code_density import CodeDensity
from veilflow.models.table.coder import Coder
from veilflow.models.table.coding import coder_of
from veilflow.models.table.density import AbstractTableDensity
from veilflow.models.table.hflow_density import HFlowDensity
from veilflow.models.table.table_plan import TablePlan
from veilflow.models.table.warm_start import WARM, started_warm
from veilflow.privacy.guarantees import Sensitive
from veilflow.releases.marginals.release import Marginals
from veilflow.releases.release import Derived, Monitor
from veilflow.releases.table.discovery import ColumnBounds, ColumnValues
from veilflow.releases.table.histograms import ColumnHistograms
from veilflow.releases.training import PrivateTraining, trained
from veilflow.tabular.encoded import EncodedRows
from veilflow.tabular.schema import Schema, replace_column


def schema(fit: Fit) -> Schema:
    """The declared schema, with bounds for every number."""
    declared = _plan(fit).schema
    return declared.with_columns(
        {
            one.column: replace_column(declared.columns[one.column], low=low, high=high)
            for one in fit.plan.releases
            if isinstance(one, ColumnBounds)
            for low, high in [fit.released[one.purpose]]
        }
    )


def vocabularies(fit: Fit) -> dict[str, tuple[str, ...]]:
    """The discovered values of every open list."""
    lists = (one for one in fit.plan.releases if isinstance(one, ColumnValues))
    return {one.column: fit.released[one.purpose] for one in lists}


def rows(fit: Fit) -> Sensitive[EncodedRows]:
    """The records, encoded by declared and discovered facts."""
    closed, words = schema(fit), vocabularies(fit)
    encode = partial(_encoded, schema=closed, vocabularies=words)
    return fit.source.view("encoded", lambda: fit.source.records.map(encode))


def _encoded(raw: Any, **known: Any) -> EncodedRows:
    return raw.encoded(**known)


def coder(fit: Fit) -> Coder:
    """The codes of the table: by the histograms of columns and, after a warm start, its shares."""
    release, flow = fit.plan.release(ColumnHistograms), _plan(fit).flow
    assert flow.most_bins is not None
    made = coder_of(
        fit.released[release.purpose],
        tuple(schema(fit).columns.values()),
        deviation=release.deviation,
        most_bins=flow.most_bins,
        num_records=fit.num_records,
    )
    return made.with_masses(fit.released[WARM]["masses"]) if WARM in fit.released else made


def warm(fit: Fit, monitor: Monitor) -> dict[str, Any]:
    """What a warm start makes of the marginals that were released."""
    return started_warm(
        fit.released[Marginals.purpose],
        coder(fit),
        partial(_fresh, fit),
        fit.secret,
        steps=fit.plan.release(Derived).steps,
        monitor=monitor,
    )


def density(fit: Fit) -> AbstractTableDensity:
    """The density as far as it is: fresh, started warm, or trained."""
    made = _fresh(fit, coder(fit))
    if WARM in fit.released:
        made = made.with_flow(trained(made.flow, fit.released[WARM]["flow"]))
    if PrivateTraining.purpose in fit.released:
        made = made.with_flow(trained(made.flow, fit.released[PrivateTraining.purpose]))
    return made


def _fresh(fit: Fit, coder: Coder) -> AbstractTableDensity:
    """Columns by themselves: what is known before any table of several."""
    plan, key = _plan(fit), fit.secret.key("weights")
    if isinstance(plan.flow, HFlowArchitecture):
        return HFlowDensity.create(coder, plan.flow, key=key)
    return CodeDensity.create(coder, plan.flow, label=plan.label, key=key)


def _plan(fit: Fit) -> TablePlan:
    assert isinstance(fit.plan, TablePlan)
    return fit.plan
