"""One run: a model fitted to the training rows of one split, measured on its test rows.

What is measured here is about public benchmarks. On private rows every number below would be as
private as the rows.
"""

import dataclasses
import math
import time
from typing import Any

import numpy as np

from reproductions.dp_nf import data, ensembles, estimators
from reproductions.metrics.figures import density_grid
from reproductions.metrics.log_likelihood import mean_log_likelihood
from reproductions.metrics.marginals import compare_marginals
from reproductions.metrics.projection import Projection, principal_axes
from reproductions.metrics.regression import knn_regression
from reproductions.metrics.roc import anomalies
from reproductions.tasks import Finished, OfSplit
from veilflow import evaluation

NEIGHBORS = 5
"""Neighbors of the regression: the default of the authors' library. (The paper's text says 3.)"""
_BINS, _VIEW_CELLS, _TOY_CELLS = 50, 60, 80
_VIEW_ROOM = 0.06
"""Margin shown on either side, as a share of the width that holds almost all rows."""


class Task(OfSplit):
    """What to run, with what is declared about the data set."""

    @property
    def settings(self) -> dict[str, Any]:
        """Everything that decides the result beside the code, as plain JSON."""
        facts = data.FACTS[self.data]
        domain = [list(side) for side in facts.bounds] if facts.bounds else facts.row_norm
        return {**super().settings, "delta": facts.delta, "domain": domain}

    def __str__(self) -> str:
        return super().__str__().replace(self.data, data.FACTS[self.data].title, 1)


def perform(task: Task) -> Finished:
    """Fit and measure."""
    rows, facts = data.load(task.data), data.FACTS[task.data]
    if task.method.startswith("ensemble"):
        return ensembles.perform(task.method, facts, rows, epsilon=task.epsilon, split=task.split)
    train, test = rows.split(task.split)
    start = time.perf_counter()
    estimator = estimators.build(task.method, facts, epsilon=task.epsilon, num_records=len(train))
    model = estimators.fit(estimator, train)
    found = mean_log_likelihood(model, test)
    seconds = time.perf_counter() - start
    result = {
        "log_likelihood": _plain(dataclasses.asdict(found)),
        "guarantee": model.guarantee.to_json(),
        "ledger": model.ledger.to_json(),
    }
    arrays: dict[str, np.ndarray] = {}
    if task.data == "lifesci":
        synthetic = model.sample(len(train))
        knn = knn_regression(synthetic, real_train=train, real_test=test, neighbors=NEIGHBORS)
        curve = _roc(model, test, seed=task.split)
        result |= {"regression": dataclasses.asdict(knn), "auroc": curve.auroc}
        if task.split == 1:  # the figures show one split
            arrays = {**_marginals(test, synthetic), **_view(train, test, synthetic)}
            arrays |= {"roc": _thinned(curve)}
    if task.data in data.TOYS and task.split == 1:
        arrays = _densities(model, facts, train)
    return Finished(result, arrays, seconds)


def _roc(model: Any, test: np.ndarray, *, seed: int) -> evaluation.Roc:
    strange = anomalies(test, seed=seed)  # the same for every method
    return evaluation.roc_curve(model.log_prob(test), model.log_prob(strange))


def _thinned(curve: evaluation.Roc, points: int = 200) -> np.ndarray:
    at = np.linspace(0, len(curve.false_positive) - 1, points).round().astype(int)
    return np.stack([curve.false_positive[at], curve.true_positive[at]])


def _marginals(test: np.ndarray, synthetic: np.ndarray) -> dict[str, np.ndarray]:
    low, high = test.min(axis=0), test.max(axis=0)
    room = 0.15 * (high - low)  # the bins are the same for every method
    border = (low - room, high + room)
    found = compare_marginals(test, synthetic, bins=_BINS, bounds=border)
    parts = ("edges", "real", "synthetic")
    return {f"marginal_{x}": np.stack([getattr(column, x) for column in found]) for x in parts}


def _view(train: np.ndarray, test: np.ndarray, synthetic: np.ndarray) -> dict[str, np.ndarray]:
    """Histograms along the principal axes of the real rows, of real and of synthetic rows."""
    view = principal_axes(train)
    inner = np.percentile(view(train), [0.2, 99.8], axis=0)
    border = inner + _VIEW_ROOM * (inner[1] - inner[0]) * np.array([[-1.0], [1.0]])
    size = {"low": border[0], "high": border[1], "bins": _VIEW_CELLS}
    real, made = (view.histogram(x, **size) for x in (np.concatenate([train, test]), synthetic))
    return {"view_border": border, "view_real": real, "view_synthetic": made}


def _densities(model: Any, facts: data.Facts, train: np.ndarray) -> dict[str, np.ndarray]:
    assert facts.bounds is not None  # as all the toys have
    low, high = facts.bounds
    flat = Projection(np.zeros(2), np.eye(2))
    return {
        "density": density_grid(model, low=low, high=high).astype(np.float32),
        "density_data": flat.histogram(train, low=low, high=high, bins=_TOY_CELLS),
    }


def _plain(numbers: dict[str, Any]) -> dict[str, Any]:
    """Numbers as JSON has them: what is not finite becomes None."""
    return {name: value if math.isfinite(value) else None for name, value in numbers.items()}
