"""What a fit of a table will do, from public facts alone. `pricing.py` has what that costs.

The rules were fitted on generated tables (`benchmarks/generated_tables.py`); no rule has seen a data
set of the reproductions. docs/developer/planner.md has the reasons.
"""

import math
from dataclasses import asdict, dataclass
from typing import Any

from veilflow._core import check
from veilflow.models.table.architecture import HFlowArchitecture
from veilflow.privacy import calibration
from veilflow.privacy.budget import Budget
from veilflow.tabular.schema import Schema

_COLUMNS_SHARE = 0.1
"""Of the squared privacy parameter, what histograms of columns take."""
_WARM_SHARE = 0.3
"""Of the same, what the marginals of a warm start take."""
_DISCOVERY_SHARE = 0.1
"""Of the same, what the discovery of values and bounds takes, where there is any."""
_DISCOVERY_DELTA = 0.2
"""Of delta, what the discovery of values takes."""
_COUNT_SHARE = 0.02
"""Of epsilon, what a count of the records takes."""
_ASSUMED_RATE = 0.02
"""Sampling rate where the number of records is not declared."""
_ASSUMED_RECORDS = 10_000
_BATCH = (1024, 4096)

WARM_STARTS = ("marginals", "none")

_PRIVATE: dict[str, Any] = {
    "hidden": (256,),
    "most_bins": 32,
    "num_waves": 12,
    "label_weight": 2.0,
    "steps": 2000,
    "clip_norm": 10.0,
    "learning_rate": 4e-3,
    "weight_decay": 0.02,
    "clipping": "flat",
    "sparsity": 0.5,
    "optimizer": "adam",
}
_WARM_RATES = (2e-3, 4e-3)
"""After a warm start, steps are smaller where noise soon takes more from it than records give."""
_STRONG = 40_000
"""Privacy parameter times records from which on records give more."""
_OPEN: dict[str, Any] = {  # without noise finer bins and small steps pay
    **_PRIVATE,
    "most_bins": 64,
    "num_waves": 24,
    "label_weight": 1.0,
    "steps": 6000,
    "clip_norm": 1e3,
    "learning_rate": 2e-3,
    "weight_decay": 0.0,
}
_HFLOW: dict[str, Any] = {
    "num_waves": 0,
    "label_weight": 1.0,
    "optimizer": "adabelief",
}
"""Where the paper's flow differs. AdaBelief is the paper's, its rate of 1e-3 is not: without a warm
start 4e-3 was better than 1e-3 and 1e-2 on a generated table, as for the flow of codes."""
_HFLOW_CLIP = 1.0
_HFLOW_WARM_RATE = 5e-4
"""After a warm start noise soon takes from it more than records give: 2e-3 was worse."""


@dataclass(frozen=True, kw_only=True)
class TableFacts:
    """What is public about a fit, beside its recipe and its budget."""

    schema: Schema
    """As declared, without what nobody has confirmed."""
    count: bool
    """Whether the number of records is paid for."""
    flow: HFlowArchitecture | None
    """The paper's flow, or None for the flow of codes."""
    hardened: bool

    @property
    def label(self) -> int | None:
        """The place of the label, if there is one."""
        return None if self.schema.label is None else self.schema.names.index(self.schema.label)


@dataclass(frozen=True, kw_only=True)
class TableRecipe:
    """What a fit will do. Public numbers only."""

    discovery_epsilon: float
    """Price of each column that is discovered; 0 where none is."""
    discovery_delta: float
    columns_noise: float
    """Noise multiplier of the histograms of columns; 0 only for a fit without privacy."""
    warm_mu: float
    """Gaussian privacy parameter of the marginals of a warm start; 0 for none."""
    most_bins: int
    num_waves: int
    """Features of a number in the flow of codes; 0 for another flow."""
    label_weight: float
    """How often the label counts in the loss."""
    hidden: tuple[int, ...]
    steps: int
    sampling_rate: float
    clip_norm: float
    learning_rate: float
    weight_decay: float
    clipping: str
    sparsity: float
    """Of clipping "sparsified"; others do not look at it."""
    optimizer: str

    def to_json(self) -> dict[str, Any]:
        """The recipe as plain JSON values."""
        return {**asdict(self), "hidden": list(self.hidden)}


def plan_table(
    *,
    num_records: int | None,
    num_open: int,
    budget: Budget,
    warm_start: str,
    warm_share: float | None,
    sampling_rate: float | None,
    flow: HFlowArchitecture | None,
    chosen: dict[str, Any],
) -> TableRecipe:
    """The recipe for a fit.

    Args:
        num_records: If declared.
        num_open: Columns whose values or bounds are to be discovered.
        budget: Of the whole fit.
        warm_start: One of `WARM_STARTS`.
        warm_share: Part of the squared privacy parameter for it, if the user gave it.
        sampling_rate: If the user gave one, or a batch size to make it from.
        flow: The paper's flow, or None for the flow of codes.
        chosen: Other settings the user gave; None stands for no choice.
    """
    check.one_of(WARM_STARTS, warm_start=warm_start)
    records = _ASSUMED_RECORDS if num_records is None else num_records
    settings = dict(_PRIVATE if budget.private else _OPEN)
    warm = warm_start == "marginals" and budget.private
    if warm:
        strong = calibration.gaussian_mu(budget) * records >= _STRONG
        settings["learning_rate"] = _WARM_RATES[strong]
    if flow is not None:
        settings.update(_HFLOW, hidden=flow.hidden)
        if budget.private:
            settings["clip_norm"] = _HFLOW_CLIP
        if warm:
            settings["learning_rate"] = _HFLOW_WARM_RATE
    settings.update({name: value for name, value in chosen.items() if value is not None})
    if sampling_rate is None:
        least = min(_BATCH[0], max(64, records // 4))
        batch = max(least, min(_BATCH[1], records / 16))
        sampling_rate = _ASSUMED_RATE if num_records is None else min(1.0, batch / num_records)
    if not budget.private:
        return TableRecipe(
            discovery_epsilon=0.0,
            discovery_delta=0.0,
            columns_noise=0.0,
            warm_mu=0.0,
            sampling_rate=sampling_rate,
            **settings,
        )
    mu = calibration.gaussian_mu(budget)
    share = (_WARM_SHARE if warm_share is None else warm_share) if warm else 0.0
    # a pure release of epsilon costs about what a Gaussian one of mu = epsilon does
    each = mu * math.sqrt(_DISCOVERY_SHARE / num_open) if num_open else 0.0
    return TableRecipe(
        discovery_epsilon=each,
        discovery_delta=_DISCOVERY_DELTA * budget.delta / num_open if num_open else 0.0,
        columns_noise=1 / (mu * math.sqrt(_COLUMNS_SHARE)),
        warm_mu=mu * math.sqrt(share),
        sampling_rate=sampling_rate,
        **settings,
    )


def count_epsilon(budget: Budget) -> float:
    """The price of a count of the records."""
    return _COUNT_SHARE * budget.epsilon
