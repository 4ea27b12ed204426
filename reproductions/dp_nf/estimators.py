"""Our models beside the paper's: the one place where they are built.

No hyper-parameter is set here. What the library's planner picks follows from public facts (number
of rows and columns, epsilon, delta); its rules were fitted on generated data, never on these splits.
"""

from typing import Any

import veilflow as vf
from reproductions.dp_nf.data import Facts


def build(method: str, facts: Facts, *, epsilon: float, num_records: int) -> Any:
    """An estimator with a budget, ready to fit.

    Args:
        method: `flow` as it comes; `flow-normal` and `flow-mixture` with that base distribution;
            `mixture-8` for a Gaussian mixture of eight components.
        facts: What is public about the data.
        epsilon: The budget, at the data set's delta; infinite for a reference without privacy.
        num_records: The number of training rows, declared public.
    """
    kind, _, detail = method.partition("-")
    public: dict[str, Any] = {
        "budget": vf.Budget(epsilon=epsilon, delta=facts.delta),
        "num_records": num_records,
        **facts.domain,
    }
    if kind == "mixture":
        return vf.MixtureDensity(num_components=int(detail), **public)
    if kind != "flow":
        raise ValueError(f"a method starts with flow or mixture, got {method!r}.")
    if detail:
        public["base"] = detail
    return vf.DensityFlow(**public)
