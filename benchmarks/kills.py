"""Kill -9 at two hundred random moments of saving, querying and fitting, and what is left then.

No final file may be unreadable, no query or fit that began may be missing from its journal, and none
may be there twice; a fit that goes on must end with the very file of one that was left alone.
"""

import os
import tempfile
from pathlib import Path

from benchmarks.records import Record, record

_MOMENTS = {"save": 80, "query": 70, "fit": 50}


def run(*, quick: bool = False) -> list[Record]:
    """All moments; some minutes on one core."""
    # what is killed compiles small programs; before the processes are started, which inherit it
    os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "True")
    from tests.hostile import kills

    ways = {"save": kills.kill_saves, "query": kills.kill_queries, "fit": kills.kill_fits}
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
