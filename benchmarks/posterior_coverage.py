"""How often 95 % intervals of private posteriors cover the truth.

For each number of records and each epsilon 200 generated sets, half of them linear regressions with
normal errors (two slopes, an intercept, the log of the errors' deviation), half logistic ones (three
slopes and an intercept), fitted without bounds on columns. Parameters are drawn for each set, columns
are standard normal. Coverage is
the mean over sets and parameters; widths are relative to the posterior without privacy, as the inverse
of the information says. The seeds of the package's choices were others (0 to 149).
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import veilflow as vf
from benchmarks.records import Record, record

_RECORDS, _EPSILONS, _SETS = (500, 1_500, 5_000, 50_000), (1.0, 5.0), 200
_FIRST_SEED = 1_000


@dataclass(frozen=True)
class Generated:
    """A set of records, the parameters behind it, and how well they could be known."""

    records: tuple[np.ndarray, np.ndarray]
    truth: np.ndarray
    deviations: np.ndarray


def linear(number: int, rng: np.random.Generator) -> Generated:
    """Records of a regression with normal errors."""
    design, slopes = _design(number, rng, columns=2)
    log_sd = rng.normal(-0.5, 0.3)
    y = design @ slopes + np.exp(log_sd) * rng.standard_normal(number)
    known = np.append(_deviations(design, np.exp(-2 * log_sd)), (2 * number) ** -0.5)
    return Generated((design, y), np.append(slopes, log_sd), known)


def logistic(number: int, rng: np.random.Generator) -> Generated:
    """Records of a logistic regression."""
    design, slopes = _design(number, rng, columns=3)
    chance = 1 / (1 + np.exp(-design @ slopes))
    y = (rng.uniform(size=number) < chance).astype(float)
    return Generated((design, y), slopes, _deviations(design, chance * (1 - chance)))


def _design(
    number: int, rng: np.random.Generator, *, columns: int
) -> tuple[np.ndarray, np.ndarray]:
    """Ones and columns, and a slope for each."""
    design = np.column_stack([np.ones(number), rng.standard_normal((number, columns))])
    return design, rng.normal(0, 0.7, design.shape[1])


def _deviations(design: np.ndarray, weights: Any) -> np.ndarray:
    return np.diag(np.linalg.inv(design.T @ (design * np.reshape(weights, (-1, 1))))) ** 0.5


def _log_linear(theta: Any, record: Any) -> Any:
    x, y = record
    return -0.5 * ((y - x @ theta[:3]) * jnp.exp(-theta[3])) ** 2 - theta[3]


def _log_logistic(theta: Any, record: Any) -> Any:
    x, y = record
    return y * (x @ theta) - jax.nn.softplus(x @ theta)


def _log_prior(theta: Any) -> Any:
    return -0.5 * jnp.sum((theta / 2) ** 2)


KINDS: dict[str, tuple[Callable[..., Generated], Callable[..., Any]]] = {
    "linear": (linear, _log_linear),
    "logistic": (logistic, _log_logistic),
}
"""Records, and the log-likelihood of one, by the kind of regression."""


def measured(kind: str, number: int, epsilon: float, seeds: range) -> tuple[np.ndarray, np.ndarray]:
    """For each set and parameter: whether the interval covers the truth, and its relative width."""
    generated, log_likelihood = KINDS[kind]
    covered, widths = [], []
    for seed in seeds:
        one = generated(number, np.random.default_rng(seed))
        estimator = vf.FlowPosterior(
            log_likelihood=log_likelihood,
            log_prior=_log_prior,
            parameters=len(one.truth),
            scale=2.0,
            budget=vf.Budget(epsilon=epsilon, delta=1e-6),
            flow="full-rank",
            seed=seed,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            posterior = estimator.fit(one.records, progress=False)
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
            cells = [measured(kind, number, epsilon, seeds) for kind in KINDS]
            both = float(np.mean([covered.mean() for covered, _ in cells]))
            worst = float(min(covered.mean(axis=0).min() for covered, _ in cells))
            where = f"{number} records, epsilon {epsilon:g}"
            found += [
                record(f"coverage, {where}", both, "share", better="higher", must=0.93),
                record(
                    f"coverage of the worst parameter, {where}", worst, "share", better="higher"
                ),
            ]
            for name, (_, widths) in zip(KINDS, cells, strict=True):
                width = float(np.median(widths))
                found.append(record(f"median width, {name}, {where}", width, "of the exact one"))
    return found
