"""`python -m reproductions.again`: finished runs once more, to see whether the numbers are the same.

For each kind of run, the one that was quickest on this machine; whatever code made it. This is how the
line `checked` of a change in `equivalent.py` is come by. Nothing is written.
"""

import argparse
import json
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from benchmarks.provenance import machine

from reproductions import SYSTEMS, get
from reproductions.cache import Run
from reproductions.system import Find, System

_MEASURED_BY_CLOCK = {"first", "second", "seconds_a_fit", "fit_seconds", "sampling_seconds"}
_OF_THE_MOMENT = {*_MEASURED_BY_CLOCK, "images_per_second", "peak_gigabytes"}
"""What differs from one run to the next, whatever the code."""

Difference = tuple[float, str]
"""How much, relative to the larger number, and where. No number at all: infinitely much."""


def again(system: System, *, seconds: float = 60.0, say: Callable[[str], None] = print) -> bool:
    """Whether runs of a system give the numbers they gave, as far as they repeat.

    Fits without a seed, and counts on a grid with one, draw from the operating system: they differ
    each time. A run that differs is made a second time; if it differs from itself, it tells nothing,
    and one without privacy is taken in its place, where there is one.

    Args:
        system: Which.
        seconds: Runs that took longer are left out.
        say: Where a line for each run goes.
    """
    caches = system.caches(system.out, any_code=True)

    def find(task: Any) -> Run | None:
        return caches[system.kind_of(task)].find(task.name, task.settings)

    same = True
    for kind in system.kinds:
        there = _candidates(system, kind, find)
        if not there:
            say(f"{system.name}, {kind}: no finished run of this machine")
        for task, run in there:
            title = f"{system.name}, {kind}, {task.name}"
            if _took(task, run) > seconds:
                say(f"{title}: left out, it took {_took(task, run):.0f} s")
                break
            try:
                verdict, repeats = _verdict(lambda task=task: _result(system, task, find), run)
            except Exception as error:  # the others are still to be compared
                verdict, repeats = f"failed: {type(error).__name__}: {error}", True
            say(f"{title}: {verdict}")
            same &= not repeats or verdict == _EQUAL
            if repeats:
                break
    return same


_EQUAL = "equal to the last bit"


def _candidates(system: System, kind: str, find: Find) -> list[tuple[Any, Run]]:
    """The quickest run of a kind on this machine, and the quickest without privacy."""
    tasks, _ = system.chosen(system.most_splits)
    if system.fid is not None and system.fid.is_possible():
        tasks += system.tables.distances(tasks, find)
    here = [
        (task, run)
        for task in tasks
        if system.kind_of(task) == kind
        and (run := find(task)) is not None
        and run.device == machine()
    ]
    here.sort(key=lambda pair: _took(*pair))
    plain = [pair for pair in here[1:] if pair[0].epsilon == math.inf]
    return here[:1] + plain[:1]


def _took(task: Any, run: Run) -> float:
    return run.seconds * getattr(task, "seeds", 1)  # of several, those of one are stored


def _result(system: System, task: Any, find: Find) -> Any:
    return json.loads(json.dumps(system.perform(task, find).result))  # as it is stored


def _verdict(perform: Callable[[], Any], run: Run) -> tuple[str, bool]:
    """What to say of a run, and whether it repeats at all."""
    result = perform()
    size, where = difference(run.result, result)
    if size == 0:
        return _EQUAL, True
    told = f"differs by {size:.1e} at {where}"
    own, _ = difference(result, perform())
    if own == 0:
        return told, True
    return f"{told}, and from itself by {own:.1e}: tells nothing", False


def difference(old: Any, new: Any) -> Difference:
    """The largest difference of two results, but for what a clock or the memory tells."""
    return max(_differences(old, new), default=(0.0, ""), key=lambda found: found[0])


def _differences(old: Any, new: Any, where: str = "") -> Iterator[Difference]:
    if isinstance(old, dict) and isinstance(new, dict) and old.keys() == new.keys():
        for name in old.keys() - _OF_THE_MOMENT:
            yield from _differences(old[name], new[name], f"{where}.{name}".lstrip("."))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for number, pair in enumerate(zip(old, new, strict=True)):
            yield from _differences(*pair, f"{where}[{number}]")
    elif isinstance(old, int | float) and isinstance(new, int | float):
        yield (abs(old - new) / max(abs(old), abs(new)) if old != new else 0.0), where
    else:
        yield (0.0 if old == new else math.inf), where


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; 1 where a run that repeats gives other numbers, or fails."""
    parser = argparse.ArgumentParser(prog="python -m reproductions.again", description=__doc__)
    parser.add_argument("systems", nargs="*", metavar="SYSTEM", help=f"of {', '.join(SYSTEMS)}")
    parser.add_argument("--seconds", type=float, default=60.0, help="leave out what took longer")
    asked = parser.parse_args(arguments)
    same = [again(get(name), seconds=asked.seconds) for name in asked.systems or SYSTEMS]
    return int(not all(same))


if __name__ == "__main__":
    raise SystemExit(main())
