"""Other ways to a classifier, to compare with: DP-SGD, perturbations, and no privacy at all.

They are for two classes and bounds around 0, as the data sets of the tables have them.
"""

from reproductions.expm_nf.baselines.baseline import Baseline, Fitted
from reproductions.expm_nf.baselines.dp_sgd import DpSgdClassifier
from reproductions.expm_nf.baselines.non_private import NonPrivateClassifier
from reproductions.expm_nf.baselines.objective import ObjectivePerturbation
from reproductions.expm_nf.baselines.output import OutputPerturbation

__all__ = [
    "Baseline",
    "DpSgdClassifier",
    "Fitted",
    "NonPrivateClassifier",
    "ObjectivePerturbation",
    "OutputPerturbation",
]
