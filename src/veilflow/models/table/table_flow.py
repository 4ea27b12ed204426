"""DP-HFlow: a private density over tables of numbers, categories, dates and gaps.

After Lee, Kim, Jeong, Ro, "Differentially private normalizing flows for synthetic tabular data
generation" (2022), made sound (everything is declared or paid for, Poisson sampling, the PLD
accountant) and extended: numbers are cut into bins by a released histogram, so that spikes and tails
keep their shape; the flow starts from a few noisy marginals, which cost little; then it is trained on
the records.
"""

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from veilflow._core import fields
from veilflow._core.errors import PrivacyError
from veilflow.engine.training import Training
from veilflow.models.estimator import Estimator, Fit, Source
from veilflow.models.record_count import RecordCount, num_records, roughly
from veilflow.models.settings import check_budget, is_training, seed
from veilflow.models.table import table_parts as parts
from veilflow.models.table.architecture import (
    CodeArchitecture,
    HFlowArchitecture,
    TableArchitecture,
)
from veilflow.models.table.fitted_table import FittedTableFlow
from veilflow.models.table.released_warnings import warn_of_released
from veilflow.models.table.table_plan import TablePlan, label_of, plan_table
from veilflow.privacy.budget import Budget
from veilflow.privacy.guarantees import Sensitive
from veilflow.releases.count import Count
from veilflow.releases.marginals.release import Marginals
from veilflow.releases.release import Derived, Query, Release
from veilflow.releases.table.details import ColumnDetails
from veilflow.releases.table.discovery import ColumnBounds, ColumnValues
from veilflow.releases.table.histograms import ColumnHistograms
from veilflow.releases.table.pairs import PairCounts
from veilflow.releases.training import PrivateTraining, Task
from veilflow.tabular.raw import read_raw
from veilflow.tabular.schema import Schema


@dataclass(frozen=True, kw_only=True)
class TableFlow(Estimator[FittedTableFlow]):
    """A model of a table to be fitted privately.

    Guarantee:
        Everything `fit` returns is (epsilon, delta)-differentially private as `budget` says, for
        adding or removing one row, by the PLD accountant. The schema, and the number of records if
        given, are declared public facts; nothing else is read from the rows without being paid for.

    Only the schema and the budget are required. The planner (`models/table/table_plan.py`) sets
    whatever is left at None, from public facts alone.

    Args:
        schema: The declared columns.
        budget: The privacy budget of the whole fit. An infinite epsilon fits without privacy, for
            reference.
        num_records: The number of records, if it may be public. Otherwise a private count is paid
            for with 2 % of epsilon; "about 25000" says how large it will be, if that may be public.
        warm_start: Whether the flow starts from noisy marginals of a few columns each, which are paid
            for; or the share of the squared privacy parameter that they take. With True the share is
            0.3, or all that is left where `steps=0` asks for no training. With False the flow is
            trained from single columns.
        pay_for_discovery: Fit a schema with unconfirmed facts: they are dropped, and discovered for
            a share of the budget. The kind of every column must be confirmed all the same.
        learn_structure: Whether a share of the budget is spent on relations between columns and on gaps
            that come together, so that synthetic rows keep them. With True it is, if there are enough
            records for clear answers at this budget.
        flow: The flow to train: `vf.codes(...)`, which has exact densities, fills gaps and takes
            given cells, or `vf.hflow(...)`, the flow of the paper. None for the flow of codes.
        training: How the flow is trained, as `vf.Training(...)`.
        seed: For repeatable research, and for one fit only: two fits with the same seed have the
            same noise. The guarantee then says that the seed was chosen. Counts, discoveries and
            choices of marginals stay random.

    Example:
        >>> import veilflow as vf
        >>> schema = vf.Schema(age=vf.Numeric(17, 90, integer=True), sex=vf.Categorical("F", "M"))
        >>> estimator = vf.TableFlow(schema=schema, budget=vf.Budget(epsilon=1.0, delta=1e-5))
        >>> model = estimator.fit("people.csv")  # doctest: +SKIP
    """

    schema: Schema
    budget: Budget
    num_records: RecordCount = None
    warm_start: bool | float = True
    pay_for_discovery: bool = False
    learn_structure: bool = True
    flow: CodeArchitecture | HFlowArchitecture | None = None
    training: Training = field(default_factory=Training)
    seed: int | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        check_budget(self.budget)
        fields.convert(
            self,
            schema=fields.instance(Schema, "a vf.Schema, from Python or vf.Schema.from_file"),
            num_records=num_records,
            warm_start=_flag_or_share,
            pay_for_discovery=fields.flag,
            learn_structure=fields.flag,
            flow=fields.optional(
                fields.instance(TableArchitecture, "vf.codes(...), vf.hflow(...)")
            ),
            training=is_training,
            seed=seed,
        )
        self.training.rate(roughly(self.num_records))
        if isinstance(self.flow, HFlowArchitecture):
            columns = self.schema.core.columns.values()
            # a number that may be missing is two variables
            self.flow.check_fits(sum(1 + (c.has_position and c.nullable) for c in columns))

    def plan(self) -> TablePlan:
        """Everything that a fit will release and pay for: public, and known before the rows are.

        Raises:
            BudgetError: The settings cost more than the budget.
            PrivacyError: The schema has facts that nobody has confirmed.
        """
        return plan_table(self, self._declared())

    def read(self, data: Any, *, extra: str = "error", invalid: str = "error") -> Source:
        """Read the rows.

        Args:
            data: A pandas, polars or pyarrow frame, or the path of a CSV, Parquet or Arrow file.
            extra: How to treat columns that are not in the schema: "error" raises, and "ignore"
                leaves them out.
            invalid: How to treat a cell that is not as declared: "error" raises; "replace" makes it
                a missing cell where the column may have one, and otherwise the first value or the
                lower bound. Each row is read by itself: what it holds replaces nothing in another.
        """
        schema = self._declared()
        raw = read_raw(data, schema, extra=extra, invalid=invalid)
        return Source(Sensitive(raw, description=f"{len(schema.columns)} columns"))

    def query(self, release: Release, fit: Fit) -> Query:
        raw = fit.source.records
        if isinstance(release, Count):
            return Query(raw.map(lambda table: table.codes))
        if isinstance(release, ColumnValues):
            return Query(raw.map(lambda table: table.said(release.column)))
        if isinstance(release, ColumnBounds):
            return Query(raw.map(lambda table: table.numbers[release.column]))
        if isinstance(release, ColumnHistograms | PairCounts):
            return self._histograms(release, fit)
        if isinstance(release, ColumnDetails):
            columns = tuple(parts.declared_schema(fit).core.columns.values())
            known = {"columns": columns, "groups": parts.tails(fit)}
            return Query(parts.declared_rows(fit), known)
        if isinstance(release, Marginals):
            coder = parts.coder(fit)
            known = {
                "sizes": [column.num_codes for column in coder.columns],
                "ordered": [column.ordered for column in coder.columns],
                "num_records": fit.num_records,
                "label": label_of(parts.schema(fit).core),
            }
            return Query(parts.rows(fit).map(coder.codes), known)
        if isinstance(release, Derived):
            released = replace(fit, source=Source(Sensitive(None)))  # without the records
            return Query(None, {"make": partial(parts.warm, released)})
        assert isinstance(release, PrivateTraining)
        density = parts.density(fit)
        task = Task(
            plan=release.plan(fit.num_records),
            model=density.flow,
            loss=density.loss,
            public_loss=density.public_loss,
        )
        return Query(parts.rows(fit).map(density.records), {"task": task})

    def _histograms(self, release: Release, fit: Fit) -> Query:
        """The input of a release about single columns, or about pairs of them."""
        differences = isinstance(release, ColumnHistograms) and release.index > 0
        schema = (parts.schema if differences else parts.declared_schema)(fit).core
        rows = (parts.rows if differences else parts.declared_rows)(fit)
        names = parts.differences(fit) if differences else schema.names
        places, words = [schema.names.index(name) for name in names], parts.vocabularies(fit)
        columns = tuple(schema.columns[name] for name in names)
        known: dict[str, Any] = {"columns": columns}
        known["sizes"] = [
            column.num_codes(words.get(name)) for name, column in zip(names, columns, strict=True)
        ]
        if isinstance(release, PairCounts):
            known["questions"] = parts.questions(fit)
            known["written"] = tuple(parts.declared_schema(fit).columns[name] for name in names)
        return Query(rows.map(lambda all_: all_.only(places)) if differences else rows, known)

    def assemble(self, fit: Fit) -> FittedTableFlow:
        warn_of_released(fit)
        density = parts.density(fit)
        if self.budget.private:
            density = density.adjusted(fit.secret.key("balance"))
        return FittedTableFlow.of(density.placed(fit.secret.key("places")), fit)

    def _declared(self) -> Schema:
        """The schema without unconfirmed facts."""
        unconfirmed = self.schema.unconfirmed
        if unconfirmed and not self.pay_for_discovery:
            raise PrivacyError(
                f"the schema has facts that were read from data and that nobody has confirmed, in "
                f"the columns {', '.join(unconfirmed)}. Confirm what is public, at least every kind, "
                "and set pay_for_discovery=True (--pay-for-discovery) to discover the rest for a price."
            )
        return self.schema.forget_unconfirmed() if unconfirmed else self.schema


def _flag_or_share(name: str, value: Any) -> bool | float:
    rule = fields.flag if isinstance(value, bool | np.bool_) else fields.fraction
    return rule(name, value)
