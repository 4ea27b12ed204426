"""The probes of the anomaly detectors: fewer records of the same generators."""

import math
from typing import Any

import numpy as np

import veilflow as vf
from reproductions.anomaly_detection import ensembles, fits, runs, sets, streams
from reproductions.anomaly_detection.runs import ENSEMBLE, PARTS, REFERENCE, STREAMS
from reproductions.dp_nf import estimators
from reproductions.probing import Probe, Sizes, smaller

_MOONS = "moons"


def load(name: str, split: int) -> sets.Case:
    """Half-moons, more of them, and rows from anywhere in their box."""
    facts = sets.facts_of(_MOONS)
    assert facts.bounds is not None
    records, ordinary = (vf.datasets.moons(400, seed=seed, standardize=True) for seed in (1, 2))
    strange = np.random.default_rng(3).uniform(*facts.bounds, (200, 2))
    return sets.Case(facts, records, ordinary, strange)


_CASE = ((sets, "load", load), (fits, "_SAMPLES", 2_000))
_VOTES = ((ensembles, "RECORDS", 2_000), (ensembles, "_ASKED", 200))
_STREAM = (
    (ensembles, "_ASKED", 200),
    *(
        (streams, name, value)
        for name, value in {
            "PARTS": 200,
            "RECORDS": 20_000,
            "QUERIES": 100,
            "ANOMALIES": 4,
            "LENGTHS": (100,),
        }.items()
    ),
)
_SMALL = {
    "training": vf.Training(steps=20, batch_size=64),
    "flow": vf.maf(blocks=1, hidden=(8,)),
}
_FITTED = (estimators, "fit", smaller(estimators.fit, **_SMALL))


def _probe(
    kind: str, data: str, method: str, epsilon: float, numbers: tuple[str, ...], sizes: Sizes
) -> Probe:
    def perform(draw: int) -> dict[str, Any]:
        task = runs.Task(data=data, method=method, epsilon=epsilon, split=draw)
        return runs.perform(task).result

    return Probe(name=kind, kind=kind, perform=perform, numbers=numbers, sizes=sizes)


_TOLD = ("auroc", "precision")
_SPENT = "guarantee/epsilon"
_STREAMED = ("100 queries/plain", "100 queries/sparse", "library", "right_votes", _SPENT)
PROBES = (
    _probe(
        "fits",
        _MOONS,
        "flow",
        4.0,
        (*_TOLD, "private 0.1/alarms", "samples 0.1/alarms", _SPENT),
        (*_CASE, _FITTED),
    ),
    _probe(
        REFERENCE,
        _MOONS,
        REFERENCE,
        math.inf,
        _TOLD,
        (*_CASE, _FITTED),
    ),
    _probe(
        ENSEMBLE,
        ENSEMBLE,
        "mixture",
        1.0,
        ("epsilon 1/kept", "epsilon 1/found", "unanimous", _SPENT),
        _VOTES,
    ),
    _probe(
        PARTS,
        PARTS,
        "mixture",
        4.0,
        ("5 parts/10 queries", "10 parts/100 queries", _SPENT),
        (*_VOTES, (streams, "KS", (5, 10)), (streams, "COUNTS", (10, 100))),
    ),
    *(_probe(kind, kind, "mixture", 4.0, _STREAMED, _STREAM) for kind in STREAMS),
)
