"""Training by the exponential mechanism: targets, samplers, classifiers.

`vf.ExpMechClassifier` assembles them. Names are imported when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from veilflow.models.expm.classifier import ExpMechClassifier as ExpMechClassifier
    from veilflow.models.expm.fitted_classifier import (
        FittedExpMechClassifier as FittedExpMechClassifier,
    )
    from veilflow.releases.expm.flow_sampler import FlowSampler as FlowSampler
    from veilflow.releases.expm.grid import GridSampler as GridSampler
    from veilflow.releases.expm.grud import GruD as GruD
    from veilflow.releases.expm.hmc import HmcSampler as HmcSampler
    from veilflow.releases.expm.loss import BoundedLoss as BoundedLoss
    from veilflow.releases.expm.network import Logistic as Logistic
    from veilflow.releases.expm.network import Mlp as Mlp
    from veilflow.releases.expm.prior import GaussianPrior as GaussianPrior
    from veilflow.releases.expm.prior import LaplacePrior as LaplacePrior
    from veilflow.releases.expm.rejection import RejectionSampler as RejectionSampler
    from veilflow.releases.expm.target import Target as Target
    from veilflow.releases.expm.zoom import ZoomSampler as ZoomSampler

_HOMES = {
    "BoundedLoss": "veilflow.releases.expm.loss",
    "ExpMechClassifier": "veilflow.models.expm.classifier",
    "FittedExpMechClassifier": "veilflow.models.expm.fitted_classifier",
    "FlowSampler": "veilflow.releases.expm.flow_sampler",
    "GaussianPrior": "veilflow.releases.expm.prior",
    "GridSampler": "veilflow.releases.expm.grid",
    "GruD": "veilflow.releases.expm.grud",
    "HmcSampler": "veilflow.releases.expm.hmc",
    "LaplacePrior": "veilflow.releases.expm.prior",
    "Logistic": "veilflow.releases.expm.network",
    "Mlp": "veilflow.releases.expm.network",
    "RejectionSampler": "veilflow.releases.expm.rejection",
    "Target": "veilflow.releases.expm.target",
    "ZoomSampler": "veilflow.releases.expm.zoom",
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
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'veilflow.models.expm' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
