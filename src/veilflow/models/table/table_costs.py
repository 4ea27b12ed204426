"""About how long a fit of a table takes, and how much memory, by public facts.

The constants were fitted to runs of `python -m benchmarks.table_costs` on two cores. Machines differ,
so the result is a hint, rounded and called "about".
"""

from typing import NamedTuple

from veilflow.engine.observed import num_parameters
from veilflow.models.table import sizes
from veilflow.models.table.table_plan import TablePlan
from veilflow.models.table.warm_start import batch_size
from veilflow.releases.marginals.release import Marginals
from veilflow.releases.release import Derived
from veilflow.releases.training import PrivateTraining

_ASSUMED_RECORDS = 100_000
"""The number of records where it is not public."""


_SECONDS = (11.0, 0.045, 0.1)
"""Seconds of the processor: of every fit, and of a billion parameters times rows of each training."""
_CORES = 1.5
"""How many cores a fit keeps busy, of two."""
_GIGABYTES = (0.65, 0.03, 4e-8)
"""Memory: of every fit, of a column of the drawn rows of a warm start, and of a cell of the records."""


class Work(NamedTuple):
    """What a fit computes, in units that take about equally long in all tables."""

    warm: float
    """Parameters times rows of the steps of the warm start, in billions."""
    training: float
    """The same of the private steps."""
    parameters: int
    columns: int
    records: int


def work_of(plan: TablePlan) -> Work:
    """The work of a plan."""
    records = plan.num_records or _ASSUMED_RECORDS
    flow = sizes.largest_flow(plan.schema.core, plan.flow)
    parameters = num_parameters(flow)
    warm = training = 0.0
    if plan.release(Marginals) is not None:
        derived = plan.release(Derived)
        warm = derived.steps * batch_size(_codes(plan)) * parameters / 1e9
    trained = plan.release(PrivateTraining)
    if trained is not None:
        settings = trained.settings
        training = settings.steps * settings.sampling_rate * records * parameters / 1e9
    return Work(warm, training, parameters, len(plan.schema.core.columns), records)


def _codes(plan: TablePlan) -> tuple[int, ...]:
    """About how many codes each column has."""
    assert plan.flow.most_bins is not None
    return tuple(
        min(number, plan.flow.most_bins) if column.has_position else number
        for number, column in zip(
            sizes.most_codes(plan.schema.core, most_bins=plan.flow.most_bins),
            plan.schema.core.columns.values(),
            strict=True,
        )
    )


def takes(plan: TablePlan) -> tuple[float, float]:
    """About how many seconds and gigabytes a fit takes; 100,000 records where the number is private."""
    work = work_of(plan)
    fixed, warm, training = _SECONDS
    seconds = (fixed + warm * work.warm + training * work.training) / _CORES
    fixed, column, cell = _GIGABYTES
    gigabytes = fixed + column * work.columns + cell * work.columns * work.records
    return float(f"{seconds:.2g}"), float(f"{gigabytes:.2g}")
