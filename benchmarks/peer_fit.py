"""One fit of one method on one table: synthetic rows, seconds and memory.

A table flow is fitted in a process of its own, so that seconds include compiling and memory is that of
the fit; dpmm runs in a process of its own anyway.
"""

import json
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from reproductions.dp_hflow import estimators, peers

import veilflow as vf
from benchmarks import peer_data
from benchmarks.timing import clock, in_fresh_process
from reproductions import memory

DELTA = 1e-5
REAL = "real"
OURS = {"tableflow": "codes", "marginals": "marginals"}
"""Methods of ours, by the name that the reproduction has for them: the defaults, and marginals with
all of the budget."""
METHODS = (REAL, *OURS, *peers.METHODS)
SYNTHETIC = 20_000


class Fitted(NamedTuple):
    """Rows of a method, and what it took."""

    rows: pd.DataFrame
    seconds: float | None
    gigabytes: float | None
    settings: dict[str, Any]
    versions: dict[str, str]


def fit(
    table: str, rows: int, method: str, epsilon: float | None, seed: int, *, limit: float
) -> Fitted:
    """Fit a method and draw rows from it; "real" gives the training rows.

    Args:
        table: Name of the table.
        rows: The most training rows.
        method: One of `METHODS`.
        epsilon: Of the whole fit.
        seed: Of the fit.
        limit: The most seconds it may take.
    """
    found = peer_data.load(table, rows)
    if method == REAL:
        return Fitted(found.train, None, None, {}, {})
    assert epsilon is not None
    if method in peers.METHODS:
        peer = peers.Peer(method, found.schema, epsilon, DELTA, seed)
        sampled = peer.fit_and_sample(found.train, SYNTHETIC, limit=limit)
        done = sampled.done
        return Fitted(
            sampled.rows,
            done["fit_seconds"],
            done["peak_gigabytes"],
            done["settings"],
            {"dpmm": done["dpmm"]},
        )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "synthetic.parquet"
        given = (table, str(rows), method, str(epsilon), str(seed), str(path))
        done = in_fresh_process("benchmarks.peer_fit", *given, limit=limit)
        return Fitted(
            pd.read_parquet(path), done["seconds"], done["gigabytes"], done["settings"], {}
        )


def fit_here(
    table: str, rows: int, method: str, epsilon: float, seed: int, path: Path
) -> dict[str, Any]:
    """Fit a table flow in this process and write rows of it."""
    found = peer_data.load(table, rows)
    estimator = estimators.build(
        OURS[method],
        found.schema,
        epsilon=epsilon,
        delta=DELTA,
        num_records=len(found.train),
        seed=seed,
    )
    fitted: list[vf.FittedTableFlow] = []
    memory.forget_peak()
    seconds = clock(lambda: fitted.append(estimators.fit(estimator, found.train)))
    peak = memory.peak_gigabytes()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted[0].sample(SYNTHETIC, seed=seed).to_parquet(path)
    plan = fitted[0].plan
    settings = {"releases": [one.purpose for one in plan.releases]}
    return {"seconds": seconds, "gigabytes": peak, "settings": settings}


if __name__ == "__main__":
    table, rows, method, epsilon, seed, path = sys.argv[1:]
    print(json.dumps(fit_here(table, int(rows), method, float(epsilon), int(seed), Path(path))))
