"""How long table flows take at their defaults, and how much memory: epsilon 1, delta 1e-5.

Each fit is done once, in a process of its own, and timed from its first line to its last, compiling
included; memory is the largest resident size of that process while it fits, rows and libraries
included. `people` and the table of 100 columns are generated; Covertype needs VEILFLOW_DATA.
"""

import json
import sys
from typing import Any

import jax

import veilflow as vf
from benchmarks import generated_tables
from benchmarks.records import Record, record
from benchmarks.timing import clock, in_fresh_process
from reproductions import memory

PEOPLE_ROWS, WIDE_ROWS, COLUMNS = 32_561, 4_000, 100
SAMPLED = 100_000
MUST_SECONDS = {"people": 480, "wide": 60, "covertype": 1500, "covertype on a GPU": 300}
MUST_SAMPLE, MUST_GIGABYTES = 20, 3


def run(*, quick: bool = False) -> list[Record]:
    """Measure; on a GPU only what is large enough to need one."""
    on_gpu = jax.default_backend() == "gpu"
    found = _covertype(quick, on_gpu=on_gpu)
    return found if on_gpu else [*_people(quick), *_wide(quick), *found]


def _people(quick: bool) -> list[Record]:
    rows, sampled = (500, 1000) if quick else (PEOPLE_ROWS, SAMPLED)
    found = _measured("people", rows, sampled, quick)
    name = f"people, 15 columns, {rows:,} rows"
    return [
        record(f"{name}: fit", found["fit"], "s", must=MUST_SECONDS["people"]),
        record(f"{name}: peak memory of the fit", found["peak"], "GB", must=MUST_GIGABYTES),
        record(
            f"people: first sample, {sampled:,} rows, compiling included",
            found["sample"],
            "s",
            must=MUST_SAMPLE,
        ),
    ]


def _wide(quick: bool) -> list[Record]:
    """Two steps: what a fit takes before it starts to train on records, and what compiles."""
    rows, columns = (300, 8) if quick else (WIDE_ROWS, COLUMNS)
    name = f"{columns} columns, {rows:,} rows: fit of 2 steps"
    cold = _measured("wide-cold", rows, columns, quick)
    found = [record(f"{name}, no warm start", cold["fit"], "s", must=MUST_SECONDS["wide"])]
    if not quick:  # marginals, and thousands of free steps on rows of theirs: work, not compiling
        warm = _measured("wide-warm", rows, columns, quick)
        found.append(record(f"{name}, warm start included", warm["fit"], "s"))
    return found


def _covertype(quick: bool, *, on_gpu: bool) -> list[Record]:
    found = _measured("covertype", 1000 if quick else 0, 0, quick)
    name = f"covertype, 11 columns, {found['rows']:,} rows" if found["rows"] else "covertype"
    if not found["rows"]:
        name += " (skipped: its file is not in VEILFLOW_DATA)"
    place = "covertype on a GPU" if on_gpu else "covertype"
    fit = record(f"{name}: fit", found["fit"], "s", must=MUST_SECONDS[place])
    if on_gpu:  # what a process holds on the host says little there
        return [fit]
    peak = record(f"{name}: peak memory of the fit", found["peak"], "GB", must=MUST_GIGABYTES)
    return [fit, peak]


def _measured(what: str, rows: int, size: int, quick: bool) -> dict[str, Any]:
    return in_fresh_process("benchmarks.tables", what, str(rows), str(size), str(int(quick)))


def measure(what: str, rows: int, size: int, *, quick: bool) -> dict[str, Any]:
    """Seconds and gigabytes of one fit.

    Args:
        what: "people", "wide-cold", "wide-warm" or "covertype".
        rows: Number of rows; 0 for all.
        size: Rows to sample for people, columns for wide tables.
        quick: Two steps and no warm start.
    """
    settings: dict[str, Any] = {}
    if quick or what.startswith("wide"):
        settings = {"training": vf.Training(steps=2)}
    if quick or what == "wide-cold":
        settings["warm_start"] = False
    if what == "covertype":
        try:
            frame, schema = covertype(rows)
        except FileNotFoundError:
            return {"rows": 0, "fit": None, "peak": None}
    elif what == "people":
        frame, schema = generated_tables.people(rows, seed=7)
    else:
        frame, schema = generated_tables.wide(rows, num_columns=size, seed=7)
    estimator = vf.TableFlow(
        schema=schema,
        budget=vf.Budget(epsilon=1.0, delta=1e-5),
        num_records=len(frame),
        **settings,
    )
    fitted: list[vf.FittedTableFlow] = []
    memory.forget_peak()  # making or reading the rows is not the fit's
    seconds = clock(lambda: fitted.append(estimator.fit(frame, progress=False)))
    found = {"rows": len(frame), "fit": seconds, "peak": memory.peak_gigabytes()}
    if what == "people":
        found["sample"] = clock(lambda: fitted[0].sample(size))
    return found


def covertype(rows: int) -> tuple[Any, vf.Schema]:
    """All rows, or the first few, of the ten numbers and the label, as the reproduction has them."""
    from reproductions.dp_hflow import data

    schema = data.load("covertype").schema
    data.load.cache_clear()  # its rows would count as memory of the fit
    whole: Any = vf.datasets.load("covertype")["all"]
    frame = whole[list(schema.names)].copy()
    return (frame.head(rows) if rows else frame), schema


if __name__ == "__main__":
    name, rows, size, quick = sys.argv[1:]
    print(json.dumps(measure(name, int(rows), int(size), quick=quick == "1")))
