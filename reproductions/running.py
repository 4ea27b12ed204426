"""What every reproduction does with its runs: perform those that are missing, keep their records."""

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from reproductions import records as record_files
from reproductions.cache import Cache, Run
from reproductions.records import Record
from reproductions.tasks import Finished, Task

Say = Callable[[str], None]
T = TypeVar("T", bound=Task)


@dataclass(frozen=True)
class Outcome:
    """What a call of `reproduce` leaves: all records there are, its own among them, and what failed."""

    records: list[Record]
    made: list[Record]
    failures: list[str]


def perform_missing(
    tasks: Sequence[T],
    *,
    cache: Cache,
    perform: Callable[[T], Finished],
    told: Callable[[dict[str, Any]], str],
    say: Say,
) -> list[str]:
    """Perform what is not finished; one run that fails does not end the others.

    Args:
        tasks: What is to be finished.
        cache: Where runs are kept.
        perform: Makes a run.
        told: What is said of a result.
        say: Where progress is told.

    Returns:
        A line for every run that failed.
    """
    missing = [task for task in tasks if cache.find(task.name, task.settings) is None]
    failures = []
    for count, task in enumerate(missing, start=1):
        where = f"[{count}/{len(missing)}]"
        try:
            done = perform(task)
        except Exception as error:  # an overnight job goes on; the command ends with a failure
            failures.append(f"{task}: {type(error).__name__}: {error}")
            say(f"{where} failed: {failures[-1]}")
            continue
        kept = cache.store(task.name, Run.now(task.settings, done))
        meanwhile = "" if kept else "; another process was faster, and its run is kept"
        say(f"{where} {task}: {told(done.result)}, {done.seconds:.1f} s{meanwhile}")
    return failures


def keep(
    path: Path,
    made: list[Record],
    *,
    unmeasured: Callable[[list[Record]], list[Record]],
    say: Say,
) -> list[Record]:
    """Write records among those that are there; where there is none at all, nothing is written.

    Args:
        path: Their file.
        made: The new ones.
        unmeasured: From the records there are to those of cells that must be measured and are not.
        say: Where it is told what is kept.
    """
    kept, held_back = record_files.merge(record_files.read(path), made)
    for record in held_back:
        say(f"kept the record on more splits: {record.row}, {record.column}, {record.metric}")
    if kept:
        kept += unmeasured(kept)
        record_files.write(path, kept)
    return kept


def check_splits(splits: int, most: int) -> None:
    """Raise unless there are so many splits."""
    if not 1 <= splits <= most:
        raise ValueError(f"splits must be from 1 to {most}, got {splits}.")


def check_tables(table: Iterable[int], there: Collection[int]) -> None:
    """Raise unless there are these tables."""
    for number in table:
        if number not in there:
            raise ValueError(f"the tables are {', '.join(map(str, there))}; got {number}.")


def check_only(only: Iterable[str], data: Collection[str]) -> None:
    """Raise unless each text is a filter on these data sets."""
    for text in only:
        name, *rest = text.split("/")
        if name not in data or len(rest) > 2 or (rest and not _is_number(rest[0])):
            raise ValueError(
                f"only must be DATA, DATA/EPSILON or DATA/EPSILON/METHOD with a data set of "
                f"{', '.join(data)}; got {text!r}."
            )


def matches(task: Task, only: Collection[str]) -> bool:
    """Whether a task fits one of the filters; without filters each does."""

    def fits(text: str) -> bool:
        name, *rest = text.split("/")
        same = name == task.data.partition("/")[0] and (not rest or float(rest[0]) == task.epsilon)
        return same and (len(rest) < 2 or rest[1] == task.method)

    return not only or any(fits(text) for text in only)


def _is_number(text: str) -> bool:
    try:
        return not math.isnan(float(text))
    except ValueError:
        return False
