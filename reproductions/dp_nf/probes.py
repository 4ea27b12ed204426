"""Rows of all data sets in the small, and the probes of DP-NF."""

from functools import partial
from typing import Any

import numpy as np

import veilflow as vf
from reproductions.dp_nf import data, estimators, runs
from reproductions.probing import Probe, Sizes, smaller

_SMALL = {
    "training": vf.Training(steps=30, batch_size=128),
    "flow": vf.maf(blocks=1, hidden=(8,)),
}


def load(name: str, *, num_rows: int = 200) -> data.Data:
    """Normal rows, always the same of a data set, in ten folds."""
    rng = np.random.default_rng(sum(map(ord, name)))
    rows = 0.1 * rng.standard_normal((num_rows, len(data.FACTS[name].columns)))
    return data.Data(rows, np.arange(num_rows) % data.SPLITS + 1)


def _probe(name: str, method: str, sizes: Sizes = ()) -> Probe:
    def perform(draw: int) -> dict[str, Any]:
        # always the same split: without a seed, the noise of each draw is its own
        return runs.perform(runs.Task(data="lifesci", method=method, epsilon=8.0, split=1)).result

    return Probe(
        name=name,
        kind="run",
        perform=perform,
        numbers=("log_likelihood/mean", "regression/synthetic", "auroc", "guarantee/epsilon"),
        sizes=((data, "load", partial(load, num_rows=2_000)), *sizes),
    )


def _ensemble(draw: int) -> dict[str, Any]:
    task = runs.Task(data="moons", method="ensemble-mixture-2", epsilon=1.0, split=1)
    return runs.perform(task).result


PROBES = (
    _probe("flow", "flow", [(estimators, "fit", smaller(estimators.fit, **_SMALL))]),
    _probe("mixture", "mixture-2"),
    Probe(
        name="ensemble",
        kind="ensemble",
        perform=_ensemble,
        numbers=("kept", "unanimous", "guarantee/epsilon"),
        sizes=((data, "load", partial(load, num_rows=2_000)),),
    ),
)
