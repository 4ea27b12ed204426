"""`python -m reproductions again`: some cells of the tables once more, tested against their spread.

Before a release, a random tenth of the cells that have a spread is made again, whatever runs are on
disk. Nothing is written. A new mean agrees with the recorded one unless Student's test, by the recorded
spread, rejects that. The level of each test is the false alarms of a call over the number of cells.
"""

import argparse
import math
import random
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from reproductions import SYSTEMS, get
from reproductions import records as record_files
from reproductions.cache import Run
from reproductions.records import Record
from reproductions.running import Say
from reproductions.system import System

FALSE_ALARMS = 0.01
"""The probability that a call raises an alarm if no number has changed, over all cells."""


@dataclass(frozen=True)
class Chosen:
    """A cell that is made again."""

    system: System
    record: Record

    def __str__(self) -> str:
        return f"{self.system.name}: {' / '.join(self.record.key)}"


@dataclass(frozen=True)
class Verdict:
    """What came of a cell: its new record, if there is one, and whether that agrees with the old."""

    cell: Chosen
    found: Record | None
    holds: bool
    text: str
    seconds: float


def choose(
    system: System, *, share: float, limit: float, seed: int, say: Say = print
) -> list[Chosen]:
    """A random share of the cells of a system that can be tested, rounded up; it is said which cannot.

    Args:
        system: Which.
        share: Share of the cells.
        limit: Cells whose recorded run took more seconds are left out.
        seed: Seed of the choice.
        say: Where it is told how many there are.
    """
    own = set(system.tables.keys())
    measured = [
        r
        for r in record_files.read(system.out / "results.json")
        if r.splits and r.ours is not None and r.key in own
    ]
    tested = [r for r in measured if r.spread is not None]
    quick = [r for r in tested if (r.seconds or 0.0) <= limit]
    chosen = random.Random(f"{seed} {system.name}").sample(quick, math.ceil(share * len(quick)))
    single, slow = len(measured) - len(tested), len(tested) - len(quick)
    say(
        f"{system.name}: {len(chosen)} of {len(quick)} cells; "
        f"left out are {single} without a spread and {slow} that took longer"
    )
    return [Chosen(system, record) for record in chosen]


def again(cells: Sequence[Chosen], *, splits: int = 1, say: Say = print) -> list[Verdict]:
    """Make cells again, each on its first splits or seeds, and test them."""
    finds: dict[str, Callable[[Any], Run]] = {}
    verdicts = []
    for cell in cells:
        find = finds.setdefault(cell.system.name, _performing(cell.system))
        start, made = time.perf_counter(), []
        try:
            made = cell.system.tables.records(find, splits, {cell.record.key})
            holds, text = _tested(cell.record, made, FALSE_ALARMS / len(cells))
        except Exception as error:  # the others are still to be made
            holds, text = False, f"failed: {type(error).__name__}: {error}"
        found = made[0] if made else None
        verdicts.append(Verdict(cell, found, holds, text, time.perf_counter() - start))
        say(f"[{len(verdicts)}/{len(cells)}] {cell}: {text}")
    return verdicts


def _performing(system: System) -> Callable[[Any], Run]:
    """Finds the run of any task, by making it when it is first asked for."""
    made: dict[Any, Run] = {}

    def find(task: Any) -> Run:
        if task not in made:
            made[task] = Run.now(task.settings, system.perform(task, find))
        return made[task]

    return find


def _tested(old: Record, made: Sequence[Record], level: float) -> tuple[bool, str]:
    if not made or made[0].ours is None:
        return False, "misses: nothing was measured"
    chance = p_value(old, made[0])
    holds = chance >= level
    return holds, f"{'holds' if holds else 'misses'}, p = {chance:.2g}"


def p_value(old: Record, new: Record) -> float:
    """How likely means as far apart as these are where nothing has changed."""
    from scipy.stats import t

    assert old.ours is not None
    assert new.ours is not None
    off = abs(new.ours - old.ours)
    if not old.spread:
        return float(off == 0)
    noise = old.spread * math.sqrt(1 / old.splits + 1 / new.splits)
    return 2 * float(t.sf(off / noise, old.splits - 1))


def show(verdicts: Sequence[Verdict]) -> None:
    """Print one table."""
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, header_style="bold")
    for name in ("system", "cell", "recorded", "splits", "date", "now", "s", ""):
        table.add_column(
            name, justify="right" if name in ("recorded", "splits", "now", "s") else "left"
        )
    for verdict in verdicts:
        old = verdict.cell.record
        table.add_row(
            verdict.cell.system.name,
            " / ".join(old.key),
            old.measured,
            str(old.splits),
            old.date or "",
            record_files.number(verdict.found.ours, digits=old.digits) if verdict.found else "-",
            f"{verdict.seconds:.1f}",
            verdict.text,
        )
    Console(markup=False, highlight=False).print(table)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; 1 where a cell misses or fails."""
    parser = argparse.ArgumentParser(prog="python -m reproductions again", description=__doc__)
    parser.add_argument("systems", nargs="*", metavar="SYSTEM", help=f"of {', '.join(SYSTEMS)}")
    parser.add_argument("--share", type=float, default=0.1, help="of the cells, default a tenth")
    parser.add_argument(
        "--seconds", type=float, default=math.inf, help="leave out what took longer"
    )
    parser.add_argument("--splits", type=int, default=1, help="on how many splits or seeds")
    parser.add_argument("--seed", type=int, help="of the choice, to repeat one; default a new one")
    asked = parser.parse_args(arguments)
    if not 0 < asked.share <= 1:
        parser.error(f"--share must be above 0 and at most 1, got {asked.share:g}")
    seed = secrets.randbelow(10**6) if asked.seed is None else asked.seed
    print(f"chosen by --seed {seed}")
    cells = [
        cell
        for name in asked.systems or SYSTEMS
        for cell in choose(get(name), share=asked.share, limit=asked.seconds, seed=seed)
    ]
    verdicts = again(cells, splits=asked.splits)
    show(verdicts)
    return int(not all(verdict.holds for verdict in verdicts))
