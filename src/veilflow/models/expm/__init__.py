"""Training by the exponential mechanism: targets, samplers, classifiers.

`vf.ExpMechClassifier` assembles them.
"""

from veilflow.models.expm.classifier import ExpMechClassifier
from veilflow.models.expm.fitted_classifier import FittedExpMechClassifier
from veilflow.releases.expm.diagnosis import Diagnosis, diagnose, diagnose_flow
from veilflow.releases.expm.flow_sampler import FlowSampler
from veilflow.releases.expm.grid import GridSampler
from veilflow.releases.expm.grud import GruD
from veilflow.releases.expm.hmc import HmcSampler
from veilflow.releases.expm.loss import BoundedLoss
from veilflow.releases.expm.network import Logistic, Mlp
from veilflow.releases.expm.prior import GaussianPrior, LaplacePrior
from veilflow.releases.expm.rejection import RejectionSampler
from veilflow.releases.expm.target import Target
from veilflow.releases.expm.zoom import ZoomSampler

__all__ = [
    "BoundedLoss",
    "Diagnosis",
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
    "diagnose_flow",
]
