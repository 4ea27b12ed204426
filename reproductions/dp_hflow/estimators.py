"""Our models beside the paper's: the one place where they are built.

No hyper-parameter is set here but what a row of a table is about. What the planner picks follows from
public facts (number of rows, epsilon, delta); its rules were fitted on generated tables.
"""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import veilflow as vf
from reproductions.dp_hflow.merf import Merf

SPARSITIES = (0.25, 0.5, 0.75, 0.9)
MERF = "merf"
"""DP-MERF, a baseline of the paper, of which nothing is set either."""


@dataclass(frozen=True)
class Method:
    """What differs from the defaults.

    Attributes:
        settings: Of `vf.TableFlow`.
        training: Of `vf.Training`.
        flow: Of `vf.hflow`, where the paper's flow takes the place of the flow of codes.
    """

    settings: Mapping[str, Any] = field(default_factory=dict)
    training: Mapping[str, Any] = field(default_factory=dict)
    flow: Mapping[str, Any] | None = None


_COLD = {"warm_start": False}


def _paper(*, flow: Mapping[str, Any] | None = None, **training: Any) -> Method:
    return Method(_COLD, training, flow or {})


METHODS: dict[str, Method] = {
    "codes": Method(),
    "codes-cold": Method(_COLD),
    "marginals": Method(training={"steps": 0}),
    "hflow": _paper(),
    "hflow-conditional": _paper(flow={"network": "conditional"}),
    "hflow-lu": _paper(flow={"linear": "lu"}),
    "hflow-no-linear": _paper(flow={"linear": "none"}),
    "hflow-variational": _paper(flow={"dequantization": "variational"}),
    "hflow-adam": _paper(optimizer="adam"),
    **{f"hflow-{clip}": _paper(clipping=clip) for clip in ("per-layer", "per-unit")},
    **{f"hflow-sparsified-{s:g}": _paper(clipping="sparsified", sparsity=s) for s in SPARSITIES},
}
"""By name: the defaults; those without a warm start; marginals with all of the budget and no step;
the paper's recipe made sound, and what is changed about it."""


def build(
    method: str, schema: vf.Schema, *, epsilon: float, delta: float, num_records: int, seed: int
) -> Any:
    """An estimator with a budget, ready to fit.

    Args:
        method: One of `METHODS`, or `MERF`.
        schema: What is declared about the columns.
        epsilon: Epsilon of the budget; infinite for a reference without privacy.
        delta: Delta of the budget.
        num_records: The number of training rows, declared public.
        seed: Seed of the fit.
    """
    budget = vf.Budget(epsilon=epsilon, delta=delta)
    if method == MERF:
        return Merf(schema=schema, budget=budget, num_records=num_records, seed=seed)
    if method not in METHODS:
        raise ValueError(f"the methods are {', '.join(METHODS)}, {MERF}; got {method!r}.")
    chosen = METHODS[method]
    settings = {**chosen.settings, "training": vf.Training(**chosen.training)}
    if chosen.flow is not None:
        settings["flow"] = vf.hflow(**chosen.flow)
    return vf.TableFlow(
        schema=schema, budget=budget, num_records=num_records, seed=seed, **settings
    )


def fit(estimator: Any, rows: Any) -> Any:
    """The fitted model; a reference without privacy is what was asked for, and labeled as such."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", vf.NotPrivateWarning)
        # the paper's delta is above 1/n on three of the sets; the page says so
        warnings.filterwarnings("ignore", message="delta=.* is not below")
        return estimator.fit(rows, progress=False)
