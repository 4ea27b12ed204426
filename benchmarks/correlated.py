"""Noise that is correlated over a few steps beside independent noise, at the same epsilon.

"Sums" is the noise in the sum of all steps over that of independent noise, and "a step" that in one
step: calculated from the calibrated noise, for a run without an end. Gains are in mean log-likelihood
of 9,000 fresh rows of generated sets, under trained flows over a normal. What differs is the number of
bands, and the learning rate. As Adam divides by the size of gradients, it rises with the noise in a
step, and is the best of three on 3,000 other rows.
"""

import warnings
from dataclasses import replace
from typing import Any

import numpy as np

import veilflow as vf
from benchmarks.generated import draw
from benchmarks.records import Record, record
from veilflow.privacy import calibration
from veilflow.privacy.banded_noise import coefficients, column_norm

SETS = ("fingerprints", "bent", "sheets")
BANDS = (1, 4, 16)
ROWS, OTHERS, TEST = 24_060, 3000, 9000
FACTORS = (1 / 3, 1.0, 3.0)
"""Of the learning rate, beside the noise in a step."""
_BOTH: dict[str, Any] = {"clip_norm": 10.0, "weight_decay": 0.0}
LARGE = {**_BOTH, "batch_size": 1024, "steps": 300, "learning_rate": 1e-2}
SMALL = {**_BOTH, "batch_size": 64, "steps": 2000, "learning_rate": 1.5e-2}
CASES: list[tuple[str, float, dict[str, Any]]] = [
    ("1,024 rows a step", 1.0, LARGE),
    ("1,024 rows a step", 8.0, LARGE),
    ("64 rows a step", 1.0, SMALL),
    ("64 rows a step", 8.0, SMALL),
    ("64 rows a step, weight decay .1", 8.0, {**SMALL, "weight_decay": 0.1}),
]


def run(*, quick: bool = False) -> list[Record]:
    """Three trainings for each set, case and number of bands."""
    found: list[Record] = []
    for training, epsilon, settings in CASES[:1] if quick else CASES:
        budget = vf.Budget(epsilon=epsilon, delta=0.3 / ROWS)
        case = f"epsilon {epsilon:g}, {training}"
        ratios = [_ratios(budget, settings, bands) for bands in BANDS]
        if not settings["weight_decay"]:
            for bands, pair in zip(BANDS[1:], ratios[1:], strict=True):
                for what, ratio in zip(("sums", "a step"), pair, strict=True):
                    name = f"{case}: noise in {what}, {bands} bands"
                    found.append(record(name, ratio, "ratio", peer="independent noise"))
        trainings = [
            vf.Training(
                **{**settings, "learning_rate": step * settings["learning_rate"]}, noise_bands=b
            )
            for b, (_, step) in zip(BANDS, ratios, strict=True)
        ]
        scores = [[_score(s, budget, one, quick=quick) for one in trainings] for s in SETS]
        named = zip([*SETS, "mean"], [*scores, np.mean(scores, axis=0)], strict=True)
        for name, (alone, *others) in named:
            peer = f"independent noise: {alone:.2f} nats"
            for bands, score in zip(BANDS[1:], others, strict=True):
                what = f"{case}, {name}: gain of {bands} bands"
                found.append(record(what, score - alone, "nats", better="higher", peer=peer))
    return found


def _ratios(budget: vf.Budget, settings: dict[str, Any], bands: int) -> tuple[float, float]:
    """Noise in the sum of all steps and in one step, over that of independent noise."""
    run = {"sampling_rate": settings["batch_size"] / ROWS, "steps": settings["steps"]}
    alone = calibration.noise_multiplier(budget, **run)
    noise = calibration.noise_multiplier(budget, bands=bands, **run) * column_norm(bands) / alone
    c = np.array(coefficients(bands)) / 2**12
    return float(noise / c.sum()), float(noise * np.linalg.norm(_inverse(c, 4096)))


def _inverse(c: np.ndarray, length: int) -> np.ndarray:
    """What fresh noise of one step adds to later ones."""
    found = np.zeros(length)
    found[0] = 1.0
    for t in range(1, length):
        reach = min(t, len(c) - 1)
        found[t] = -c[1 : reach + 1] @ found[t - reach : t][::-1]
    return found


def _score(name: str, budget: vf.Budget, usual: vf.Training, *, quick: bool) -> float:
    """The test log-likelihood at the learning rate that is best on other rows."""
    rows, domain = draw(name, ROWS + OTHERS + TEST, seed=21)
    train, others, test = np.split(rows, [ROWS, ROWS + OTHERS])
    estimator = vf.DensityFlow(
        budget=budget,
        num_records=ROWS,
        base="normal",
        flow=vf.maf(blocks=2, hidden=(32,)),
        seed=3,
        **domain,
    )
    rate: Any = usual.learning_rate
    found: list[tuple[float, float]] = []
    for factor in FACTORS[1:2] if quick else FACTORS:
        training = replace(usual, learning_rate=factor * rate)
        training = replace(training, steps=2) if quick else training
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a large rate may diverge: it is not chosen
            model = replace(estimator, training=training).fit(train, progress=False)
        found.append((_mean(model, others), _mean(model, test)))
    return max(found)[1]


def _mean(model: Any, rows: np.ndarray) -> float:
    return float(np.nan_to_num(model.log_prob(rows).mean(), nan=-np.inf))
