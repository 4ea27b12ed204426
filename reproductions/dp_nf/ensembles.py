"""Figures 6 and 8: ten parts of Half-Moons, a density of each without noise, and an answer by votes.

No part is protected by itself: only answers are released, each at its own epsilon. Votes are looked
at here because the rows come out of a generator.
"""

import time
from typing import Any

import numpy as np
from jaxtyping import Float

import veilflow as vf
from reproductions.dp_nf import paper
from reproductions.dp_nf.data import Data, Facts
from reproductions.tasks import Finished

METHODS = {
    "MoG_3": "ensemble-mixture-3",
    "MAF, as in the paper": "ensemble-maf",
    "our default flow": "ensemble-flow",
}
"""What the parts learn, by its name in the figure."""
PARTS = 10
CELLS = 80
"""Of the grid that votes are looked at on, along each side."""


def perform(method: str, facts: Facts, rows: Data, *, epsilon: float, split: int) -> Finished:
    """Fit the parts, and let them vote on a grid and on test rows.

    Args:
        method: One of `METHODS`.
        facts: What is public about the data.
        rows: The data.
        epsilon: Of one answer, at delta 0.
        split: Which.
    """
    train, test = rows.split(split)
    start = time.perf_counter()
    estimator = build(method, facts, epsilon=epsilon)
    ensemble = estimator.fit(train, progress=False)
    on_grid = _inside(ensemble, grid(facts))
    seconds = time.perf_counter() - start
    on_test = _inside(ensemble, test).sum(axis=0)
    result = {
        "kept": float(ensemble.response_probability(on_test).mean()),
        "unanimous": float(np.isin(on_grid.sum(axis=0), (0, PARTS)).mean()),
        "guarantee": estimator.plan().guarantee.to_json(),
        "ledger": estimator.plan().ledger.to_json(),
    }
    square = on_grid.reshape(PARTS, CELLS, CELLS)
    answers = ensemble.response_probability(square.sum(axis=0))
    return Finished(result, {"inside": square, "answers": answers}, seconds)


def build(method: str, facts: Facts, *, epsilon: float) -> vf.EnsembleDetector:
    """An ensemble for one query, with the threshold that needs no rows: the density of the box."""
    kind, _, detail = method.removeprefix("ensemble-").partition("-")
    learned: dict[str, Any] = {
        "mixture": {"flow": "mixture", "num_components": int(detail or 1)},
        "maf": {"flow": paper.FLOW},
        "flow": {},
    }[kind]
    return vf.EnsembleDetector(
        budget=vf.Budget(epsilon, 0.0),
        answers=vf.Answering(max_queries=1),
        bounds=facts.bounds,
        parts=PARTS,
        **learned,
    )


def grid(facts: Facts) -> Float[np.ndarray, "cells 2"]:
    """Centers of the cells of the box, row by row from below."""
    assert facts.bounds is not None
    low, high = np.array(facts.bounds)
    at = (np.arange(CELLS) + 0.5) / CELLS
    x, y = (low[i] + (high[i] - low[i]) * at for i in range(2))
    return np.stack([part.ravel() for part in np.meshgrid(x, y)], axis=1)


def _inside(ensemble: vf.FittedEnsemble, rows: Float[np.ndarray, "rows 2"]) -> np.ndarray:
    """Whether each part calls each row normal."""
    domain = ensemble.domain
    found = ensemble.densities.log_prob(domain.encode(domain.clamp(rows))) - domain.log_scale(2)
    return np.asarray(found > ensemble.threshold)
