"""Many runs side by side, for a machine with a GPU that is there for minutes; and their way back.

`python -m reproductions.dp_lflow.batch OUT --only mnist/10/flows --splits 3 --minutes 8` makes the runs
that are missing in the folder OUT, several at a time, each followed by its FID where Inception is
installed, and packs what tables and figures need of them into OUT/runs.tar.gz: not the samples that an
FID was measured on. No run starts once the minutes are over. `--merge FILE` unpacks such files beside
the runs that are here, and writes records, figures and the page; it measures nothing.
"""

import argparse
import io
import os
import tarfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from reproductions import running
from reproductions.cache import Cache
from reproductions.dp_lflow import SYSTEM, fid, tables

PACKED = "runs.tar.gz"
_SPARED = ("samples", "features")
"""Arrays that are measured where they are made, and stay there."""


def run_all(
    out: Path, only: Sequence[str], *, splits: int, workers: int, minutes: float
) -> list[str]:
    """Make what is missing of some runs, as filters name them: first seeds first, in their order.

    Args:
        out: The folder for runs and for what is packed.
        only: Filters as those of `veilflow reproduce`.
        splits: With how many seeds.
        workers: How many runs at a time.
        minutes: No run starts after so many.

    Returns:
        A line for every run that failed or was not started.
    """
    until = time.time() + 60 * minutes
    named = [task for text in only for task in SYSTEM.chosen(splits, only=(text,))[0]]
    wanted = sorted(dict.fromkeys(named), key=lambda task: task.split)
    context = get_context("spawn")  # threads of JAX do not survive a fork
    left = []
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        waiting = [pool.submit(_perform, task, out, until) for task in wanted]
        for done in as_completed(waiting):
            lines, failures = done.result()
            print(*lines, *failures, sep="\n", flush=True)
            left += failures
    pack(out)
    return left


def share_the_device(workers: int, compiled: Path) -> None:
    """Let processes that are started from now on share a device, its programs and the processors.

    Args:
        workers: How many processes there will be.
        compiled: A folder for compiled programs: each is compiled once for all.
    """
    settings = {
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
        "JAX_COMPILATION_CACHE_DIR": str(compiled),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "1",
        "JAX_THREEFRY_GPU_KERNEL_LOWERING": "true",  # as the command line does
        "OMP_NUM_THREADS": str(max(1, (os.cpu_count() or 1) // workers)),
    }
    for name, value in settings.items():
        os.environ.setdefault(name, value)


def _perform(task: Any, out: Path, until: float) -> tuple[list[str], list[str]]:
    """A run and its FIDs, unless it is too late; what is said of it, and what failed."""
    if time.time() > until:
        return [], [f"not started: {task}"]
    store, lines = Cache(out / "runs"), []

    def find(one: Any) -> Any:
        return store.find(one.name, one.settings)

    def perform(tasks: Sequence[Any]) -> list[str]:
        return running.perform_missing(
            tasks,
            cache=store,
            perform=lambda one: SYSTEM.perform(one, find),
            told=SYSTEM.told,
            say=lines.append,
        )

    failures = perform([task])
    if fid.is_possible():
        failures += perform(tables.distances([task], find))
    return lines, failures


def pack(out: Path) -> Path:
    """One file of all runs in a folder, without the arrays that are no longer needed."""
    path = out / PACKED
    with tarfile.open(path, "w:gz") as packed:
        for file in sorted((out / "runs").glob("*")):
            if file.suffix != ".npz":
                packed.add(file, file.name)
                continue
            with np.load(file, allow_pickle=False) as found:
                arrays = {name: found[name] for name in found.files if name not in _SPARED}
            if arrays:
                content = io.BytesIO()
                np.savez_compressed(content, allow_pickle=False, **arrays)
                about = tarfile.TarInfo(file.name)
                about.size = content.tell()
                packed.addfile(about, io.BytesIO(content.getvalue()))
    return path


def merge(files: Sequence[Path], *, folder: Path | None = None) -> None:
    """Unpack runs, then write the records, the figures and the page that follow from them.

    Args:
        files: What `pack` wrote.
        folder: Of runs and records; the system's own where not given.
    """
    folder = folder or SYSTEM.out
    for file in files:
        with tarfile.open(file) as packed:
            packed.extractall(folder / "runs", filter="data")
    store = Cache(folder / "runs")
    find = cache(lambda task: store.find(task.name, task.settings))
    made = tables.records(find, SYSTEM.most_splits)
    running.keep(folder / "results.json", made, unmeasured=SYSTEM.unmeasured, say=print)
    SYSTEM.draw(out=folder)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", nargs="?", type=Path)
    parser.add_argument("--only", nargs="+", default=[])
    parser.add_argument("--splits", type=int, default=1)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--minutes", type=float, default=8.0)
    parser.add_argument("--merge", nargs="+", type=Path, default=[])
    given = parser.parse_args()
    if given.merge:
        merge(given.merge)
        return
    if given.out is None or not given.only:
        parser.error("name a folder and some runs, or files to merge")
    running.check_only(given.only, SYSTEM.data)
    share_the_device(given.workers, given.out / "compiled")
    settings = {"splits": given.splits, "workers": given.workers, "minutes": given.minutes}
    left = run_all(given.out, given.only, **settings)
    print(f"{len(left)} runs failed or were not started; packed {given.out / PACKED}")


if __name__ == "__main__":
    main()
