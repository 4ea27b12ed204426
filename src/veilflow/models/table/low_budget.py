"""What the planner of tables changes where there is little budget for few records.

All of it follows from public facts: the Gaussian privacy parameter times the number of records, which
is how many records stand above the noise of one count. Where it is small, noisy steps take from a
flow more than records add, so that marginals get what training would have cost; and each number has
fewer bins, which noise can still tell apart. Measured in docs/developer/planner.md.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

from veilflow.engine.training import Training
from veilflow.models.record_count import roughly
from veilflow.models.table.architecture import CodeArchitecture, codes
from veilflow.privacy import calibration

if TYPE_CHECKING:
    from veilflow.models.table.table_flow import TableFlow

LOW = 1500.0
"""Privacy parameter times records below which there is no training."""
LOWEST = 500.0
"""The same, below which numbers have the fewest bins."""
_BINS = (16, 8)
COLUMNS_SHARE = 0.2
"""Share of the squared privacy parameter that the histograms of columns take there."""


def is_low(settings: "TableFlow", *, assumed: int) -> bool:
    """Whether marginals take all of the budget, as the user left it to the planner.

    Args:
        settings: The estimator. A user who sets anything of the training, the share of the marginals,
            or the flow of the paper gets a training.
        assumed: The number of records where none is declared.
    """
    return (
        settings.budget.private
        and settings.warm_start is True
        and settings.training == Training()
        and (settings.flow is None or isinstance(settings.flow, CodeArchitecture))
        and _strength(settings, assumed) < LOW
    )


def for_low_budget(settings: "TableFlow", *, assumed: int) -> "TableFlow":
    """The settings of a fit of which `is_low` holds: no steps, and few bins unless they were set."""
    bins = _BINS[_strength(settings, assumed) < LOWEST]
    flow = (settings.flow or codes()).resolved(most_bins=bins)
    return replace(settings, flow=flow, training=Training(steps=0))


def _strength(settings: "TableFlow", assumed: int) -> float:
    """The privacy parameter times the number of records."""
    records = roughly(settings.num_records) or assumed
    return calibration.gaussian_mu(settings.budget) * records
