"""DP-LFlow (Jiang and Sun, 2023): Tables 1 to 4, Figures 1 to 3, and ablations of ours beside them.

`veilflow reproduce dp-lflow` on the command line; here, `reproduce(small=True)` and the like. Runs are
kept in `reproductions/dp-lflow/runs/` and not done again; records, figures and the page come from them.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from reproductions import records as record_files
from reproductions import running
from reproductions.cache import Cache, Run, caches_of
from reproductions.dp_lflow import fid as second_pass
from reproductions.dp_lflow import figures, page, runs, tables
from reproductions.dp_lflow.data import FACTS
from reproductions.dp_lflow.fid import AnyTask
from reproductions.dp_lflow.paper import TABLES
from reproductions.dp_lflow.runs import REAL, Finished, Task
from reproductions.dp_lflow.sharpening import RAW, SHARPENED
from reproductions.dp_lflow.targets import SMALL
from reproductions.fingerprint import fingerprint, reachable
from reproductions.records import FOLDER
from reproductions.running import Outcome

OUT = FOLDER / "dp-lflow"
SPLITS, MOST_SPLITS = 1, 10
OPTIONS = ("small", "fid")
"""What `reproduce` takes beside what every system does."""

_MODEL, _REFERENCE, _DISTANCE = "model", "reference", "distance"
OWN = {
    _REFERENCE: ("data", "measuring", "runs", "sharpening"),
    _DISTANCE: ("data", "fid", "sharpening"),
}
OWN[_MODEL] = (*OWN[_REFERENCE], "estimators")
"""The files here that decide what a run measures, by its kind,"""
_IMAGES = ("datasets", "images", "images.sharpen")
_MEASURES = tuple(f"evaluation.images.{name}" for name in ("classifiers", "fidelity", "ood"))
LIBRARY = {
    _REFERENCE: (*_IMAGES, *_MEASURES),
    _DISTANCE: (*_IMAGES, "evaluation.images.frechet", "evaluation.images.inception"),
}
LIBRARY[_MODEL] = (*LIBRARY[_REFERENCE], "models.image.image_flow", "privacy.budget")
"""and the modules of the library that it uses."""

_NO_INCEPTION = "Inception is not installed here; run pip install 'veilflow[fid]'"


def reproduce(
    *,
    splits: int = SPLITS,
    table: Iterable[int] = (),
    figure: bool = False,
    only: Iterable[str] = (),
    out: Path | None = None,
    any_code: bool = False,
    small: bool = False,
    fid: bool = False,
    say: Callable[[str], None] = print,
) -> Outcome:
    """Run what is not finished yet, then write records, figures and the page.

    Args:
        splits: With how many seeds of the fit, from 1.
        table: Which tables of the paper; with neither these nor figures nor `only`, everything.
        figure: Draw the figures, after the runs they need.
        only: Of these runs, those that match a `DATA`, `DATA/EPSILON` or `DATA/EPSILON/METHOD`.
        out: The folder for runs, records and figures; `reproductions/dp-lflow` where not given.
        any_code: Take finished runs of other code, too.
        small: Only the table of digits, and its figures.
        fid: Fit nothing: measure the FID of finished runs, which needs the extra `[fid]`.
        say: Where progress is told.

    Raises:
        ValueError: A number of splits, a table or a filter that there is not; or no way to an FID.
    """
    table, only, out = tuple(table), tuple(only), out or OUT
    running.check_splits(splits, MOST_SPLITS)
    running.check_tables(table, sorted({int(b.table) for b in TABLES if b.table.isdigit()}))
    running.check_only(only, FACTS)
    if small and table:
        raise ValueError("small is a table of its own: leave out either small or the tables.")
    if fid and not second_pass.is_possible():
        raise ValueError(f"the FID is not measured: {_NO_INCEPTION}.")
    wanted_tables = {SMALL.table} if small else {str(number) for number in table}
    blocks = [
        b for b in tables.SHEET.blocks if b.table in wanted_tables or not (wanted_tables or figure)
    ]
    drawn = figures.all_figures(splits) if figure or not (table or only or fid) else ()
    if small:
        drawn = figures.SMALL
    wanted = [*tables.tasks(blocks, splits), *(task for f in drawn for task in f.tasks)]
    chosen = [task for task in dict.fromkeys(wanted) if running.matches(task, only)]
    codes = {kind: _code(kind) for kind in OWN}
    caches = caches_of(codes, folder=out / "runs", any_code=any_code)

    def cache_of(task: AnyTask) -> Cache:
        return caches[_kind(task)]

    def find(task: AnyTask) -> Run | None:
        return cache_of(task).find(task.name, task.settings)

    def perform(task: AnyTask) -> Finished:
        return runs.perform(task) if isinstance(task, Task) else second_pass.perform(task, find)

    failures = []
    if not fid:
        failures = running.perform_missing(
            chosen, cache_of=cache_of, perform=perform, told=_told, say=say
        )
    distances: list[AnyTask] = [*tables.distances(chosen, find)]
    if not second_pass.is_possible():
        left = sum(find(task) is None for task in distances)
        if left:
            say(f"{left} runs for the FID are left: {_NO_INCEPTION}; then pass --fid")
        distances = []
    outcome = running.finish(
        distances,
        out=out,
        cache_of=cache_of,
        codes=codes.values(),
        perform=perform,
        told=_told,
        records_of=lambda find: tables.records(find, splits),
        unmeasured=tables.SHEET.unmeasured,
        drawn=drawn,
        write_page=page.write_page if out.resolve() == OUT.resolve() else None,
        say=say,
    )
    return replace(outcome, failures=[*failures, *outcome.failures])


def write_page(out: Path | None = None) -> Path:
    """Write the page again from the records and figures that are there."""
    out = out or OUT
    return page.write_page(out, record_files.read(out / "results.json"))


def _told(result: dict[str, Any]) -> str:
    if "images" in result:
        distance = f"FID {result['fid']:.1f}, " if "fid" in result else ""
        return f"{distance}{result['images_per_second']:.1f} images a second"
    return "; ".join(
        f"{part}: " + ", ".join(f"{x} {of['mean']:.1f} %" for x, of in found["accuracies"].items())
        for part, found in result.items()
        if part in (RAW, SHARPENED)
    )


def _kind(task: AnyTask) -> str:
    if not isinstance(task, Task):
        return _DISTANCE
    return _REFERENCE if task.method == REAL else _MODEL


def _code(kind: str = _MODEL) -> str:
    """The fingerprint of the code that decides what a run of a kind measures."""
    here = Path(__file__).parent
    own = (here / f"{name}.py" for name in OWN[kind])
    return fingerprint([*own, *reachable(LIBRARY[kind])])
