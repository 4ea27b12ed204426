"""Clocks: contestants take turns, so that what else the machine does falls on all of them alike."""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

from benchmarks.records import ROOT


@dataclass(frozen=True)
class Contestant:
    """Something to time; `run` returns when its work is done."""

    run: Callable[[], Any]
    every: int = 1
    """Takes part in every such round only, for slow ones."""


def compare(
    contestants: dict[str, Contestant], *, rounds: int, pause: float = 0.0
) -> dict[str, float]:
    """Median seconds of each, measured in turns: A B C A B C ...

    Args:
        contestants: By name. Each is called once beforehand, to compile.
        rounds: How often each takes its turn, if not slow.
        pause: Seconds to wait before each turn, for threads of the one before to come to rest. The
            turn then starts with an unmeasured call, except for slow ones, whose work drowns a
            cold cache.
    """
    for contestant in contestants.values():
        contestant.run()
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for turn in range(rounds):
        for name, contestant in contestants.items():
            if turn % contestant.every:
                continue
            if pause:
                time.sleep(pause)
                if contestant.every == 1:
                    contestant.run()
            seconds[name].append(clock(contestant.run))
    return {name: median(times) for name, times in seconds.items()}


def clock(run: Callable[[], Any]) -> float:
    """Seconds of one call."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def in_fresh_process(module: str, *args: str, limit: float | None = None) -> Any:
    """What `python -m module args` prints as JSON: nothing is cached, imported or compiled yet.

    Raises:
        RuntimeError: It failed; the message has the end of what it said.
        subprocess.TimeoutExpired: It took longer than `limit` seconds.
    """
    command = [sys.executable, "-m", module, *args]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=limit)
    if run.returncode:
        raise RuntimeError(f"{module} {' '.join(args)} failed:\n{run.stderr[-2000:]}")
    return json.loads(run.stdout.splitlines()[-1])
