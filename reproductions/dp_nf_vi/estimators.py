"""The estimators of the reproduction, by name."""

import math
import warnings
from typing import Any

import numpy as np

import veilflow as vf
from reproductions.dp_nf_vi import circulation, data

DELTA = 1e-5
DIRECT = {
    "direct": {},
    "without noise awareness": {"noise_aware": False},
    "without averaging": {"average": False},
    "with steps after the rounds": {
        "steps": 200,
        "num_records": data.NUM_RECORDS,
        "sampling_rate": 0.5,
        "learning_rate": 0.003,
    },
    "as in the paper": {
        "precondition": False,
        "steps": 2_000,
        "num_records": data.NUM_RECORDS,
        "sampling_rate": 500 / data.NUM_RECORDS,
        "clip_norm": 10.0,
        "num_draws": 16,
        "average": False,
    },
    "mean-field": {"guide": "mean-field"},
    "mean-field, Wasserstein": {"guide": "mean-field", "objective": "wasserstein"},
    "splines": {"guide": "nsf"},
}
"""Settings of `vf.FlowPosterior` beside its defaults."""


def direct(name: str, *, epsilon: float, seed: int) -> Any:
    """The posterior of the regression, from its records."""
    estimator = vf.FlowPosterior(
        log_likelihood=data.log_likelihood,
        parameters=data.NAMES,
        budget=vf.Budget(epsilon=epsilon, delta=DELTA),
        seed=seed,
        **DIRECT[name],
    )
    return _quietly(lambda: estimator.fit(data.regression(), progress=False))


def generator(
    rows: np.ndarray, bounds: Any, *, budget: vf.Budget, seed: int, trained: bool = False
) -> Any:
    """A private density of complete rows: what is paid before training, or the library's default."""
    settings: dict[str, Any] = {} if trained else {"start": "columns", "steps": 0}
    estimator = vf.DensityFlow(
        budget=budget, bounds=bounds, num_records=len(rows), seed=seed, **settings
    )
    return _quietly(lambda: estimator.fit(rows, progress=False))


def without_privacy(rows: tuple[np.ndarray, ...], **settings: Any) -> Any:
    """A posterior from rows that are already released."""
    estimator = vf.FlowPosterior(
        budget=vf.Budget(epsilon=math.inf, delta=DELTA), seed=0, **settings
    )
    return _quietly(lambda: estimator.fit(rows, progress=False))


def two_parameters(
    rows: np.ndarray, *, epsilon: float, seed: int, by_simulation: bool = False
) -> Any:
    """The posterior of the circulation's two parameters, from patients."""
    circulation.emulator()  # made before anything is traced
    likelihood = circulation.log_likelihood
    if by_simulation:
        likelihood = circulation.log_likelihood_by_simulation
    estimator = vf.FlowPosterior(
        log_likelihood=likelihood,
        log_prior=circulation.log_prior,
        parameters=circulation.NAMES,
        budget=vf.Budget(epsilon=epsilon, delta=DELTA),
        scale=2.0,
        steps=0,
        seed=seed,
    )
    return _quietly(lambda: estimator.fit(circulation.records(rows), progress=False))


def filled(rows: np.ndarray, *, budget: vf.Budget, seed: int) -> tuple[np.ndarray, Any]:
    """Patients without gaps, by paid regressions."""
    imputer = vf.ChainedImputer(bounds=data.cohort_bounds(), budget=budget, seed=seed)
    fitted = imputer.fit(rows)
    return fitted.fill(rows, seed=seed), fitted


def _quietly(fit: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # delta above 1/n in small cohorts, and runs without privacy
        return fit()
