"""Other ways to a classifier, to compare with: DP-SGD, perturbations, and no privacy at all.

All are estimators with `fit` and `ledger`, and give the same kind of fitted classifier as
`vf.ExpMechClassifier`. Names are imported when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from veilflow.models.expm.baselines.dp_sgd import DpSgdClassifier as DpSgdClassifier
    from veilflow.models.expm.baselines.non_private import (
        NonPrivateClassifier as NonPrivateClassifier,
    )
    from veilflow.models.expm.baselines.objective import (
        ObjectivePerturbation as ObjectivePerturbation,
    )
    from veilflow.models.expm.baselines.output import OutputPerturbation as OutputPerturbation

_HOMES = {
    "DpSgdClassifier": "dp_sgd",
    "NonPrivateClassifier": "non_private",
    "ObjectivePerturbation": "objective",
    "OutputPerturbation": "output",
}

__all__ = [
    "DpSgdClassifier",
    "NonPrivateClassifier",
    "ObjectivePerturbation",
    "OutputPerturbation",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'veilflow.models.expm.baselines' has no attribute {name!r}")
    return getattr(import_module(f"veilflow.models.expm.baselines.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
