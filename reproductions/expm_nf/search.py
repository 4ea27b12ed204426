"""Settings for ICU stays by random search on set b, which counts as public: all methods alike.

`python -m reproductions.expm_nf.search lr` for logistic regression, `grud` for GRU-D; `--only METHOD`
for one method. Finished trials are kept in `reproductions/expm-nf/search.json` and not done again. A
method's first trial has the settings it had before any search. A trial learns from every other stay of
set b, at twice the epsilon because there are half as many, so that noise is as large beside the signal.
The best settings are those with the highest mean AUC on the other half, for each epsilon searched;
another epsilon takes those of the nearest. No trial sees set a or c.
"""

import argparse
import json
import math
import time
from functools import lru_cache
from pathlib import Path
from typing import Any

import jax
import numpy as np

from reproductions.expm_nf import fits, methods, sets

FILE = Path(__file__).parents[1] / "expm-nf" / "search.json"
TRIALS = {"lr": 8, "grud": 4}
EPSILONS = {"lr": (0.1, 3.0), "grud": (3.0,)}
TASKS = {"lr": ("mortality", "stay"), "grud": ("mortality",)}
METHODS = ("dp-sgd", "dp-sgd-l2", "flow")
_PARTS = 2
"""Of set b: one to learn from and one to be judged by."""
_DRAWS = 20
"""Of a flow, whose mean AUC is the score of a trial: less noise than that of the one released."""

Settings = dict[str, Any]


def trial(kind: str, method: str, number: int) -> Settings:
    """The settings of a trial, from 0 on; of every epsilon the same."""
    if number == 0:
        return methods.untuned(kind, method)
    rng = np.random.default_rng([number, *f"{kind} {method}".encode()])

    def between(low: float, high: float) -> float:
        return float(f"{math.exp(rng.uniform(math.log(low), math.log(high))):.3g}")

    def one_of(*values: Any) -> Any:
        return values[rng.integers(len(values))]

    if method.startswith("dp-sgd"):
        least, most = (5e-4, 2e-2) if kind == "lr" else (2e-3, 5e-2)
        return {
            "steps": one_of(50, 100, 200, 400) if kind == "lr" else one_of(50, 100, 200),
            "sampling_rate": one_of(0.05, 0.1, 0.25, 0.5) if kind == "lr" else one_of(0.05, 0.1),
            "clip_norm": one_of(0.3, 1.0, 3.0),
            "learning_rate": between(least, most),
            "weight_decay": one_of(0.0, 0.3, 3.0) if kind == "lr" else 0.0,
        }
    # the paper's ranges, those of its first search where there are two
    is_lr = kind == "lr"
    return {
        "blocks": one_of(2, 3, 4, 5) if is_lr else one_of(3, 4, 5),
        "rank": one_of(1, 2, 3, 4) if is_lr else 1,
        "base_scale": between(1e-3, 0.1) if is_lr else between(5e-3, 0.5),
        "steps": one_of(50, 150, 250, 390) if is_lr else one_of(55, 150, 250),
        "samples": 16 if is_lr else 8,
        "batch_size": 250 if is_lr else 100,
        "learning_rate": between(3e-4, 1e-2) if is_lr else between(1e-4, 1e-2),
        "momentum": round(float(rng.uniform(0.1, 0.85)), 2),
    }


@lru_cache(maxsize=2)
def problem(kind: str, task: str) -> sets.Problem:
    """One half of set b to learn from, and the other to be judged by."""
    whole = sets.load(f"{kind}-{task}")
    assert whole.dev is not None
    halves = [jax.tree.map(lambda x, i=i: x[i::_PARTS], whole.dev) for i in range(_PARTS)]
    return whole._replace(train=halves[0], dev=None, test=halves[1], kind=None)


def score(kind: str, method: str, settings: Settings, *, epsilon: float) -> list[float]:
    """AUC on the second half of set b, for each task; `epsilon` is that of all stays."""
    aucs, epsilon = [], _PARTS * epsilon
    for task in TASKS[kind]:
        given = problem(kind, task)
        estimator = methods.with_settings(method, given, settings, epsilon=epsilon, seed=1)
        if method == "flow":
            found = fits.flow_draws(estimator, given, epsilon=epsilon, seed=1, num=_DRAWS)
            aucs.append(float(np.mean(found)))
        else:
            model = methods.fit(estimator, given.train)
            aucs.append(fits.auc(given.test[1], model.predict_proba(given.test[0])[:, 1]))
    return [round(auc, 4) for auc in aucs]


def trials() -> list[dict[str, Any]]:
    """All finished trials."""
    return json.loads(FILE.read_text()) if FILE.exists() else []


def best(kind: str, method: str, epsilon: float) -> Settings:
    """The settings that were found for the nearest epsilon; those from before, without a search."""
    found = [one for one in trials() if (one["kind"], one["method"]) == (kind, method)]
    if not found:
        return methods.untuned(kind, method)
    nearest = min({one["epsilon"] for one in found}, key=lambda e: abs(math.log(e / epsilon)))
    there = [one for one in found if one["epsilon"] == nearest]
    return max(there, key=lambda one: float(np.mean(one["aucs"])))["settings"]


def run(kind: str, only: tuple[str, ...] = METHODS, *, seconds: float = math.inf) -> None:
    """Do the trials that are not done, until the seconds are over."""
    started, done = time.monotonic(), trials()
    known = {(one["kind"], one["method"], one["epsilon"], one["number"]) for one in done}
    for number in range(TRIALS[kind]):
        for method in only:
            for epsilon in EPSILONS[kind]:
                if (kind, method, epsilon, number) in known:
                    continue
                if time.monotonic() - started > seconds:
                    return
                before, settings = time.perf_counter(), trial(kind, method, number)
                aucs = score(kind, method, settings, epsilon=epsilon)
                about = {"kind": kind, "method": method, "epsilon": epsilon, "number": number}
                took = round(time.perf_counter() - before, 1)
                done.append({**about, "settings": settings, "aucs": aucs, "seconds": took})
                FILE.write_text("[\n" + ",\n".join(map(json.dumps, done)) + "\n]\n")
                print(about, settings, aucs, f"{took} s", flush=True)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=tuple(TRIALS))
    parser.add_argument("--only", choices=METHODS, action="append")
    parser.add_argument("--seconds", type=float, default=math.inf)
    args = parser.parse_args()
    run(args.kind, tuple(args.only or METHODS), seconds=args.seconds)


if __name__ == "__main__":
    main()
