"""One run: a model fitted to the training rows of a table, and rows of it measured."""

import dataclasses
import math
import time
from typing import Any

from reproductions import memory
from reproductions.dp_hflow import data, estimators, measuring
from reproductions.metrics.log_likelihood import mean_log_likelihood
from reproductions.tasks import Finished, OfSeed

DELTA = 1e-5
"""The paper's."""
REAL, HELD_OUT = "real", "held-out"
"""In the place of a method: the training rows themselves, and the test rows (distances only)."""
SAMPLED = 100_000
"""Rows whose sampling is timed."""
_SAMPLING_SEED = 10_000
"""Added to the split: never the seed of a fit."""


class Task(OfSeed):
    """What to run."""

    delta = DELTA


def perform(task: Task) -> Finished:
    """Fit and measure, or measure real rows. Seconds are those of the fit."""
    found = data.load(task.data)
    if task.method in (REAL, HELD_OUT):
        return _reference(task, found)
    memory.forget_peak()
    start = time.perf_counter()
    estimator = estimators.build(
        task.method,
        found.schema,
        epsilon=task.epsilon,
        delta=DELTA,
        num_records=len(found.train),
        seed=task.split,
    )
    model = estimators.fit(estimator, found.train)
    fitted = time.perf_counter()
    seed = _SAMPLING_SEED + task.split
    synthetic = model.sample(SAMPLED, seed=seed)
    sampled = time.perf_counter()
    peak = memory.peak_gigabytes()
    rows = len(found.train)
    synthetic = synthetic.head(rows) if rows <= SAMPLED else model.sample(rows, seed=seed)
    likelihood = mean_log_likelihood(model, found.test)
    result = {
        **measuring.measure(task.data, found, synthetic, seed=task.split),
        "log_likelihood": _plain(dataclasses.asdict(likelihood)),
        "fit_seconds": fitted - start,
        "sampling_seconds": sampled - fitted,
        "peak_gigabytes": peak,
        "plan": model.to_artifact().manifest["plan"],
        "guarantee": model.guarantee.to_json(),
        "ledger": model.ledger.to_json(),
    }
    first = task.split == 1  # the figures show one
    arrays = measuring.histograms(task.data, found, synthetic) if first else {}
    return Finished(result, arrays, fitted - start)


def _reference(task: Task, found: data.Data) -> Finished:
    """What real rows reach: training rows in the place of synthetic ones, or test rows."""
    start = time.perf_counter()
    if task.method == REAL:
        result = measuring.measure(task.data, found, found.train, seed=task.split)
    else:
        result = measuring.distances(found.train, found.test, found, seed=task.split)
    result["guarantee"] = {"epsilon": "inf", "accountant": "none"}
    return Finished(result, {}, time.perf_counter() - start)


def _plain(numbers: dict[str, Any]) -> dict[str, Any]:
    """Numbers as JSON has them: what is not finite becomes None."""
    return {name: value if math.isfinite(value) else None for name, value in numbers.items()}
