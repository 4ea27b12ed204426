"""Differentially private normalizing flows.

Densities and synthetic data that may be published, with a guarantee a reviewer can recompute.

    import veilflow as vf
    model = vf.DensityFlow(budget=vf.Budget(epsilon=1.0, delta=1e-6), bounds=(0, 1)).fit(rows)
    model.sample(1000); model.log_prob(rows); model.guarantee; model.save("model.veil")

Names are imported when they are first used, so that `import veilflow` and the command line start fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from veilflow import audit as audit
    from veilflow import datasets as datasets
    from veilflow._core.errors import ArtifactError as ArtifactError
    from veilflow._core.errors import BudgetError as BudgetError
    from veilflow._core.errors import FewRecordsWarning as FewRecordsWarning
    from veilflow._core.errors import NotPrivateWarning as NotPrivateWarning
    from veilflow._core.errors import PrivacyError as PrivacyError
    from veilflow.engine.training import Training as Training
    from veilflow.images.spec import ImageSpec as ImageSpec
    from veilflow.models import expm as expm
    from veilflow.models.architecture import maf as maf
    from veilflow.models.architecture import nsf as nsf
    from veilflow.models.architecture import realnvp as realnvp
    from veilflow.models.chained import ChainedImputer as ChainedImputer
    from veilflow.models.density import DensityFlow as DensityFlow
    from veilflow.models.detect.ensemble import EnsembleDetector as EnsembleDetector
    from veilflow.models.detect.ensemble_plan import Answering as Answering
    from veilflow.models.detect.fitted_ensemble import FittedEnsemble as FittedEnsemble
    from veilflow.models.detect.likelihood import LikelihoodDetector as LikelihoodDetector
    from veilflow.models.expm.classifier import ExpMechClassifier as ExpMechClassifier
    from veilflow.models.expm.fitted_classifier import (
        FittedExpMechClassifier as FittedExpMechClassifier,
    )
    from veilflow.models.fitted_density import FittedDensityFlow as FittedDensityFlow
    from veilflow.models.image.architecture import ImageArchitecture as ImageArchitecture
    from veilflow.models.image.fitted_image import FittedImageFlow as FittedImageFlow
    from veilflow.models.image.image_flow import ImageFlow as ImageFlow
    from veilflow.models.mixture import FittedMixtureDensity as FittedMixtureDensity
    from veilflow.models.mixture import MixtureDensity as MixtureDensity
    from veilflow.models.posterior.fitted_posterior import FittedPosterior as FittedPosterior
    from veilflow.models.posterior.fitted_posterior import combine_posteriors as combine_posteriors
    from veilflow.models.posterior.flow_posterior import FlowPosterior as FlowPosterior
    from veilflow.models.posterior.guides import Guide as Guide
    from veilflow.models.posterior.numpyro_model import NumpyroModel as NumpyroModel
    from veilflow.models.registry import load as load
    from veilflow.models.table.architecture import codes as codes
    from veilflow.models.table.architecture import hflow as hflow
    from veilflow.models.table.fitted_table import FittedTableFlow as FittedTableFlow
    from veilflow.models.table.table_flow import TableFlow as TableFlow
    from veilflow.privacy.budget import Budget as Budget
    from veilflow.privacy.dataset_ledger import DatasetLedger as DatasetLedger
    from veilflow.privacy.guarantees import Guarantee as Guarantee
    from veilflow.privacy.ledger import Ledger as Ledger
    from veilflow.privacy.policy import Policy as Policy
    from veilflow.releases.expm.prior import GaussianPrior as GaussianPrior
    from veilflow.releases.expm.prior import LaplacePrior as LaplacePrior
    from veilflow.tabular.columns import Boolean as Boolean
    from veilflow.tabular.columns import Categorical as Categorical
    from veilflow.tabular.columns import Datetime as Datetime
    from veilflow.tabular.columns import Numeric as Numeric
    from veilflow.tabular.columns import OpenCategorical as OpenCategorical
    from veilflow.tabular.columns import Ordinal as Ordinal
    from veilflow.tabular.constraints import Allowed as Allowed
    from veilflow.tabular.constraints import AtMost as AtMost
    from veilflow.tabular.schema import Schema as Schema

__version__ = "0.1.0.dev0"

_HOMES = {
    "Allowed": "veilflow.tabular.constraints",
    "Answering": "veilflow.models.detect.ensemble_plan",
    "ArtifactError": "veilflow._core.errors",
    "AtMost": "veilflow.tabular.constraints",
    "Boolean": "veilflow.tabular.columns",
    "Budget": "veilflow.privacy.budget",
    "BudgetError": "veilflow._core.errors",
    "Categorical": "veilflow.tabular.columns",
    "ChainedImputer": "veilflow.models.chained",
    "DatasetLedger": "veilflow.privacy.dataset_ledger",
    "Datetime": "veilflow.tabular.columns",
    "DensityFlow": "veilflow.models.density",
    "EnsembleDetector": "veilflow.models.detect.ensemble",
    "ExpMechClassifier": "veilflow.models.expm.classifier",
    "FittedDensityFlow": "veilflow.models.fitted_density",
    "FittedEnsemble": "veilflow.models.detect.fitted_ensemble",
    "FittedExpMechClassifier": "veilflow.models.expm.fitted_classifier",
    "FittedImageFlow": "veilflow.models.image.fitted_image",
    "FittedMixtureDensity": "veilflow.models.mixture",
    "FittedPosterior": "veilflow.models.posterior.fitted_posterior",
    "FittedTableFlow": "veilflow.models.table.fitted_table",
    "FlowPosterior": "veilflow.models.posterior.flow_posterior",
    "GaussianPrior": "veilflow.releases.expm.prior",
    "Guarantee": "veilflow.privacy.guarantees",
    "Guide": "veilflow.models.posterior.guides",
    "ImageArchitecture": "veilflow.models.image.architecture",
    "ImageFlow": "veilflow.models.image.image_flow",
    "ImageSpec": "veilflow.images.spec",
    "LaplacePrior": "veilflow.releases.expm.prior",
    "Training": "veilflow.engine.training",
    "Ledger": "veilflow.privacy.ledger",
    "LikelihoodDetector": "veilflow.models.detect.likelihood",
    "MixtureDensity": "veilflow.models.mixture",
    "FewRecordsWarning": "veilflow._core.errors",
    "NotPrivateWarning": "veilflow._core.errors",
    "Numeric": "veilflow.tabular.columns",
    "NumpyroModel": "veilflow.models.posterior.numpyro_model",
    "OpenCategorical": "veilflow.tabular.columns",
    "Ordinal": "veilflow.tabular.columns",
    "Policy": "veilflow.privacy.policy",
    "PrivacyError": "veilflow._core.errors",
    "Schema": "veilflow.tabular.schema",
    "TableFlow": "veilflow.models.table.table_flow",
    "audit": "veilflow.audit",
    "codes": "veilflow.models.table.architecture",
    "combine_posteriors": "veilflow.models.posterior.fitted_posterior",
    "datasets": "veilflow.datasets",
    "expm": "veilflow.models.expm",
    "hflow": "veilflow.models.table.architecture",
    "load": "veilflow.models.registry",
    "maf": "veilflow.models.architecture",
    "nsf": "veilflow.models.architecture",
    "realnvp": "veilflow.models.architecture",
}

__all__ = [
    "Allowed",
    "Answering",
    "ArtifactError",
    "AtMost",
    "Boolean",
    "Budget",
    "BudgetError",
    "Categorical",
    "ChainedImputer",
    "DatasetLedger",
    "Datetime",
    "DensityFlow",
    "EnsembleDetector",
    "ExpMechClassifier",
    "FewRecordsWarning",
    "FittedDensityFlow",
    "FittedEnsemble",
    "FittedExpMechClassifier",
    "FittedImageFlow",
    "FittedMixtureDensity",
    "FittedPosterior",
    "FittedTableFlow",
    "FlowPosterior",
    "GaussianPrior",
    "Guarantee",
    "Guide",
    "ImageArchitecture",
    "ImageFlow",
    "ImageSpec",
    "LaplacePrior",
    "Ledger",
    "LikelihoodDetector",
    "MixtureDensity",
    "NotPrivateWarning",
    "Numeric",
    "NumpyroModel",
    "OpenCategorical",
    "Ordinal",
    "Policy",
    "PrivacyError",
    "Schema",
    "TableFlow",
    "Training",
    "audit",
    "codes",
    "combine_posteriors",
    "datasets",
    "expm",
    "hflow",
    "load",
    "maf",
    "nsf",
    "realnvp",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'veilflow' has no attribute {name!r}")
    module = import_module(_HOMES[name])
    return module if name in ("audit", "datasets", "expm") else getattr(module, name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
