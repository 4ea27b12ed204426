"""What the planner of tables changes where there is little budget for few records.

All of it follows from public facts: the Gaussian privacy parameter times the number of records, which
is how many records stand above the noise of one count. Where it is small, noisy steps take more from a
flow than the records add, so marginals get what training would have cost; and a number has few bins,
which can still be told apart from noise.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

from veilflow.engine.training import Training
from veilflow.models.record_count import roughly
from veilflow.models.table.architecture import CodeArchitecture, codes
from veilflow.privacy import calibration

if TYPE_CHECKING:
    from veilflow.models.table.table_flow import TableFlow

_LOW = 400.0
"""Privacy parameter times records below which a budget is low."""
_BINS = 8
COLUMNS_SHARE = 0.2
"""Share of the squared privacy parameter that the histograms of columns take there."""


def is_low(settings: "TableFlow") -> bool:
    """Whether marginals take all of the budget.

    Only where the user left that to the planner: who sets anything of the training, the share of the
    marginals, or the flow of the paper gets a training. So does who declares no number of records,
    since a large table would lose by the rule more than a small one gains.
    """
    records = roughly(settings.num_records)
    return (
        settings.budget.private
        and records is not None
        and settings.warm_start is True
        and settings.training == Training()
        and (settings.flow is None or isinstance(settings.flow, CodeArchitecture))
        and calibration.gaussian_mu(settings.budget) * records < _LOW
    )


def for_low_budget(settings: "TableFlow") -> "TableFlow":
    """The settings of a fit of which `is_low` holds: no steps, and few bins unless they were set."""
    flow = (settings.flow or codes()).resolved(most_bins=_BINS)
    return replace(settings, flow=flow, training=Training(steps=0))
