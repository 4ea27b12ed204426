"""About how long a fit of a table takes, and how much memory, by public facts."""

from typing import NamedTuple

from veilflow.engine.observed import num_parameters
from veilflow.models.table import sizes
from veilflow.models.table.table_plan import TablePlan
from veilflow.models.table.warm_start import batch_size
from veilflow.releases.marginals.release import Marginals
from veilflow.releases.training import PrivateTraining

_ASSUMED_RECORDS = 100_000
"""The number of records where it is not public."""


class Work(NamedTuple):
    """What a fit computes, in units that take about equally long in all tables."""

    warm: float
    """Parameters times rows of the steps of the warm start, in billions."""
    training: float
    """The same of the private steps."""
    parameters: int
    columns: int
    records: int


def work_of(plan: TablePlan, *, num_records: int | None = None) -> Work:
    """The work of a plan.

    Args:
        plan: The plan.
        num_records: The number of records, if the plan does not have it.
    """
    records = plan.num_records or num_records or _ASSUMED_RECORDS
    flow = sizes.largest_flow(plan.schema, plan.flow)
    parameters = num_parameters(flow)
    warm = training = 0.0
    if plan.release(Marginals) is not None:
        derived = next(one for one in plan.releases if one.event is None)
        warm = derived.steps * batch_size(parameters) * parameters / 1e9
    trained = plan.release(PrivateTraining)
    if trained is not None:
        settings = trained.settings
        training = settings.steps * settings.sampling_rate * records * parameters / 1e9
    return Work(warm, training, parameters, len(plan.schema.columns), records)
