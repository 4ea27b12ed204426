"""Training by the exponential mechanism: targets, samplers, classifiers.

`vf.ExpMechClassifier` assembles them; `baselines` are other ways to a classifier. Names are imported
when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from veilflow.models.expm.classifier import ExpMechClassifier as ExpMechClassifier
    from veilflow.models.expm.diagnostics import diagnose as diagnose
    from veilflow.models.expm.fitted_classifier import (
        FittedExpMechClassifier as FittedExpMechClassifier,
    )
    from veilflow.models.expm.flow_sampler import FlowSampler as FlowSampler
    from veilflow.models.expm.grid import GridSampler as GridSampler
    from veilflow.models.expm.grud import GruD as GruD
    from veilflow.models.expm.hmc import HmcSampler as HmcSampler
    from veilflow.models.expm.loss import BoundedLoss as BoundedLoss
    from veilflow.models.expm.network import Logistic as Logistic
    from veilflow.models.expm.network import Mlp as Mlp
    from veilflow.models.expm.prior import GaussianPrior as GaussianPrior
    from veilflow.models.expm.prior import LaplacePrior as LaplacePrior
    from veilflow.models.expm.rejection import RejectionSampler as RejectionSampler
    from veilflow.models.expm.target import Target as Target
    from veilflow.models.expm.zoom import ZoomSampler as ZoomSampler

_HOMES = {
    "BoundedLoss": "loss",
    "ExpMechClassifier": "classifier",
    "FittedExpMechClassifier": "fitted_classifier",
    "FlowSampler": "flow_sampler",
    "GaussianPrior": "prior",
    "GridSampler": "grid",
    "GruD": "grud",
    "HmcSampler": "hmc",
    "LaplacePrior": "prior",
    "Logistic": "network",
    "Mlp": "network",
    "RejectionSampler": "rejection",
    "Target": "target",
    "ZoomSampler": "zoom",
    "diagnose": "diagnostics",
}

__all__ = [
    "BoundedLoss",
    "ExpMechClassifier",
    "FittedExpMechClassifier",
    "FlowSampler",
    "GaussianPrior",
    "GridSampler",
    "GruD",
    "HmcSampler",
    "LaplacePrior",
    "Logistic",
    "Mlp",
    "RejectionSampler",
    "Target",
    "ZoomSampler",
    "diagnose",
]


def __getattr__(name: str) -> Any:
    if name == "baselines":
        return import_module("veilflow.models.expm.baselines")
    if name not in _HOMES:
        raise AttributeError(f"module 'veilflow.models.expm' has no attribute {name!r}")
    return getattr(import_module(f"veilflow.models.expm.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "baselines"])
