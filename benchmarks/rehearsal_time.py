"""What a rehearsal costs beside a fit, and how close its training comes to that of the engine.

Seconds are relative to those of a fit without the rehearsal, in one process: 24,060 rows of generated
`fingerprints` at epsilon 1.
"""

import time
from dataclasses import replace

import jax
import numpy as np

import veilflow as vf
from benchmarks.generated import draw
from benchmarks.records import Record, record
from benchmarks.rehearsal import ROWS, RULE, TEST, settings


def run(*, quick: bool = False) -> list[Record]:
    """One fit with and without each kind of rehearsal."""
    size, test = (1000, 200) if quick else (ROWS, TEST)
    rows, domain = draw("fingerprints", size + test, seed=12)
    tried = settings(1.0, size, domain)
    del tried["32 hidden units"], tried["no network"]
    if quick:
        tried = {RULE: replace(tried[RULE], training=vf.Training(steps=2))}
    begun = time.perf_counter()
    model = tried[RULE].fit(rows[:size], progress=False)
    fitted = time.perf_counter()
    vf.rehearse(tried, on=model)
    ratio = (time.perf_counter() - begun) / (fitted - begun)
    own, plain = (_seconds(replace(tried[RULE], rehearse=x), rows[:size]) for x in (True, False))
    score = float(model.log_prob(rows[size:]).mean())
    again = vf.rehearse({RULE: tried[RULE]}, on=rows, held_out=test).expected(RULE)
    name = "fingerprints, epsilon 1: rehearsal on the records' own set"
    return [
        record(name, again, "nats", better="higher", peer=f"the fit itself: {score:.2f}"),
        record(
            f"seconds, fit after a rehearsal of {len(tried)} settings", ratio, "ratio", must=2.0
        ),
        record("seconds, fit that rehearses its mixture", own / plain, "ratio", must=2.0),
    ]


def _seconds(estimator: vf.DensityFlow, rows: np.ndarray) -> float:
    """Of a fit that finds nothing compiled."""
    jax.clear_caches()
    begun = time.perf_counter()
    estimator.fit(rows, progress=False)
    return time.perf_counter() - begun
