"""One small artifact of every kind of model that is saved, made once."""

import warnings
from functools import lru_cache
from typing import Any

import numpy as np

import veilflow as vf
from tests.models.expm import test_classifier as classifiers
from tests.models.image import small as images
from tests.models.posterior import line
from tests.models.table import small as tables
from veilflow.models.artifact import Artifact
from veilflow.models.chained import ChainedImputer

ROWS = np.random.default_rng(0).normal(size=(400, 2))
BUDGET = vf.Budget(1.0, 1e-5)


def density(rows: Any = ROWS, **settings) -> vf.FittedDensityFlow:
    usual = {"num_records": 400, "seed": 1, "start": "grid"}
    made = vf.DensityFlow(budget=BUDGET, bounds=(-4, 4), **{**usual, **settings})
    return made.fit(rows, progress=False)


def mixture(rows: Any = ROWS, **settings) -> vf.FittedMixtureDensity:
    usual = {"bounds": (-4, 4), "num_records": 400, "seed": 1, "num_components": 2, "steps": 3}
    made = vf.MixtureDensity(budget=BUDGET, **{**usual, **settings})
    return made.fit(rows, progress=False)


def imputer(rows: np.ndarray = ROWS):
    return ChainedImputer(bounds=(-4, 4), budget=BUDGET, seed=1).fit(rows)


def classifier(sampler: str = "zoom") -> vf.FittedExpMechClassifier:
    return classifiers.fitted(sampler=classifiers.SMALL[sampler], seed=1)


def posterior(records: Any = None, **settings) -> vf.FittedPosterior:
    made = vf.FlowPosterior(
        log_likelihood=line.log_likelihood,
        log_prior=line.log_prior,
        parameters=line.NAMES,
        budget=vf.Budget(3.0, 1e-6),
        seed=3,
        **settings,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", vf.FewRecordsWarning)
        return made.fit(line.records(500) if records is None else records, progress=False)


MAKERS = {
    "density": density,
    "mixture": mixture,
    "table": tables.fitted,
    "images": images.drawn,
    "classifier": classifier,
    "conditional classifier": lambda: classifier("flow"),
    "posterior": posterior,
    "imputer": imputer,
}


@lru_cache
def fitted(kind: str):
    """A fitted model of a kind."""
    return MAKERS[kind]()


def artifact(kind: str) -> Artifact:
    """What its file holds."""
    return fitted(kind).to_artifact()
