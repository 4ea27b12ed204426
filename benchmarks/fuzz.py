"""How loaders bear damaged and hostile files: a hundred thousand of them, of every kind that is read.

Each loader works in a process of its own, whose death would be a finding. A file must be loaded or
refused by an error that is meant for it, within ten seconds and a few gigabytes, and nothing may be
written, run or read beside it.
"""

import os
from concurrent.futures import ThreadPoolExecutor

from benchmarks.records import Record, record

_COUNTS = {
    "model file": 4000,
    "model file, within": 5000,
    "ledger": 8000,
    "schema, TOML": 5000,
    "schema, JSON": 5000,
    "policy": 8000,
    "bounds": 5000,
    "CSV, numbers": 1500,
    "CSV, table": 2000,
    "Parquet, numbers": 4000,
    "Parquet, table": 4000,
    "Arrow, numbers": 4000,
    "Arrow, table": 4000,
    "NPZ, numbers": 4000,
    "NPY, numbers": 6000,
    "NPZ, series": 4000,
    "NPZ, images": 4000,
    "IDX": 8000,
    "IDX, packed": 8000,
    "image files": 4000,
    "list of images": 2500,
    "journal": 5000,
    "data-set ledger": 6000,
    "checkpoint": 8000,
}
_SEED = 2026
_LEAST = 100_000
_LONGEST = 10.0


def run(*, quick: bool = False) -> list[Record]:
    """All loaders, as many at a time as there are cores; about ten minutes on one."""
    from tests.hostile.apart import hunt_apart
    from tests.hostile.hunt import Found
    from tests.hostile.loaders import ALL_MODELS, FAST_MODELS, loaders

    assert set(_COUNTS) == set(loaders())

    def one(name: str) -> Found:
        count = 20 if quick else _COUNTS[name]
        kinds = ALL_MODELS if name == "model file, within" and not quick else FAST_MODELS
        found = hunt_apart(name, count=count, seed=_SEED, kinds=kinds)
        for what in (*found.crashes, *found.hangs, *found.outside):
            print(f"{name}: {what}", flush=True)
        return found

    with ThreadPoolExecutor(max_workers=os.cpu_count()) as hunts:  # each waits for its process
        found = dict(zip(_COUNTS, hunts.map(one, _COUNTS), strict=True))
    every = found.values()
    inputs = sum(one.inputs for one in every)
    return [
        record("damaged files loaded", inputs, "files", better="higher", must=_LEAST),
        record("crashes", sum(len(one.crashes) for one in every), "files", must=0),
        record("hangs", sum(len(one.hangs) for one in every), "files", must=0),
        record(
            "files outside the target folder", sum(len(one.outside) for one in every), "", must=0
        ),
        record("longest time for one file", max(o.slowest for o in every), "s", must=_LONGEST),
        *(
            record(
                f"{name}: of {one.inputs} files, those that did anything but load or be refused",
                len(one.crashes) + len(one.hangs) + len(one.outside),
                "files",
                must=0,
            )
            for name, one in found.items()
        ),
    ]
