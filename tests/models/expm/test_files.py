"""Files that were doctored, or belong to something else, are refused."""

import dataclasses
from typing import Any

import numpy as np
import pytest

import veilflow as vf
from veilflow._core import codec
from veilflow._core.errors import ArtifactError
from veilflow.models import artifact as artifacts
from veilflow.models import registry
from veilflow.releases.expm.grid import GridSampler
from veilflow.releases.expm.hmc import HmcSampler


def made(sampler: Any) -> artifacts.Artifact:
    rows = np.linspace(0, 1, 10)[:, None]
    estimator = vf.ExpMechClassifier(
        budget=vf.Budget(1.0, 0), prior=vf.GaussianPrior(1.0), bounds=(0, 1), sampler=sampler
    )
    return estimator.fit(rows, (rows[:, 0] > 0.5).astype(int), progress=False).to_artifact()


@pytest.fixture(scope="module")
def artifact() -> artifacts.Artifact:
    return made(GridSampler(per_axis=5))


def with_draw(artifact: artifacts.Artifact, **changes: Any) -> artifacts.Artifact:
    """With other settings of the draw in the plan."""
    plan = artifact.manifest["plan"]
    (draw,) = plan["releases"]
    plan = {**plan, "releases": [{**draw, **changes}]}
    return dataclasses.replace(artifact, manifest={**artifact.manifest, "plan": plan})


def with_network(artifact: artifacts.Artifact, **changes: Any) -> artifacts.Artifact:
    target = artifact.manifest["plan"]["releases"][0]["target"]
    return with_draw(artifact, target={**target, "network": {**target["network"], **changes}})


def with_schema(artifact: artifacts.Artifact, **changes: Any) -> artifacts.Artifact:
    return dataclasses.replace(artifact, schema={**artifact.schema, **changes})


def with_thetas(artifact: artifacts.Artifact, thetas: Any) -> artifacts.Artifact:
    (name,) = artifact.arrays
    return dataclasses.replace(artifact, arrays={name: thetas})


@pytest.mark.parametrize(
    "doctor",
    [
        lambda a: with_thetas(a, np.zeros((1, 3), np.float32)),
        lambda a: with_thetas(a, np.zeros((2, 2), np.float32)),
        lambda a: with_thetas(a, np.zeros((1, 2), np.float64)),
        lambda a: with_thetas(a, np.full((1, 2), np.nan, np.float32)),
        lambda a: dataclasses.replace(a, arrays={}),
        lambda a: with_network(a, kind="Forest"),
        lambda a: with_network(a, num_features=10**9),
        lambda a: with_network(a, num_classes=3),
        lambda a: with_draw(a, num_models=2),
        lambda a: with_draw(a, num_models=10**12),
        lambda a: with_draw(a, num_models=0),
        lambda a: with_draw(a, sampler=3),
        lambda a: with_draw(a, sampler=codec.plain(HmcSampler())),
        lambda a: with_draw(a, sampler={"kind": "GridSampler", "per_axis": 5, "candidates": "x"}),
        lambda a: with_schema(a, classes=[0]),
        lambda a: with_schema(a, classes=[0, 0]),
        lambda a: with_schema(a, classes=[0, [1]]),
        lambda a: with_schema(a, classes=[0, 1, 2]),
        lambda a: with_schema(a, columns=["a", "b"]),
        lambda a: with_schema(a, domain={"kind": "box", "low": [0, 0], "high": [1, 1]}),
    ],
)
def test_doctored_files_are_refused(artifact, doctor):
    assert registry.from_artifact(artifact)
    with pytest.raises(ArtifactError):
        registry.from_artifact(doctor(artifact))


def test_a_guarantee_that_no_longer_says_conditional_is_refused():
    whole = made(HmcSampler(warmup=2, steps=1, leapfrogs=1))
    assert registry.from_artifact(whole).conditional
    quiet = dataclasses.replace(
        whole,
        ledger=dataclasses.replace(whole.ledger, assumptions=()),
        guarantee=dataclasses.replace(whole.guarantee, assumptions=()),
    )
    with pytest.raises(ArtifactError):
        registry.from_artifact(quiet)
