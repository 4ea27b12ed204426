"""The methods of the tables, as estimators of the library. Settings come from generated problems."""

import math
import warnings
from dataclasses import replace
from typing import Any

import veilflow as vf
from reproductions.expm_nf import baselines
from reproductions.expm_nf.sets import Problem
from veilflow.engine import Optimizer

DELTA = 1e-5
"""The delta of DP-SGD, as in the paper. The other methods need none."""
_PRIOR = vf.GaussianPrior(2.0)
_RIDGES = (10.0, 100.0, 1000.0)
_SQUARED_RIDGES = (3.0, 10.0, 30.0, 100.0)
"""Ridges of logistic regression without privacy, by cross-entropy and squared loss, chosen on set b."""
_EPOCHS = (6, 12, 24)
"""Passes over the records of networks without privacy, chosen on set b."""
_BATCH = 128

PUBLISHED = vf.expm.FlowSampler(
    flow="sylvester",
    blocks=3,
    rank=2,
    base_scale=0.01,
    steps=250,
    samples=16,
    batch_size=250,
    optimizer=Optimizer(name="rmsprop", learning_rate=5e-3, schedule="constant"),
)
"""As the paper's search spaces have it: a narrow base, and few steps. Sums are rescaled, which the
authors' code does not do."""
LONGER = replace(PUBLISHED, base_scale=1.0, steps=1_500, optimizer=Optimizer(learning_rate=2e-2))
"""From a base as wide as half the prior, with six times the steps."""

_SPARING = {"steps": 150, "samples": 8, "batch_size": 100}
"""Of GRU-D, whose losses take longer."""

PRIVATE = (
    "zoom",
    "dp-sgd",
    "dp-sgd-l2",
    "dp-sgd-rdp",
    "dp-sgd-dropout",
    "output",
    "objective",
    "flow",
    "flow-longer",
)
ABLATIONS = ("batch-norm", "dropout")
"""Of GRU-D without privacy; both also with the squared loss."""
PLAIN = (
    "non-private",
    "non-private-l2",
    *(f"non-private{l2}-{name}" for name in ABLATIONS for l2 in ("", "-l2")),
)
METHODS = (*PLAIN, *PRIVATE)
DROPOUT = 0.5
"""As in the authors' code, which draws a rate in its search and does not use it."""


def estimator(method: str, problem: Problem, *, epsilon: float, seed: int) -> Any:
    """The estimator of a private method.

    Args:
        method: One of `PRIVATE`.
        problem: Its bounds, network and number of records count as declared.
        epsilon: The budget.
        seed: Seed of the estimator.
    """
    from reproductions.expm_nf import search

    base = method.removesuffix("-rdp").removesuffix("-dropout")
    settings: dict[str, Any] = {}
    if base in search.METHODS:
        grud = isinstance(problem.network, vf.expm.GruD)
        settings = untuned("grud" if grud else "lr", base)
        if problem.kind is not None:
            settings = search.best(problem.kind, base, epsilon)
    if method == "dp-sgd-rdp":
        settings = settings | {"accountant": "rdp"}
    if method == "dp-sgd-dropout":
        settings = settings | {"dropout": DROPOUT}
    return with_settings(
        base if settings else method, problem, settings, epsilon=epsilon, seed=seed
    )


def untuned(kind: str, method: str) -> dict[str, Any]:
    """Settings from before any search on series."""
    if method.startswith("dp-sgd"):
        return {"steps": 400 if kind == "lr" else 150}
    flow = PUBLISHED if kind == "lr" else replace(PUBLISHED, **_SPARING)
    names = ("blocks", "rank", "base_scale", "steps", "samples", "batch_size")
    return {
        **{name: getattr(flow, name) for name in names},
        "learning_rate": flow.optimizer.learning_rate,
        "momentum": 0.0,
    }


def with_settings(
    method: str, problem: Problem, settings: dict[str, Any], *, epsilon: float, seed: int
) -> Any:
    """The estimator of a private method with settings of a search."""
    facts: dict[str, Any] = {
        "bounds": problem.bounds,
        "model": problem.network,
        "num_records": len(problem.train[1]),
        "seed": seed,
    }
    pure, approximate = vf.Budget(epsilon, 0), vf.Budget(epsilon, DELTA)
    if method in ("dp-sgd", "dp-sgd-l2"):
        loss = "l2" if method.endswith("l2") else "bce"
        return baselines.DpSgdClassifier(budget=approximate, loss=loss, **settings, **facts)
    if method == "output":
        return baselines.OutputPerturbation(budget=pure, **facts)
    if method == "objective":
        return baselines.ObjectivePerturbation(budget=pure, **facts)
    sampler: Any = LONGER if method == "flow-longer" else "zoom"
    if method == "flow":
        rest = dict(settings)
        steps = {name: rest.pop(name) for name in ("learning_rate", "momentum")}
        sampler = replace(PUBLISHED, optimizer=replace(PUBLISHED.optimizer, **steps), **rest)
    return vf.ExpMechClassifier(budget=pure, prior=_PRIOR, sampler=sampler, **facts)


def target(problem: Problem, epsilon: float) -> Any:
    """What a flow is trained towards."""
    return vf.expm.Target(
        network=problem.network, loss=vf.expm.BoundedLoss("l2"), prior=_PRIOR, epsilon=epsilon
    )


def plain(method: str, problem: Problem, *, seed: int) -> list[Any]:
    """Estimators without privacy to choose from; only one where there is nothing to choose by."""
    squared = method.startswith("non-private-l2")
    settings: dict[str, Any] = {
        "bounds": problem.bounds,
        "model": problem.network,
        "seed": seed,
        "loss": "l2" if squared else "bce",
        "batch_norm": method.endswith("batch-norm"),
        "dropout": DROPOUT if method.endswith("dropout") else 0.0,
    }
    make = baselines.NonPrivateClassifier
    passes = len(problem.train[1]) / _BATCH
    if isinstance(problem.network, vf.expm.GruD):
        steps = [math.ceil(passes * epochs) for epochs in _EPOCHS]
        return [make(steps=num, batch_size=_BATCH, learning_rate=5e-3, **settings) for num in steps]
    chosen = _SQUARED_RIDGES if squared else _RIDGES
    ridges = chosen if problem.dev is not None else (1.0,)
    return [make(regularization=ridge, **settings) for ridge in ridges]


def fit(estimator: Any, records: tuple[Any, Any]) -> Any:
    """The fitted classifier, without a bar and without the warning that a table's title gives."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", vf.NotPrivateWarning)
        return estimator.fit(*records, progress=False)
