"""The choices of the planner of tables beside their alternatives, on generated tables only.

One fit each, delta 1e-5. Mean AUROC and macro-F1 of four classifiers (logistic regression, gradient
boosting, random forest, linear discriminant) trained on synthetic rows and tested on 16,000 fresh
ones, and the mean total variation of pairs of columns, numbers in 20 bins, from the records. The
rules in `models/table/table_plan.py` were fitted on these tables; a row without "as planned" changes
one setting and leaves the rest to the planner. "The records" are 50,000 of them at most, as synthetic
rows.
"""

import math
import sys
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import pandas as pd

import veilflow as vf
from benchmarks.generated_tables import TABLES
from benchmarks.records import Record, record
from veilflow import evaluation

DELTA = 1e-5
TEST, MOST_SYNTHETIC = 16_000, 50_000
SEED = 7
CLASSIFIERS = (
    "logistic regression",
    "gradient boosting",
    "random forest",
    "linear discriminant",
)
Choice = Callable[[vf.Training], dict[str, Any]]
"""From how the planner would train to what is set instead."""


def _times(name: str, factor: float) -> Choice:
    return lambda planned: _trained(**{name: factor * getattr(planned, name)})(planned)


def _trained(**changes: Any) -> Choice:
    return lambda _: {"training": vf.Training(**changes)}


def _flow(**sizes: Any) -> Choice:
    return lambda _: {"flow": vf.codes(**sizes)}


CHOICES: dict[str, Choice] = {
    "as planned": lambda _: {},
    "no warm start": lambda _: {"warm_start": False},
    "warm share 0.15": lambda _: {"warm_start": 0.15},
    "warm share 0.45": lambda _: {"warm_start": 0.45},
    "label weight 1": _flow(label_weight=1.0),
    "half the learning rate": _times("learning_rate", 0.5),
    "twice the learning rate": _times("learning_rate", 2.0),
    "16 bins": _flow(most_bins=16),
    "48 bins": _flow(most_bins=48),
    "half the clip norm": _times("clip_norm", 0.5),
    "twice the clip norm": _times("clip_norm", 2.0),
    "500 steps": _trained(steps=500),
    "4,000 steps": _trained(steps=4000),
    "128 hidden units": _flow(hidden=(128,)),
    "512 hidden units": _flow(hidden=(512,)),
}
LITTLE: dict[str, Choice] = {
    "as planned": lambda _: {},
    "2,000 steps": _trained(steps=2000),
    "16 bins": _flow(most_bins=16),
    "32 bins": _flow(most_bins=32),
}
"""Where there is little budget for few records: there the planner trains no more."""


def _paper(**sizes: Any) -> Choice:
    return lambda _: {"flow": vf.hflow(**sizes), "warm_start": False}


PAPER: dict[str, Choice] = {
    "the paper's flow": _paper(),
    "the paper's flow, one network for all blocks": _paper(network="conditional"),
    "the paper's flow, 16 bins": _paper(bins=16),
    "the paper's flow, LU": _paper(linear="lu"),
    "the paper's flow, 128 hidden units": _paper(hidden=(128, 128)),
}
CASES: list[tuple[str, int, float, dict[str, Choice]]] = [
    ("people", 32_561, 1.0, CHOICES),
    ("people", 32_561, 10.0, CHOICES),
    ("terrain", 200_000, 1.0, CHOICES),
    ("terrain", 200_000, 10.0, CHOICES),
    ("people", 2_000, 0.3, LITTLE),
    ("terrain", 2_000, 0.3, LITTLE),
    ("cover", 200_000, 1.0, PAPER),
    ("cover", 200_000, 10.0, PAPER),
    ("cover", 200_000, math.inf, PAPER),
]
QUICK = ("as planned", "half the learning rate")


def run(*, quick: bool = False) -> list[Record]:
    """One fit for each case and choice."""
    found, known = [], set()
    classifiers = CLASSIFIERS[:1] if quick else CLASSIFIERS
    for name, size, epsilon, choices in CASES[:1] if quick else CASES:
        size, test = (500, 500) if quick else (size, TEST)
        frame, schema = TABLES[name](size + test, seed=SEED)
        records, fresh = frame.head(size), frame.tail(test)
        measure = partial(
            _measured, records=records, fresh=fresh, schema=schema, classifiers=classifiers
        )
        if (name, size) not in known:  # whatever the budget
            known.add((name, size))
            found += measure(f"{name}, {size:,} rows: the records", records.head(MOST_SYNTHETIC))
        for choice, settings in choices.items():
            if quick and choice not in QUICK:
                continue
            planned: dict[str, Any] = {
                "schema": schema,
                "budget": vf.Budget(epsilon=epsilon, delta=DELTA),
                "num_records": size,
            }
            if quick:
                planned |= {"training": vf.Training(steps=2), "warm_start": False}
            estimator = vf.TableFlow(**(planned | settings(training_of(vf.TableFlow(**planned)))))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # an alternative may diverge: the figure says so
                model = estimator.fit(records, progress=False)
                synthetic = model.sample(min(size, MOST_SYNTHETIC), seed=SEED)
            what = f"{name}, {size:,} rows, epsilon {epsilon:g}: {choice}"
            found += measure(what, synthetic)
            jax.clear_caches()  # every fit compiles programs of its own, and a full run has dozens
    return found


def training_of(estimator: vf.TableFlow) -> vf.Training:
    """How the planner would train, if it would."""
    plans = (one.settings for one in estimator.plan().releases if one.purpose == "training")
    return next(plans, vf.Training(steps=0))


def _measured(
    what: str,
    rows: pd.DataFrame,
    *,
    records: pd.DataFrame,
    fresh: pd.DataFrame,
    schema: vf.Schema,
    classifiers: Sequence[str],
) -> list[Record]:
    """The figures of rows, told as soon as they are known: a full run takes hours."""
    mean = evaluation.compare_classifiers(fresh, rows, schema, classifiers=classifiers).mean
    apart = evaluation.compare_table_marginals(records, rows, schema).mean_two_way
    told = f"AUROC {mean.auroc:.4f}, macro-F1 {mean.macro_f1:.4f}, total variation {apart:.4f}"
    print(f"{what}: {told}", file=sys.stderr, flush=True)
    return [
        record(f"{what}: AUROC", mean.auroc, "ratio", better="higher"),
        record(f"{what}: macro-F1", mean.macro_f1, "ratio", better="higher"),
        record(f"{what}: total variation of pairs", apart, "ratio"),
    ]
