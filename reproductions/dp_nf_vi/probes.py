"""The probes of DP-NF-VI: fewer records and patients of the same generators."""

from functools import lru_cache, partial
from typing import Any

import numpy as np

from reproductions.dp_nf_vi import circulation, data, runs, simulator
from reproductions.probing import Probe, Sizes

_PATIENTS = 64
_REGRESSION = (
    (data, "NUM_RECORDS", 2_000),
    (data, "_HMC", {"draws": 2_000, "warm": 100, "step": 0.8, "leaps": 1}),
    # what the real runs keep is of all records
    (data, "regression", lru_cache(data.regression.__wrapped__)),
    (data, "reference_draws", lru_cache(data.reference_draws.__wrapped__)),
)
_COHORT = (
    (data, "cohort", lambda name: cohort()),
    (circulation, "emulator", lru_cache(circulation.emulator.__wrapped__)),
    (simulator, "emulate", partial(simulator.emulate, points=16, hidden=(8,), steps=200)),
)


def cohort() -> tuple[np.ndarray, np.ndarray]:
    """Patients with cells anywhere in the declared ranges and gaps in some, and others without gaps.

    To simulate some would take longer than all the rest of the probe.
    """
    rng, bounds = np.random.default_rng(0), data.cohort_bounds()
    train, test = (rng.uniform(*bounds, (_PATIENTS, len(data.KEPT))) for _ in range(2))
    return np.where(rng.random(train.shape) < 0.1, np.nan, train), test


def _probe(
    name: str, data: str, method: str, epsilon: float, numbers: tuple[str, ...], sizes: Sizes
) -> Probe:
    def perform(draw: int) -> dict[str, Any]:
        task = runs.Task(data=data, method=method, epsilon=epsilon, split=draw)
        return runs.perform(task).result

    kind = "regression" if data == "regression" else "cohort"
    return Probe(name=name, kind=kind, perform=perform, numbers=numbers, sizes=sizes)


PROBES = (
    _probe(
        "direct",
        "regression",
        "direct",
        5.0,
        ("error/0", "error/1", "ratio/0", "ratio/1", "correlation", "guarantee/epsilon"),
        _REGRESSION,
    ),
    _probe(
        "patients",
        "cohort64",
        runs.SYNTHETIC,
        8.0,
        # not the errors of its means: those of few patients have tails that no spread tells
        ("accuracy", "mse", "guarantee/epsilon"),
        _COHORT,
    ),
)
