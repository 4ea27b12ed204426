"""How often 95 % intervals of private posteriors cover the truth.

For each number of records and each epsilon 200 generated sets, half of them linear regressions with
normal errors (two slopes, an intercept, the log of the errors' deviation), half logistic ones (three
slopes and an intercept). Parameters are drawn for each set, columns are standard normal. Coverage is
the mean over sets and parameters; widths are relative to the posterior without privacy, as the inverse
of the information says. The seeds of the package's choices were others (0 to 149).
"""

import warnings
from dataclasses import dataclass

import numpy as np

import veilflow as vf
from benchmarks.records import Record, record
from veilflow.models.posterior.regressions import Regression

_RECORDS, _EPSILONS, _SETS = (500, 1_500, 5_000, 50_000), (1.0, 5.0), 200
_FIRST_SEED = 1_000
_END = 3.0
"""Columns are declared between minus and plus this."""
LINEAR = Regression(
    kind="linear",
    columns=("a", "b"),
    target="y",
    bounds=((-_END, -_END, -2 * _END), (_END, _END, 2 * _END)),
)
LOGISTIC = Regression(
    kind="logistic",
    columns=("a", "b", "c"),
    target="y",
    bounds=((-_END, -_END, -_END, 0.0), (_END, _END, _END, 1.0)),
)


@dataclass(frozen=True)
class Generated:
    """A set of records, the parameters behind it, and how well they could be known."""

    rows: np.ndarray
    truth: np.ndarray
    deviations: np.ndarray


def generated(regression: Regression, number: int, seed: int) -> Generated:
    """Records of a regression with random parameters."""
    rng = np.random.default_rng(seed)
    columns = np.clip(rng.standard_normal((number, len(regression.columns))), -_END, _END)
    design = np.column_stack([np.ones(number), columns])
    slopes = rng.normal(0, 0.7, design.shape[1])
    predictor = design @ slopes
    if regression.kind == "linear":
        log_sd = rng.normal(-0.5, 0.3)
        y = predictor + np.exp(log_sd) * rng.standard_normal(number)
        truth, weights = np.append(slopes, log_sd), np.full(number, np.exp(-2 * log_sd))
    else:
        chance = 1 / (1 + np.exp(-predictor))
        y = (rng.uniform(size=number) < chance).astype(float)
        truth, weights = slopes, chance * (1 - chance)
    deviations = np.diag(np.linalg.inv(design.T @ (design * weights[:, None]))) ** 0.5
    if regression.kind == "linear":
        deviations = np.append(deviations, (2 * number) ** -0.5)
    return Generated(np.column_stack([columns, y]), truth, deviations)


def measured(
    regression: Regression, number: int, epsilon: float, seeds: range
) -> tuple[np.ndarray, np.ndarray]:
    """For each set and parameter: whether the interval covers the truth, and its relative width."""
    covered, widths = [], []
    for seed in seeds:
        one = generated(regression, number, seed)
        estimator = vf.FlowPosterior(
            log_likelihood=regression.log_likelihood,
            log_prior=regression.log_prior,
            parameters=regression.parameters,
            start=regression.start,
            scale=regression.scale,
            budget=vf.Budget(epsilon=epsilon, delta=1e-6),
            flow="full-rank",
            seed=seed,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            posterior = estimator.fit(regression.records(one.rows), progress=False)
        low, high = posterior.interval(0.95).T
        covered.append((low < one.truth) & (one.truth < high))
        widths.append(posterior.sd / one.deviations)
    return np.array(covered), np.array(widths)


def run(*, quick: bool = False) -> list[Record]:
    numbers, epsilons, sets = ((500,), (5.0,), 4) if quick else (_RECORDS, _EPSILONS, _SETS)
    found = []
    for number in numbers:
        for epsilon in epsilons:
            seeds = range(_FIRST_SEED, _FIRST_SEED + sets // 2)
            cells = [measured(kind, number, epsilon, seeds) for kind in (LINEAR, LOGISTIC)]
            both = float(np.mean([covered.mean() for covered, _ in cells]))
            worst = float(min(covered.mean(axis=0).min() for covered, _ in cells))
            where = f"{number} records, epsilon {epsilon:g}"
            found += [
                record(f"coverage, {where}", both, "share", better="higher", must=0.93),
                record(
                    f"coverage of the worst parameter, {where}", worst, "share", better="higher"
                ),
            ]
            for name, (_, widths) in zip(("linear", "logistic"), cells, strict=True):
                width = float(np.median(widths))
                found.append(record(f"median width, {name}, {where}", width, "of the exact one"))
    return found
