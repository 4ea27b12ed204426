"""One run: a model fitted to the training rows of a table, and rows of it measured."""

import dataclasses
import math
import time
from typing import Any

import numpy as np

from reproductions import memory
from reproductions.dp_hflow import data, estimators, gradients, measuring, peers
from reproductions.metrics.log_likelihood import mean_log_likelihood
from reproductions.tasks import Finished, OfSeed

DELTA = 1e-5
"""The paper's."""
REAL, HELD_OUT, SHUFFLED = "real", "held-out", "shuffled"
"""In the place of a method: the training rows themselves, the test rows (distances only), and training
rows each of whose columns was shuffled by itself."""
REFERENCES = (REAL, HELD_OUT, SHUFFLED)
SAMPLED = 100_000
"""Rows whose sampling is timed."""
GRADIENTS_OF = "hflow-variational"
"""The method whose gradients Figure 2 shows: the one with all three networks."""
_SAMPLING_SEED = 10_000
"""Added to the split: never the seed of a fit."""


class Task(OfSeed):
    """What to run."""

    delta = DELTA


def perform(task: Task) -> Finished:
    """Fit and measure, or measure real rows. Seconds are those of the fit."""
    found = data.load(task.data)
    if task.method in REFERENCES:
        return _reference(task, found)
    if task.method in peers.METHODS:
        return _peer(task, found)
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
    result = {
        **measuring.measure(task.data, found, synthetic, seed=task.split),
        **_likelihood(model, found.test),
        "fit_seconds": fitted - start,
        "sampling_seconds": sampled - fitted,
        "peak_gigabytes": peak,
        "plan": model.to_artifact().manifest["plan"],
        "guarantee": model.guarantee.to_json(),
        "ledger": model.ledger.to_json(),
    }
    first = task.split == 1  # the figures show one
    arrays = measuring.histograms(task.data, found, synthetic) if first else {}
    if first and task.method == GRADIENTS_OF:
        arrays |= gradients.by_layer(model, found.train, seed=seed)
    return Finished(result, arrays, fitted - start)


def _peer(task: Task, found: data.Data) -> Finished:
    """A method of dpmm, in a process of its own."""
    peer = peers.Peer(task.method, found.schema, task.epsilon, DELTA, task.split)
    sampled = peer.fit_and_sample(found.train, len(found.train))
    result = {
        **measuring.measure(task.data, found, sampled.rows, seed=task.split),
        **sampled.done,
        "guarantee": {"epsilon": task.epsilon, "accountant": "dpmm's own"},
    }
    return Finished(result, {}, sampled.done["fit_seconds"])


def _reference(task: Task, found: data.Data) -> Finished:
    """What real rows reach in the place of synthetic ones."""
    start = time.perf_counter()
    if task.method == HELD_OUT:
        result = measuring.distances(found.train, found.test, found, seed=task.split)
    else:
        rows = found.train if task.method == REAL else _shuffled(found.train, task.split)
        result = measuring.measure(task.data, found, rows, seed=task.split)
    result["guarantee"] = {"epsilon": "inf", "accountant": "none"}
    return Finished(result, {}, time.perf_counter() - start)


def _shuffled(rows: Any, seed: int) -> Any:
    """The rows, each column in an order of its own: what nobody learned dependence from."""
    rng = np.random.default_rng(_SAMPLING_SEED + seed)
    columns = {name: rows[name].to_numpy()[rng.permutation(len(rows))] for name in rows}
    return rows.assign(**columns).astype(rows.dtypes.to_dict())


def _likelihood(model: Any, rows: Any) -> dict[str, Any]:
    """The log-likelihood of rows, of a model that has a density."""
    if not hasattr(model, "log_prob"):
        return {}
    return {"log_likelihood": _plain(dataclasses.asdict(mean_log_likelihood(model, rows)))}


def _plain(numbers: dict[str, Any]) -> dict[str, Any]:
    """Numbers as JSON has them: what is not finite becomes None."""
    return {name: value if math.isfinite(value) else None for name, value in numbers.items()}
