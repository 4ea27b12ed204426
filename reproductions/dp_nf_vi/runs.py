"""One run: a posterior, or synthetic patients, measured."""

import math
import time
from typing import Any

import numpy as np

import veilflow as vf
from reproductions.dp_nf_vi import circulation, data, estimators, measuring
from reproductions.dp_nf_vi.data import Posterior
from reproductions.dp_nf_vi.estimators import DELTA
from reproductions.tasks import Finished, OfSeed

REFERENCE, REAL, PATIENTS = "hmc", "real", "patients"
SYNTHETIC, MEANS = "synthetic", "synthetic, means"
TRAINED, FLOW = "synthetic, trained", "synthetic, flow"
_KINDS = {
    SYNTHETIC: estimators.STARTED,
    MEANS: estimators.STARTED,
    TRAINED: estimators.DEFAULT,
    FLOW: estimators.FLOW,
}
"""How the rows of each method are generated."""
SIMULATION = "through the equations"
SETS = 5
"""Synthetic sets of a run, from one generator."""
_IMPUTATION_SHARE = 0.2


class Task(OfSeed):
    """What to run."""

    delta = DELTA


def perform(task: Task) -> Finished:
    """Fit and measure."""
    if task.data == "regression":
        return _regression(task)
    return _cohort(task)


def _regression(task: Task) -> Finished:
    start = time.perf_counter()
    if task.method == REFERENCE:
        draws = data.reference_draws()
        result = {"posterior": Posterior.of(draws).told(), "guarantee": _NONE}
        return Finished(result, {"draws": draws[::20]}, time.perf_counter() - start)
    reference = Posterior.of(data.reference_draws())
    start = time.perf_counter()
    result: dict[str, Any] = {}
    if task.method in _KINDS:
        posterior, apart, model = _from_synthetic(task)
        draws = posterior.normal_draws(1_000, seed=0)
        result = {"apart": measuring.compared(apart, reference)}
    else:
        model = estimators.direct(task.method, epsilon=task.epsilon, seed=task.split)
        posterior, draws = Posterior(model.mean, model.sd, model.correlation), model.sample(1_000)
    seconds = time.perf_counter() - start
    result |= {
        "posterior": posterior.told(),
        **measuring.compared(posterior, reference),
        "guarantee": model.guarantee.to_json(),
        "ledger": model.ledger.to_json(),
    }
    return Finished(result, {"draws": np.asarray(draws, np.float32)}, seconds)


def _from_synthetic(task: Task) -> tuple[Posterior, Posterior, Any]:
    """From several synthetic sets: by Rubin's rule, and as the paper does; and their generator.

    The paper averages the moments of the sets. Rubin's rule adds to the mean of the covariances what
    the means differ by.
    """
    w, x = data.regression()
    by_means = task.method == MEANS
    model = estimators.generator(
        _KINDS[task.method],
        data.with_means(w, x) if by_means else np.concatenate([w, x], axis=1),
        data.MEAN_BOUNDS if by_means else data.BOUNDS,
        budget=_budget(task.epsilon),
        seed=task.split,
    )
    found = []
    for number in range(SETS):
        seed = 100 * task.split + number
        drawn = model.sample(data.NUM_RECORDS, seed=seed).astype(np.float32)
        found.append(
            estimators.without_privacy(
                data.with_measures(drawn, seed=seed) if by_means else (drawn[:, :4], drawn[:, 4:]),
                log_likelihood=data.log_likelihood,
                parameters=data.NAMES,
                training=vf.Training(steps=0),
            )
        )
    joined = vf.combine_posteriors([x.mean for x in found], [x.covariance for x in found])
    apart = (np.mean([getattr(x, n) for x in found], axis=0) for n in ("mean", "sd", "correlation"))
    return Posterior.of_moments(*joined), Posterior(*apart), model


def _cohort(task: Task) -> Finished:
    train, test = data.cohort(task.data)
    start = time.perf_counter()
    if task.method in (PATIENTS, SIMULATION):
        by_simulation = task.method == SIMULATION
        model = estimators.two_parameters(
            train, epsilon=task.epsilon, seed=task.split, by_simulation=by_simulation
        )
        seconds = time.perf_counter() - start
        result = {**_two(model, train), "guarantee": model.guarantee.to_json()}
        draws = {"two": _in_units(model)[::20].astype(np.float32)}
        return Finished({**result, "ledger": model.ledger.to_json()}, draws, seconds)
    if task.method == REAL:
        rows, _ = estimators.filled(train, budget=_budget(math.inf), seed=task.split)
        result = {"guarantee": _NONE, **measuring.patients(rows, test, seed=task.split)}
        result["imputation"] = task.split
        return Finished(result, {}, time.perf_counter() - start)
    whole, fill = _budget(task.epsilon), _budget(task.epsilon)
    if whole.private:
        fill = whole.split({"filling": _IMPUTATION_SHARE, "rows": 1 - _IMPUTATION_SHARE})["filling"]
    rows, imputer = estimators.filled(train, budget=fill, seed=task.split)
    model = estimators.generator(
        _KINDS[task.method],
        rows,
        data.cohort_bounds(),
        budget=whole,
        seed=task.split,
        before=imputer.ledger,
    )
    ledger = estimators.joined(imputer.ledger, model.ledger)
    made = model.sample(len(train), seed=task.split)  # as many as real ones
    seconds = time.perf_counter() - start
    released = estimators.two_parameters(made, epsilon=math.inf, seed=0)
    result = {
        **measuring.patients(made, test, seed=task.split),
        **_two(released, train),
        "imputation": task.split,
        "guarantee": ledger.guarantee(delta=DELTA).to_json(),
        "ledger": ledger.to_json(),
    }
    return Finished(result, {"two": _in_units(released)[::20].astype(np.float32)}, seconds)


def _two(model: Any, train: np.ndarray) -> dict[str, Any]:
    """The posterior of the two parameters in their own units, beside that of the real patients."""
    posterior = Posterior.of(_in_units(model))
    reference = Posterior.of(_in_units(estimators.two_parameters(train, epsilon=math.inf, seed=0)))
    return {"posterior": posterior.told(), "two": measuring.compared(posterior, reference)}


def _in_units(model: Any) -> np.ndarray:
    return np.asarray(circulation.parameters(model.sample(20_000, seed=1)), np.float64)


def _budget(epsilon: float) -> vf.Budget:
    return vf.Budget(epsilon=epsilon, delta=DELTA)


_NONE = {"epsilon": "inf", "accountant": "none"}
