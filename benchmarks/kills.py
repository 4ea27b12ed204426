"""Kill -9 at random moments of saving, querying and fitting, and check what is left.

No final file may be unreadable. No query or fit that began may be missing from its journal, and none
may be there twice. Fits of all nine estimators are killed at two hundred moments: each resumes, asks
for nothing that was released before, and ends with the model of an undisturbed fit.
"""

import os
import tempfile
from pathlib import Path

from benchmarks.records import Record, record

_MOMENTS = {"save": 40, "query": 40, "fit": 20, "every estimator": 200}


def run(*, quick: bool = False) -> list[Record]:
    """All moments; some minutes on one core."""
    # what is killed compiles small programs; before the processes are started, which inherit it
    os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "True")
    from tests.hostile import every_fit, kills

    ways = {
        "save": kills.kill_saves,
        "query": kills.kill_queries,
        "fit": kills.kill_fits,
        "every estimator": every_fit.kill_every_fit,
    }
    found = {}
    for name, way in ways.items():
        with tempfile.TemporaryDirectory() as folder:
            found[name] = way(Path(folder), moments=2 if quick else _MOMENTS[name], seed=2026)
        print(name, found[name].notes, flush=True)
        for what in (*found[name].lost, *found[name].double, *found[name].unreadable):
            print(f"{name}: {what}", flush=True)
    every = found.values()
    total = sum(one.moments for one in every)
    records = [record("kills", total, "moments", better="higher", must=sum(_MOMENTS.values()))]
    for what, kind in {
        "lost spends": "lost",
        "double spends": "double",
        "unreadable final files": "unreadable",
    }.items():
        records.append(record(what, sum(len(getattr(one, kind)) for one in every), "", must=0))
    for name, one in found.items():
        bad = len(one.lost) + len(one.double) + len(one.unreadable)
        records.append(
            record(
                f"{name}: of {one.moments} kills, those after which something was wrong",
                bad,
                "kills",
                must=0,
            )
        )
    return records
