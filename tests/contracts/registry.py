"""All estimators that the contract is for: whatever is public and has a `fit`, and the detector."""

from functools import cache
from typing import Any

from tests.contracts import answerers, generators
from tests.contracts.estimator import Estimator

ESTIMATORS: dict[str, Estimator] = {
    "DensityFlow": generators.density(),
    "MixtureDensity": generators.mixture(),
    "TableFlow": generators.table(),
    "ImageFlow": generators.images(),
    "ExpMechClassifier": answerers.classifier(),
    "FlowPosterior": answerers.posterior(),
    "LikelihoodDetector": answerers.likelihood(),
    "EnsembleDetector": answerers.ensemble(),
    "ChainedImputer": answerers.imputer(),
}

TRAINING_SETTINGS = generators.training()
"""Of no estimator, but of all that are trained."""
CODE_SETTINGS = generators.codes()
"""Of the flow of a table."""
ANSWERING_SETTINGS = answerers.answering()
"""Of the answers of an ensemble."""
GUIDE_SETTINGS = answerers.guide()
"""Of the flow of a posterior."""


@cache
def fitted(name: str) -> Any:
    """One fit of each, shared by all tests that only look at it."""
    one = ESTIMATORS[name]
    return one.fitted(one.make(), *one.data)
