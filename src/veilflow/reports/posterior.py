"""Sections of the curator's report for posteriors: parameters, and predictions beside the records.

Draws of parameters are released. What is compared with records is as private as the records.
"""

from typing import Any

import numpy as np
from jaxtyping import Bool, Float
from scipy.special import expit

from veilflow.models.posterior.regressions import Regression
from veilflow.reports import svg
from veilflow.reports.labeled import area, calibration
from veilflow.tabular.io import read_rows

LEVEL = 0.95
_LEVELS = (0.5, 0.8, 0.95)
_BINS = 32
_DRAWS = 20_000
_MOST_PAIRS = 8
_PREDICTIONS = 199
"""Predictions per record; its target is the 200th value: ranks are uniform if the model is right."""


def posterior_sections(model: Any, data: Any, *, max_rows: int, seed: int) -> dict[str, Any]:
    """Each parameter with its interval, correlations, and predictions of a regression.

    Only regressions of `veilflow posterior fit` can predict: other files have the parameters of a
    function that is not in them, and `data` is not read for these.
    """
    draws = model.sample(_DRAWS, seed=seed).astype(np.float64)
    compared = None
    if model.regression is not None:
        compared = _compared(model.regression, draws, data, max_rows=max_rows, seed=seed)
    return {
        "posterior": {
            "parameters": _parameters(model.parameters, draws),
            "level": LEVEL,
            "correlations": _correlations(model.parameters, draws),
            "compared": compared,
        }
    }


def predictions(
    regression: Regression,
    thetas: Float[np.ndarray, "draws parameters"],
    columns: Float[np.ndarray, "rows columns"],
    *,
    rng: np.random.Generator,
) -> tuple[Float[np.ndarray, "rows draws"], Float[np.ndarray, "rows draws"]]:
    """The mean of the target that each draw of the parameters expects, and a target drawn by it."""
    number = len(regression.columns)
    off = columns - regression.middle[:-1]
    linear = thetas[:, 0] + off @ thetas[:, 1 : 1 + number].T
    if regression.kind == "linear":
        return linear, linear + np.exp(thetas[:, -1]) * rng.standard_normal(linear.shape)
    if regression.kind == "logistic":
        chance = expit(linear)
        return chance, (rng.random(linear.shape) < chance).astype(float)
    mean = np.exp(np.minimum(linear, 40.0))  # numpy draws no counts above 2^63
    return mean, rng.poisson(mean).astype(float)


def _parameters(
    names: tuple[str, ...], draws: Float[np.ndarray, "draws dim"]
) -> list[dict[str, Any]]:
    ends = np.quantile(draws, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0).T
    parameters = []
    for name, own, (low, high) in zip(names, draws.T, ends, strict=True):
        start, stop = np.quantile(own, [0.001, 0.999])
        width = max(float(stop - start), 1e-12 * (1 + abs(float(start))))
        counts = np.histogram(own, bins=_BINS, range=(start, start + width))[0]
        alt = (
            f"Posterior of {name}: {100 * LEVEL:g} % of its mass is from {low:.4g} to {high:.4g}, "
            f"with a mean of {own.mean():.4g}."
        )
        drawing = svg.histogram(
            counts / len(own),
            None,
            labels=[f"{start:.3g}", f"{stop:.3g}"],
            alt=alt,
            marks=[float((end - start) / width) for end in (low, high)],
        )
        numbers = {"mean": float(own.mean()), "sd": float(own.std()), "low": low, "high": high}
        parameters.append({"name": name, "svg": drawing, **numbers})
    return parameters


def _correlations(
    names: tuple[str, ...], draws: Float[np.ndarray, "draws dim"]
) -> dict[str, Any] | None:
    if len(names) < 2:
        return None
    sd = np.maximum(draws.std(axis=0), np.finfo(float).tiny)
    matrix = np.cov(draws.T) / np.outer(sd, sd)
    pairs = [
        (names[i], names[j], float(matrix[i, j]))
        for i, j in zip(*np.triu_indices(len(names), 1), strict=True)
    ]
    return {
        "svg": svg.signed(
            matrix, alt=f"Correlations of {', '.join(names)}: blue is positive, orange negative."
        ),
        "strongest": sorted(pairs, key=lambda pair: -abs(pair[2]))[:_MOST_PAIRS],
    }


def _compared(
    regression: Regression,
    draws: Float[np.ndarray, "draws parameters"],
    data: Any,
    *,
    max_rows: int,
    seed: int,
) -> dict[str, Any]:
    """The target of the records beside what the posterior predicts for their columns."""
    rng = np.random.default_rng(seed)
    values = read_rows(data, columns=[*regression.columns, regression.target]).values
    num_rows = len(values)
    if num_rows > max_rows:
        values = values[rng.choice(num_rows, max_rows, replace=False)]
    if not num_rows:
        raise ValueError("there are no records to compare with.")
    low, high = map(np.array, regression.bounds)
    values = np.clip(values, low, high)  # as the fit read them
    thetas = draws[rng.choice(len(draws), _PREDICTIONS, replace=False)]
    means, targets = predictions(regression, thetas, values[:, :-1], rng=rng)
    targets, real = np.clip(targets, low[-1], high[-1]), values[:, -1]
    section: dict[str, Any] = {
        "kind": regression.kind,
        "target": regression.target,
        "rows": num_rows,
        "used": len(values),
        "means": (float(real.mean()), float(targets.mean())),
        **dict.fromkeys(("svg", "coverage", "calibration", "area")),
    }
    if regression.kind == "logistic":
        chance, happened = means.mean(axis=1), real > 0.5
        section["calibration"] = calibration(chance, happened, of=f"{regression.target} = 1")
        section["area"] = area(np.stack([1 - chance, chance], axis=1), happened.astype(int))
    else:
        shares = [
            np.histogram(x, bins=_BINS, range=(low[-1], high[-1]))[0] / x.size
            for x in (real, targets)
        ]
        section["svg"] = svg.histogram(
            *shares,
            labels=[f"{low[-1]:g}", f"{high[-1]:g}"],
            alt=f"Distribution of {regression.target}: records as bars, predictions as a line.",
        )
        ranks = _ranks(real, targets, rng=rng)
        section["coverage"] = [(level, float(np.mean(_within(ranks, level)))) for level in _LEVELS]
    return section


def _ranks(
    real: Float[np.ndarray, " rows"],
    targets: Float[np.ndarray, "rows draws"],
    *,
    rng: np.random.Generator,
) -> Float[np.ndarray, " rows"]:
    """The share of predictions below each target; uniform on [0, 1] if the model is right."""
    below = (targets < real[:, None]).sum(axis=1)
    equal = (targets == real[:, None]).sum(axis=1)  # counts have ties, broken at random
    return (below + rng.random(len(real)) * (equal + 1)) / (targets.shape[1] + 1)


def _within(ranks: Float[np.ndarray, " rows"], level: float) -> Bool[np.ndarray, " rows"]:
    return np.abs(ranks - 0.5) <= level / 2
