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
    "without noise awareness": {"flow": vf.Guide(noise_aware=False)},
    "without averaging": {"training": vf.Training(ema_decay=None)},
    "with steps after the rounds": {
        "training": vf.Training(steps=200, sampling_rate=0.5, learning_rate=0.003),
        "num_records": data.NUM_RECORDS,
    },
    "as in the paper": {
        "precondition": False,
        # the direction in which the paper runs its flow
        "flow": vf.Guide(kind="iaf", num_draws=1_000),
        "training": vf.Training(
            steps=8_000,
            batch_size=500,
            clip_norm=10.0,
            optimizer="rmsprop",
            learning_rate=0.01,
            schedule="exponential",
            rate_decay=0.999,
            ema_decay=None,
        ),
        "num_records": data.NUM_RECORDS,
    },
    "mean-field": {"flow": "mean-field"},
    "mean-field, Wasserstein": {"flow": vf.Guide(kind="mean-field", objective="wasserstein")},
    "splines": {"flow": "nsf"},
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


STARTED, FLOW, DEFAULT = "started", "flow", "default"
GENERATORS: dict[str, dict[str, Any]] = {
    STARTED: {"start": "columns", "training": vf.Training(steps=0)},
    FLOW: {"base": "normal"},
    DEFAULT: {},
}
"""Settings of `vf.DensityFlow`: what is released before training, with nothing trained; a flow that is
trained from a spherical normal, as the paper's; and the library's default, the shape of a mixture."""


def generator(
    kind: str,
    rows: np.ndarray,
    bounds: Any,
    *,
    budget: vf.Budget,
    seed: int,
    before: vf.Ledger | None = None,
) -> Any:
    """A private density of complete rows, which spends the whole budget together with `before`."""
    settings = {"bounds": bounds, "num_records": len(rows), "seed": seed, **GENERATORS[kind]}
    if budget.private:
        budget = _filled_up(budget, settings, rows.shape[1], before or vf.Ledger())
    estimator = vf.DensityFlow(budget=budget, **settings)
    return _quietly(lambda: estimator.fit(rows, progress=False))


def joined(first: vf.Ledger, second: vf.Ledger) -> vf.Ledger:
    """One ledger of two."""
    for entry in second.entries:
        first = first.spend(entry.event, purpose=entry.purpose)
    return first.assuming(*second.assumptions)


def _filled_up(
    budget: vf.Budget, settings: dict[str, Any], dim: int, before: vf.Ledger
) -> vf.Budget:
    """The budget of a fit whose start spends what `before` leaves of `budget`; public, as prices are.

    Some plans leave a part unspent: a start keeps room for a training after it, also where none comes.
    They may plan with a larger budget, as long as what is spent stays within the true one.
    """

    def spent(epsilon: float) -> float:
        planned = vf.DensityFlow(budget=vf.Budget(epsilon=epsilon, delta=budget.delta), **settings)
        return joined(before, planned.plan(dim).ledger).epsilon(delta=budget.delta)

    low, high = 0.5 * budget.epsilon, 4 * budget.epsilon
    for _ in range(10):
        middle = (low + high) / 2
        low, high = (middle, high) if spent(middle) <= budget.epsilon else (low, middle)
    return vf.Budget(epsilon=low, delta=budget.delta)


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
        training=vf.Training(steps=0),
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
