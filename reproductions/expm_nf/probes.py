"""A problem of two features in the place of each data set, and the probes of ExpM+NF."""

import math
from dataclasses import replace
from typing import Any

import numpy as np

import veilflow as vf
from reproductions.expm_nf import audit, exact, fits, methods, runs, sets
from reproductions.probing import Probe

_RECORDS = 200


def problem() -> sets.Problem:
    """Generated records, whose labels follow from the first feature."""
    rng = np.random.default_rng(0)
    rows = rng.uniform(-1, 1, (2 * _RECORDS, 2))
    labels = (rng.random(2 * _RECORDS) < 1 / (1 + np.exp(-4 * rows[:, 0]))).astype(int)
    train, rest = ((rows[part], labels[part]) for part in (slice(_RECORDS), slice(_RECORDS, None)))
    return sets.Problem(train, rest, rest, (-1, 1), vf.expm.Logistic(num_features=2))


FITS = (
    (sets, "load", lambda name: problem()),
    (methods, "PUBLISHED", replace(methods.PUBLISHED, steps=3, samples=2)),
    (fits, "DRAWS", 4),
)
"""What makes fits small."""
_SIZES = (
    *FITS,
    (exact, "_PER_AXIS", 61),
    (exact, "RECORDS", 40),
    (exact, "REJECTED", 40),
    (audit, "TRIALS", 20),
)


def _probe(name: str, data: str, method: str, epsilon: float, *numbers: str) -> Probe:
    def perform(draw: int) -> dict[str, Any]:
        task = runs.Task(data=data, method=method, epsilon=epsilon)
        return runs.perform(task, shift=10_000 * (draw - 1)).result

    where = data.partition("/")[0]
    kind = where if where in (runs.EXACT, runs.AUDIT, runs.TIME) else "fits"
    return Probe(name=name, kind=kind, perform=perform, numbers=numbers, sizes=_SIZES)


_SPENT = "guarantee/epsilon"
PROBES = (
    _probe("zoom", "generated", "zoom", 1.0, "auc", _SPENT),
    _probe("dp-sgd", "generated", "dp-sgd", 1.0, "auc", _SPENT),
    _probe("objective", "generated", "objective", 1.0, "auc", _SPENT),
    _probe("flow", "generated", "flow", 1.0, "auc", "lowest", "highest", _SPENT),
    _probe("no privacy", "generated", "non-private", math.inf, "auc"),
    _probe("rejection", runs.EXACT, "rejection", 0.2, "distance", "auc", _SPENT),
    _probe("attack", runs.AUDIT, "one-run:rejection", 0.1, "right", "guesses", _SPENT),
    _probe("time", f"{runs.TIME}/generated", "output", 1.0, _SPENT),
)
