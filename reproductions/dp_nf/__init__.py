"""DP-NF (Waites and Cummings, 2021): Tables 1, 2, 4 and 5 and Figures 1 to 5, 7 and 9.

`veilflow reproduce dp-nf` on the command line; here, `reproduce(splits=1)` and the like. Runs are
kept in `reproductions/dp-nf/runs/` and not done again; records, figures and the page come from them.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from reproductions import records as record_files
from reproductions.cache import Cache, Run
from reproductions.dp_nf import figures, page, paper, runs, tables
from reproductions.dp_nf.data import FACTS, SPLITS
from reproductions.dp_nf.runs import Task
from reproductions.fingerprint import fingerprint, reachable
from reproductions.records import FOLDER, Record

OUT = FOLDER / "dp-nf"

RUN = ("data", "estimators", "runs")
"""The files here that decide what a run measures,"""
LIBRARY = (
    "datasets",
    *(f"evaluation.{name}" for name in ("log_likelihood", "marginals", "projection", "regression")),
    "evaluation.roc",
    "models.density",
    "models.mixture",
    "privacy.budget",
)
"""and the modules of the library that they use,"""
BESIDES = ("tabular",)
"""without what reads and writes files: rows of a run come as arrays."""


@dataclass(frozen=True)
class Outcome:
    """What a call of `reproduce` leaves: all records there are, its own among them, and what failed."""

    records: list[Record]
    made: list[Record]
    failures: list[str]


def reproduce(
    *,
    splits: int = SPLITS,
    table: Iterable[int] = (),
    figure: bool = False,
    only: Iterable[str] = (),
    out: Path | None = None,
    any_code: bool = False,
    say: Callable[[str], None] = print,
) -> Outcome:
    """Run what is not finished yet, then write records, figures and the page.

    Args:
        splits: On how many of the ten splits, from the first.
        table: Which tables; with neither these nor figures nor `only`, all tables and all figures.
        figure: Draw the figures, after the runs they need.
        only: Of these runs, those that match a `DATA`, `DATA/EPSILON` or `DATA/EPSILON/METHOD`.
        out: The folder for runs, records and figures; `reproductions/dp-nf` where not given.
        any_code: Take finished runs of other code, too.
        say: Where progress is told.

    Raises:
        ValueError: A number of splits, a table or a filter that there is not.
    """
    table, only, out = tuple(table), tuple(only), out or OUT
    everything = not (table or figure or only)
    _check(splits, table, only)
    blocks = tuple(b for b in paper.BLOCKS if b.table in table or (not table and not figure))
    drawn = figures.all_figures(splits) if figure or everything else ()
    wanted = [*tables.tasks(blocks, splits), *(task for f in drawn for task in f.tasks)]
    chosen = [task for task in dict.fromkeys(wanted) if _matches(task, only)]
    code = _code()
    cache = Cache(folder=out / "runs", code=code, any_code=any_code)
    failures = _run(chosen, cache, say)

    def find(task: Task) -> Run | None:
        return cache.find(task.name, task.settings)

    made = record_files.dated(tables.records(find, splits), code)
    path = out / "results.json"
    before = record_files.dated(record_files.read(path), code)
    kept, held_back = record_files.merge(before, made)
    for record in held_back:
        say(f"kept the record on more splits: {record.row}, {record.column}, {record.metric}")
    stale = sum(record.stale for record in kept)
    if stale:
        say(f"{stale} records are of other code and marked as stale")
    if kept:
        kept += tables.unmeasured(kept)
        record_files.write(path, kept)
    for each in drawn:
        _draw(each, out / "figures", find, made, say)
    if kept and out.resolve() == OUT.resolve():
        page.write_page(out, kept)
    return Outcome(kept, made, failures)


def write_page(out: Path | None = None) -> Path:
    """Write the page again from the records and figures that are there."""
    out = out or OUT
    return page.write_page(out, record_files.read(out / "results.json"))


def _run(chosen: list[Task], cache: Cache, say: Callable[[str], None]) -> list[str]:
    """Perform what is not finished; one run that fails does not end the others."""
    missing = [task for task in chosen if cache.find(task.name, task.settings) is None]
    stale = sum(cache.stale(task.name, task.settings) for task in missing)
    if stale:
        say(
            f"{stale} finished runs were made by other code and are done again (--any-code: are taken)"
        )
    failures = []
    for count, task in enumerate(missing, start=1):
        try:
            done = runs.perform(task)
        except Exception as error:  # an overnight job goes on; the command ends with a failure
            failures.append(f"{task}: {type(error).__name__}: {error}")
            say(f"[{count}/{len(missing)}] failed: {failures[-1]}")
            continue
        cache.store(task.name, task.settings, done.result, seconds=done.seconds, arrays=done.arrays)
        mean = done.result["log_likelihood"]["mean"]
        told = "minus infinity" if mean is None else f"{mean:.3f}"
        say(f"[{count}/{len(missing)}] {task}: log-likelihood {told}, {done.seconds:.1f} s")
    return failures


def _draw(
    figure: figures.Figure,
    folder: Path,
    find: Callable[[Task], Run | None],
    records: list[Record],
    say: Callable[[str], None],
) -> None:
    found = {task: find(task) for task in figure.tasks}
    finished = {task: run for task, run in found.items() if run is not None}
    if len(finished) < len(found):
        say(f"{figure.name} is not drawn: {len(found) - len(finished)} of its runs are missing")
        return
    folder.mkdir(parents=True, exist_ok=True)
    try:
        figure.draw(folder / f"{figure.name}.png", lambda task: finished[task], records)
    except (KeyError, ValueError) as error:  # runs of older code may lack what it shows
        say(f"{figure.name} is not drawn: {error}")
        return
    say(f"drew {figure.name}.png")


def _check(splits: int, table: tuple[int, ...], only: tuple[str, ...]) -> None:
    if not 1 <= splits <= SPLITS:
        raise ValueError(f"splits must be from 1 to {SPLITS}, got {splits}.")
    for number in table:
        if number not in paper.TABLES:
            tables_there = ", ".join(map(str, paper.TABLES))
            raise ValueError(f"the tables are {tables_there}; got {number}.")
    for text in only:
        name, *rest = text.split("/")
        if name not in FACTS or len(rest) > 2 or (rest and not _is_number(rest[0])):
            raise ValueError(
                f"only must be DATA, DATA/EPSILON or DATA/EPSILON/METHOD with a data set of "
                f"{', '.join(FACTS)}; got {text!r}."
            )


def _matches(task: Task, only: tuple[str, ...]) -> bool:
    def fits(text: str) -> bool:
        name, *rest = text.split("/")
        same = name == task.data and (not rest or float(rest[0]) == task.epsilon)
        return same and (len(rest) < 2 or rest[1] == task.method)

    return not only or any(fits(text) for text in only)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _code() -> str:
    """The fingerprint of the code that decides what a run measures."""
    here = Path(__file__).parent
    own = (here / f"{name}.py" for name in RUN)
    return fingerprint([*own, *reachable(LIBRARY, besides=BESIDES)])
