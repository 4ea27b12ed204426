"""The public names of veilflow and where they live: the one list of them.

Type checkers and editors read this file as it is. `__init__.py` reads it, too, to import each name when
it is first used.
"""

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
from veilflow.models.base_mixture import BaseMixture as BaseMixture
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
from veilflow.models.rehearsal import Rehearsal as Rehearsal
from veilflow.models.rehearsal import rehearse as rehearse
from veilflow.models.table.architecture import codes as codes
from veilflow.models.table.architecture import hflow as hflow
from veilflow.models.table.fitted_table import FittedTableFlow as FittedTableFlow
from veilflow.models.table.table_flow import TableFlow as TableFlow
from veilflow.models.twins import Start as Start
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
from veilflow.tabular.constraints import Between as Between
from veilflow.tabular.constraints import Derived as Derived
from veilflow.tabular.constraints import Equal as Equal
from veilflow.tabular.constraints import MissingIf as MissingIf
from veilflow.tabular.constraints import MissingTogether as MissingTogether
from veilflow.tabular.constraints import Near as Near
from veilflow.tabular.constraints import Sum as Sum
from veilflow.tabular.number_columns import Clock as Clock
from veilflow.tabular.number_columns import ListedNumeric as ListedNumeric
from veilflow.tabular.schema import Schema as Schema

__version__: str
