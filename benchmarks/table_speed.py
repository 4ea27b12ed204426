"""How long table flows take for many rows and for many columns: epsilon 1, delta 1e-6, defaults.

Both tables are generated: `census` has the list lengths of a census, `wide` has 500 columns. Each fit
is done once, in a process of its own. Seconds are those of a clock, and those of all processor cores
together (user and system), which say more on a machine that does other work at the same time. Memory
is the largest resident size of the process while it fits, rows and libraries included.
"""

import json
import sys
import time

import veilflow as vf
from benchmarks import generated_tables
from benchmarks.records import Record, record
from benchmarks.timing import in_fresh_process
from reproductions import memory

CASES = {"census": (199_523, 41), "wide": (20_000, 500)}
MUST_SECONDS, MUST_GIGABYTES = {"census": 300, "wide": 600}, {"census": 4, "wide": 4}
QUICK = {"census": (300, 41), "wide": (300, 12)}


def run(*, quick: bool = False) -> list[Record]:
    """One fit of each table."""
    found = []
    for what, (rows, columns) in (QUICK if quick else CASES).items():
        own = in_fresh_process(
            "benchmarks.table_speed", what, str(rows), str(columns), str(int(quick))
        )
        name = f"{what}, {columns} columns, {rows:,} rows"
        found += [
            record(f"{name}: fit", own["seconds"], "s", must=MUST_SECONDS[what]),
            record(f"{name}: processor time of the fit", own["processor"], "s"),
            record(f"{name}: peak memory of the fit", own["peak"], "GB", must=MUST_GIGABYTES[what]),
        ]
    return found


def measure(what: str, rows: int, columns: int, *, quick: bool) -> dict[str, float | None]:
    """Seconds and gigabytes of one fit."""
    if what == "census":
        frame, schema = generated_tables.census(rows, seed=7)
    else:
        frame, schema = generated_tables.wide(rows, num_columns=columns, seed=7)
    estimator = vf.TableFlow(
        schema=schema,
        budget=vf.Budget(epsilon=1.0, delta=1e-6),
        num_records=rows,
        warm_start=not quick,
        training=vf.Training(steps=2) if quick else vf.Training(),
    )
    memory.forget_peak()  # making the rows is not the fit's
    start, processor = time.perf_counter(), time.process_time()
    estimator.fit(frame, progress=False)
    return {
        "seconds": time.perf_counter() - start,
        "processor": time.process_time() - processor,
        "peak": memory.peak_gigabytes(),
    }


if __name__ == "__main__":
    name, rows, columns, quick = sys.argv[1:]
    print(json.dumps(measure(name, int(rows), int(columns), quick=quick == "1")))
