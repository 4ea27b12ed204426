"""The four tables in the small, and the probes of DP-HFlow."""

import math
from typing import Any

import numpy as np
import pandas as pd

import veilflow as vf
from reproductions import memory
from reproductions.dp_hflow import data, estimators, runs
from reproductions.probing import Probe, smaller

ROWS = 240
_LISTED = {
    "adult": ("education", "marital_status", "occupation"),
    "covertype": (),
    "census": ("race",),
    "intrusion": ("service",),
    "few": ("kind",),
}
_NUMBERS = {
    "adult": ("capital_gain", "capital_loss"),
    "covertype": ("Elevation", "Aspect", "Horizontal_Distance_To_Roadways"),
    "census": ("age", "weeks"),
    "intrusion": ("duration", "count"),
    "few": ("age",),
}
"""The last in the place of none of them: each column costs seconds to compile."""
LABELS = {
    "adult": "income",
    "covertype": "Cover_Type",
    "census": "income_50k",
    "intrusion": "label",
    "few": "label",
}
_SIZES = (
    (data, "load", lambda name: load(name)),
    (runs, "SAMPLED", ROWS),
    (memory, "forget_peak", lambda: None),  # it collects all garbage first
)
_SMALL = {
    "training": vf.Training(steps=10, batch_size=64),
    "flow": vf.codes(hidden=(4,), most_bins=4),
}


def load(name: str) -> data.Data:
    """A table with the columns that figures and tables name; the label follows from the first."""
    rng = np.random.default_rng(sum(map(ord, name)))
    frame: dict[str, Any] = {x: rng.integers(0, 9, 2 * ROWS) for x in _NUMBERS[name]}
    frame |= {x: rng.choice(["a", "b", "c"], 2 * ROWS) for x in _LISTED[name]}
    label = LABELS[name]
    frame[label] = np.where(frame[_NUMBERS[name][0]] > 4, "x", "y")
    columns: dict[str, Any] = {x: vf.Numeric(0, 8, integer=True) for x in _NUMBERS[name]}
    columns |= {x: vf.Categorical("a", "b", "c", nullable=True) for x in _LISTED[name]}
    columns[label] = vf.Categorical("y", "x")
    whole = pd.DataFrame(frame)[list(columns)]
    halves = whole.iloc[:ROWS], whole.iloc[ROWS:].reset_index(drop=True)
    return data.Data(*halves, vf.Schema(columns, label=label))


def _run(method: str, epsilon: float, draw: int) -> dict[str, Any]:
    task = runs.Task(data="few", method=method, epsilon=epsilon, split=draw)
    return runs.perform(task).result


_MEASURED = ("classifiers/mean/auroc", "classifiers/mean/macro_f1", "detection")
PROBES = (
    Probe(
        name="real rows",
        kind="reference",
        perform=lambda draw: _run(runs.REAL, math.inf, draw),
        numbers=_MEASURED,
        sizes=_SIZES,
    ),
    Probe(
        name="merf",
        kind="embedding",
        perform=lambda draw: _run(estimators.MERF, 8.0, draw),
        numbers=(*_MEASURED, "marginals/mean_two_way", "guarantee/epsilon"),
        sizes=(*_SIZES, (estimators, "fit", smaller(estimators.fit, frequencies=8, steps=50))),
    ),
    Probe(
        name="codes",
        kind="model",
        perform=lambda draw: _run("codes", 8.0, draw),
        numbers=(*_MEASURED, "marginals/mean_two_way", "log_likelihood/mean", "guarantee/epsilon"),
        sizes=(*_SIZES, (estimators, "fit", smaller(estimators.fit, **_SMALL))),
    ),
)
