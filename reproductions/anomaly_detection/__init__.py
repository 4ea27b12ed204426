"""Anomaly detection: Figures 5 and 8 of DP-NF, Table 3 of DP-LFlow, sparse vector, attacks and frauds.

`veilflow reproduce anomaly` on the command line; here, `reproduce(small=True)` and the like. Runs are
kept in `reproductions/anomaly/runs/` and not done again; records, figures and the page come from them.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from reproductions import dp_nf, running
from reproductions import records as record_files
from reproductions.anomaly_detection import elsewhere, figures, page, runs, tables, targets
from reproductions.anomaly_detection.runs import ENSEMBLE, PARTS, REFERENCE, STREAMS, Task
from reproductions.anomaly_detection.tables import SHEET
from reproductions.cache import caches_of
from reproductions.fingerprint import fingerprint, reachable
from reproductions.records import FOLDER
from reproductions.running import Outcome

OUT = FOLDER / "anomaly"
SPLITS, MOST_SPLITS = 3, 10
OPTIONS = ("small",)
"""What `reproduce` takes beside what every system does."""

_FITS = "fits"
OWN = {
    _FITS: ("fits", "sets"),
    REFERENCE: ("fits", "references", "sets"),
    ENSEMBLE: ("ensembles",),
    **dict.fromkeys((PARTS, *STREAMS), ("ensembles", "streams")),
}
"""The files here that decide what a run measures, by its kind,"""
_ENSEMBLE = ("datasets", "models.detect.ensemble")
LIBRARY = {
    **dict.fromkeys((_FITS, REFERENCE), (*dp_nf.LIBRARY, "models.detect.likelihood")),
    **dict.fromkeys((ENSEMBLE, PARTS, *STREAMS), _ENSEMBLE),
}
"""and the modules of the library that they use,"""
BESIDES = dp_nf.BESIDES
"""without what reads and writes files: rows of a run come as arrays."""


def reproduce(
    *,
    splits: int = SPLITS,
    table: Iterable[int] = (),
    figure: bool = False,
    only: Iterable[str] = (),
    out: Path | None = None,
    any_code: bool = False,
    small: bool = False,
    say: Callable[[str], None] = print,
) -> Outcome:
    """Run what is not finished yet, then write records, figures and the page.

    Args:
        splits: Splits or draws of a mean, at most; what takes long has one.
        table: None: the tables here are our own.
        figure: Draw the figures, after the runs they need.
        only: Of these runs, those that match a `DATA`, `DATA/EPSILON` or `DATA/EPSILON/METHOD`.
        out: The folder for runs, records and figures; `reproductions/anomaly` where not given.
        any_code: Take finished runs of other code, too.
        small: Only mixtures on generated rows; no files are needed.
        say: Where progress is told.

    Raises:
        ValueError: A number of splits, a table or a filter that there is not.
    """
    only, out = tuple(only), out or OUT
    running.check_splits(splits, MOST_SPLITS)
    running.check_tables(tuple(table), ())
    running.check_only(only, tables.TITLES)
    drawn = figures.all_figures(splits) if not small and (figure or not only) else ()
    wanted = tables.tasks(targets.SMALL if small else targets.BLOCKS, splits)
    if figure and not small:
        wanted = list(dict.fromkeys(task for each in drawn for task in each.tasks))
    chosen = [task for task in wanted if running.matches(task, only)]
    codes = {kind: _code(kind) for kind in OWN}
    caches = caches_of(codes, folder=out / "runs", any_code=any_code)
    return running.finish(
        chosen,
        out=out,
        cache_of=lambda task: caches[_kind(task)],
        codes=[*codes.values(), *elsewhere.codes()],
        perform=runs.perform,
        told=_told,
        records_of=lambda find: [*tables.records(find, splits), *elsewhere.records()],
        unmeasured=SHEET.unmeasured,
        drawn=drawn,
        write_page=page.write_page if out.resolve() == OUT.resolve() else None,
        say=say,
    )


def write_page(out: Path | None = None) -> Path:
    """Write the page again from the records and figures that are there."""
    out = out or OUT
    return page.write_page(out, record_files.read(out / "results.json"))


def _told(result: dict[str, Any]) -> str:
    words = {"auroc": "AUROC", "unanimous": "unanimous votes", "equal": "plain queries as accurate"}
    found = [f"{word} {result[name]:.4g}" for name, word in words.items() if name in result]
    return ", ".join(found) or "done"


def _kind(task: Task) -> str:
    if task.method == REFERENCE:
        return REFERENCE
    return task.data if task.data in OWN else _FITS


def _code(kind: str = _FITS) -> str:
    """The fingerprint of the code that decides what a run of a kind measures."""
    here = Path(__file__).parent
    own = [here / f"{name}.py" for name in OWN[kind]]
    if kind in (_FITS, REFERENCE):
        own += [Path(dp_nf.__file__).parent / f"{name}.py" for name in ("data", "estimators")]
    return fingerprint([*own, *reachable(LIBRARY[kind], besides=BESIDES)])
