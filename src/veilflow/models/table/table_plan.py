"""The plan of a table fit: its releases and their prices, from public facts alone.

The rules were fitted on generated tables (`benchmarks/generated_tables.py`); no rule has seen a data
set of the reproductions. docs/developer/planner.md has the reasons.
"""

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from veilflow.engine.observed import num_parameters
from veilflow.engine.training import Training
from veilflow.models.record_count import declared, exactly, roughly
from veilflow.models.table import low_budget, sizes
from veilflow.models.table.architecture import CodeArchitecture, HFlowArchitecture, codes
from veilflow.models.table.warm_start import warm_start
from veilflow.privacy import calibration
from veilflow.privacy.budget import Budget
from veilflow.releases.count import Count
from veilflow.releases.marginals.release import Marginals
from veilflow.releases.plan import FitPlan, spending
from veilflow.releases.release import Release
from veilflow.releases.table.details import ColumnDetails
from veilflow.releases.table.discovery import ColumnBounds, ColumnValues
from veilflow.releases.table.histograms import ColumnHistograms
from veilflow.releases.table.pairs import PairCounts
from veilflow.releases.table.units import has_units
from veilflow.releases.training import PrivateTraining
from veilflow.tabular.columns import Numeric, OpenCategorical
from veilflow.tabular.schema import Schema

if TYPE_CHECKING:
    from veilflow.models.table.table_flow import TableFlow

_COLUMNS_SHARE = 0.1
"""Share of the squared privacy parameter that the histograms of columns take."""
_DETAILS_SHARE = 0.05
"""Share of it that the tails of numbers, and how round they are, take."""
_WARM_SHARE = 0.3
"""Share of it that the marginals of a warm start take."""
_DISCOVERY_SHARE = 0.1
"""Share of it that the discovery of values and bounds takes, where there is any."""
_PAIRS_SHARE = 0.03
"""Share of it that counts of pairs of columns take."""
_MOST_QUESTIONS, _LEAST_QUESTIONS = 48, 8
_PRECISE = 0.0025
"""Deviation of an answer relative to the records: one per cent of exceptions is told from none."""
_MOST_NEAR = 3
"""The most columns that may be learned as their difference from another one."""
_DISCOVERY_DELTA = 0.2
"""Share of delta that the discovery of values takes."""
_NOISY = 0.1
"""The largest noise in the count of a value, relative to the number of records, without a warning."""
_ASSUMED_RATE = 0.02
"""The sampling rate where the number of records is not declared."""
_ASSUMED_RECORDS = 10_000
"""For the rules where the number of records is not declared."""
_BATCH = (1024, 4096)
_NOISE = 2.5
"""Noise multiplier from which on a larger batch would hardly make a run less noisy."""
DIFFERENCES = "histograms of differences"
"""The purpose of the histograms of columns that lie near others."""
_LONGEST = 60
"""Characters of a column's name that the ledger shows at most."""

_FLOW: dict[str, Any] = {
    "hidden": (256,),
    "most_bins": 32,
    "num_waves": 12,
    "label_weight": 2.0,
    "direct": True,
    "bins": 8,
}
_WIDE_FLOW: dict[str, Any] = {
    **_FLOW,
    "hidden": (128,),
    "most_bins": 16,
    "num_waves": 6,
    "direct": False,
}
_WIDE = 64, 1200
"""Columns and features above which a table is wide: a weight for each pair would be millions."""
_OPEN_FLOW: dict[str, Any] = {
    **_FLOW,
    "most_bins": 64,
    "num_waves": 24,
    "label_weight": 1.0,
    "bins": 16,
}
"""Without noise, finer bins and small steps pay."""
_PRIVATE: dict[str, Any] = {
    "steps": 2000,
    "clip_norm": 10.0,
    "learning_rate": 4e-3,
    "weight_decay": 0.02,
    "optimizer": "adam",
    "ema_decay": 0.99,
}
_OPEN: dict[str, Any] = {
    **_PRIVATE,
    "steps": 6000,
    "clip_norm": 1e3,
    "learning_rate": 2e-3,
    "weight_decay": 0.0,
}
_WARM_RATES = (2e-3, 4e-3)
"""After a warm start, steps are smaller where noise would soon outweigh what the records add."""
_WARM_STEPS = 1000, 2000
"""And there fewer are enough."""
_WORK, _LEAST_STEPS = 3e12, 500
"""The most steps times records in a batch times weights: seconds of a fit do not grow without limit."""
_STRONG = 40_000
"""Privacy parameter times records from which on the records add more."""
_HFLOW_OPTIMIZER = "adabelief"
"""As in the paper, unlike its learning rate of 1e-3."""
_HFLOW_OPEN: dict[str, Any] = {"optimizer": "adam", "learning_rate": 5e-3, "steps": 4000}
_HFLOW_OPEN_BATCH = 512
"""Without noise a large batch buys nothing that steps would not."""
_HFLOW_CLIP = 1.0
_HFLOW_WARM_RATE = 5e-4
"""After a warm start noise soon outweighs what the records add: 2e-3 was worse."""


@dataclass(frozen=True, kw_only=True, repr=False)
class TablePlan(FitPlan):
    """The plan of a table fit.

    Attributes:
        schema: The declared schema, without unconfirmed facts.
        flow: The flow to train, with all of its sizes.
    """

    schema: Schema
    flow: CodeArchitecture | HFlowArchitecture

    def concerns(self, num_records: int) -> tuple[str, ...]:
        noise = self.release(ColumnHistograms).deviation
        if noise <= _NOISY * num_records:
            return ()
        return (
            f"{num_records:,} records are few for this budget and {len(self.schema.columns)} columns: "
            f"the noise in the count of a value is about {noise:,.3g} records, so synthetic rows will "
            "mostly show noise. Raise epsilon, declare fewer columns, or collect more records.",
        )

    def takes(self) -> tuple[float, float] | None:
        from veilflow.models.table.table_costs import takes  # it is about plans

        return takes(self)

    @property
    def label(self) -> int | None:
        """The index of the label among the columns that are learned, if it is one of them.

        Relations that are found may move it.
        """
        return label_of(self.schema.core)

    @property
    def differences(self) -> ColumnHistograms | None:
        """The release of the columns that lie near others, if there is one."""
        known = (one for one in self.releases if isinstance(one, ColumnHistograms))
        return next((one for one in known if one.purpose == DIFFERENCES), None)


def plan_table(settings: "TableFlow", schema: Schema) -> TablePlan:
    """The plan of a fit with these settings.

    Args:
        settings: The estimator.
        schema: Its schema without unconfirmed facts.

    Raises:
        BudgetError: The settings cost more than the budget.
    """
    columns_share = _COLUMNS_SHARE
    if low_budget.is_low(settings):
        settings = low_budget.for_low_budget(settings)
        columns_share = low_budget.COLUMNS_SHARE
    budget, num_records = settings.budget, exactly(settings.num_records)
    core = schema.core  # what follows from other columns is not learned, and costs nothing
    flow = (settings.flow or codes()).resolved(**_sizes(core, private=budget.private))
    warm = settings.warm_start is not False and budget.private
    training = _training(settings, core, flow, warm=warm)
    mu = calibration.gaussian_mu(budget) if budget.private else math.inf

    releases: list[Release] = []
    if num_records is None:
        releases.append(Count.within(budget))
    releases += _discoveries(core, mu, budget)
    releases.append(
        ColumnHistograms(
            num_columns=len(core.columns),
            most_numbers=sizes.histogram_numbers(core),
            most_touched=sizes.histogram_levels(core),
            noise_multiplier=1 / (mu * math.sqrt(columns_share)),
        )
    )
    rest: int | None = len(releases) - 1
    releases += _details(core, mu)
    releases += _structure(settings, core, mu)
    if warm:
        chosen = settings.warm_start is not True
        share = settings.warm_start if chosen else _WARM_SHARE
        rest = None if chosen else len(releases)
        releases += [_marginals(core, flow, mu * math.sqrt(share)), warm_start()]
    if training.steps:
        rest = len(releases)
        releases.append(
            PrivateTraining(
                settings=training,
                noise_multiplier=float(budget.private),
                num_parameters=num_parameters(sizes.largest_flow(core, flow)),
            )
        )
    priced = tuple(releases)
    # the facts of a draft are discovered for a price; names and kinds of columns are not
    facts = "names and kinds of columns" if settings.schema.unconfirmed else "the schema"
    return TablePlan(
        model="TableFlow",
        budget=budget,
        releases=priced if rest is None else spending(budget, priced, rest),
        declared=(facts, *declared(settings.num_records)),
        num_records=num_records,
        seeded=settings.seed is not None,
        schema=schema,
        flow=flow,
    ).checked()


def _sizes(schema: Schema, *, private: bool) -> dict[str, Any]:
    """The sizes of a flow: those of a wide table see to it that work grows with its columns only."""
    usual = _FLOW if private else _OPEN_FLOW
    features = sizes.num_features(schema, num_waves=usual["num_waves"])
    columns, most = _WIDE
    return _WIDE_FLOW if len(schema.columns) > columns and features > most else usual


def _training(
    settings: "TableFlow",
    schema: Schema,
    flow: CodeArchitecture | HFlowArchitecture,
    *,
    warm: bool,
) -> Training:
    """The training with defaults for everything that the user left open."""
    budget, num_records = settings.budget, roughly(settings.num_records)
    records = num_records or _ASSUMED_RECORDS
    defaults = dict(_PRIVATE if budget.private else _OPEN)
    hflow = isinstance(flow, HFlowArchitecture)
    if warm:
        strong = calibration.gaussian_mu(budget) * records >= _STRONG
        defaults["learning_rate"] = _HFLOW_WARM_RATE if hflow else _WARM_RATES[strong]
        defaults["steps"] = defaults["steps"] if hflow else _WARM_STEPS[strong]
    if hflow:
        private = {"optimizer": _HFLOW_OPTIMIZER, "clip_norm": _HFLOW_CLIP}
        defaults |= private if budget.private else _HFLOW_OPEN
    rate = settings.training.rate(num_records)
    if rate is None:
        least = min(_BATCH[0], max(64, records // 4))
        batch = max(least, min(_BATCH[1], records / 16))
        if hflow and not budget.private:
            batch = min(batch, _HFLOW_OPEN_BATCH)
        elif warm and not hflow:
            batch = max(least, min(batch, _enough(budget, records, defaults["steps"])))
            most = int(_WORK / (batch * _weights(schema, flow)))
            defaults["steps"] = min(defaults["steps"], max(_LEAST_STEPS, most))
        rate = _ASSUMED_RATE if num_records is None else min(1.0, batch / num_records)
    return settings.training.resolved(sampling_rate=rate, **defaults)


def _weights(schema: Schema, flow: CodeArchitecture) -> int:
    """About how many weights a flow of codes has."""
    assert flow.num_waves is not None
    assert flow.hidden is not None
    features = sizes.num_features(schema, num_waves=flow.num_waves)
    ends = [*flow.hidden, features]
    between = sum(a * b for a, b in pairwise([features, *ends]))
    return between + features**2 * bool(flow.direct and flow.hidden)


def _enough(budget: Budget, records: int, steps: int) -> float:
    """The batch at which a run with the price of the whole budget would have the noise `_NOISE`."""
    return _NOISE * calibration.gaussian_mu(budget) * records / math.sqrt(steps)


def _discoveries(schema: Schema, mu: float, budget: Budget) -> list[Release]:
    """One release for each column whose values or bounds are not declared."""
    if not schema.open:
        return []
    # a pure release of epsilon costs about what a Gaussian one of mu = epsilon does
    epsilon = mu * math.sqrt(_DISCOVERY_SHARE / len(schema.open))
    delta = _DISCOVERY_DELTA * budget.delta / len(schema.open) if budget.private else 0.0
    values: list[Release] = []
    bounds: list[Release] = []
    for name in schema.open:
        column = schema.columns[name]
        if isinstance(column, OpenCategorical):
            values.append(
                ColumnValues(
                    purpose=_purpose("values of", name, schema),
                    column=name,
                    max_values=column.max_values,
                    epsilon=epsilon,
                    delta=delta,
                )
            )
        elif isinstance(column, Numeric):
            purpose = _purpose("bounds of", name, schema)
            bounds.append(
                ColumnBounds(purpose=purpose, column=name, step=column.step, epsilon=epsilon)
            )
    return values + bounds


def _details(schema: Schema, mu: float) -> list[Release]:
    """Tails and round numbers, if there are numbers."""
    numbers = [column for column in schema.columns.values() if column.has_position]
    if not numbers:
        return []
    return [
        ColumnDetails(
            num_columns=len(numbers),
            num_units=sum(map(has_units, numbers)),
            most_levels=sizes.unit_levels(schema),
            noise_multiplier=1 / (mu * math.sqrt(_DETAILS_SHARE)),
        )
    ]


def _structure(settings: "TableFlow", schema: Schema, mu: float) -> list[Release]:
    """Counts of pairs, and histograms of differences, where public facts say that they pay."""
    if not settings.learn_structure or isinstance(settings.flow, HFlowArchitecture):
        return []
    columns = schema.columns.values()
    numbers = sum(isinstance(column, Numeric) for column in columns)
    placed = sum(column.has_position for column in columns)
    possible = math.comb(sum(c.nullable for c in columns), 2) + (numbers > 0) * math.comb(placed, 2)
    noise = 1 / (mu * math.sqrt(_PAIRS_SHARE))
    records = roughly(settings.num_records) or _ASSUMED_RECORDS
    # noise in an answer grows with the root of the number of questions
    precise = (_PRECISE * records / noise) ** 2 if noise else math.inf
    questions = int(min(_MOST_QUESTIONS, 2 * possible, precise))
    if questions < min(_LEAST_QUESTIONS, 2 * possible) or not possible:
        return []
    counts = PairCounts(num_questions=questions, noise_multiplier=noise)
    near = min(_MOST_NEAR, numbers - 1, max(1, len(columns) // 5))
    if near < 1:
        return [counts]
    share = _COLUMNS_SHARE * near / len(columns)  # as much noise in a count as for other columns
    most = sizes.most_difference_cells(schema)
    differences = ColumnHistograms(
        purpose=DIFFERENCES,
        num_columns=near,
        most_numbers=near * most.numbers,
        most_touched=near * most.touched,
        index=1,
        noise_multiplier=1 / (mu * math.sqrt(share)),
    )
    return [counts, differences]


def _purpose(what: str, name: str, schema: Schema) -> str:
    """A short purpose, which differs from that of every other column even where names are cut."""
    if len(name) <= _LONGEST:
        return f"{what} {name}"
    return f"{what} {name[:_LONGEST]}... (column {schema.names.index(name) + 1})"


def _marginals(schema: Schema, flow: CodeArchitecture | HFlowArchitecture, mu: float) -> Marginals:
    assert flow.most_bins is not None
    codes = sizes.most_codes(schema, most_bins=flow.most_bins)
    return Marginals(most_codes=codes, label=label_of(schema), mu=mu)


def label_of(schema: Schema) -> int | None:
    """The index of the label, if it is one of the columns of a schema."""
    return None if schema.label is None else schema.names.index(schema.label)
