"""DP-NF-VI (Su et al., 2023): Tables 2, 3, 5, 6 and 7, Figures 2 and 4, and corner plots of ours.

`veilflow reproduce dp-nf-vi` on the command line; here, `reproduce(splits=1)` and the like. Runs are
kept in `reproductions/dp-nf-vi/runs/` and not done again; records, figures and the page come from them.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from reproductions import records as record_files
from reproductions import running
from reproductions.cache import caches_of
from reproductions.dp_nf_vi import figures, page, runs, tables
from reproductions.dp_nf_vi.data import TITLES
from reproductions.dp_nf_vi.paper import BLOCKS, TABLES
from reproductions.dp_nf_vi.runs import Task
from reproductions.fingerprint import fingerprint, reachable
from reproductions.records import FOLDER
from reproductions.running import Outcome

OUT = FOLDER / "dp-nf-vi"
SPLITS = 5

_REGRESSION, _COHORT = "regression", "cohort"
OWN = ("data", "estimators", "measuring", "runs")
"""The files here that decide what a run measures,"""
LIBRARY: dict[str, tuple[str, ...]] = {
    _REGRESSION: (
        "models.density",
        "models.posterior.combining",
        "models.posterior.flow_posterior",
        "privacy.budget",
    )
}
LIBRARY[_COHORT] = (
    *LIBRARY[_REGRESSION],
    "datasets.cohort",
    "models.chained",
    "models.circulation.emulator",
)
"""and the modules of the library that it uses, by its kind."""


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
        splits: With how many seeds of the fit, from 1.
        table: Which tables; with neither these nor figures nor `only`, everything.
        figure: Draw the figures, after the runs they need.
        only: Of these runs, those that match a `DATA`, `DATA/EPSILON` or `DATA/EPSILON/METHOD`.
        out: The folder for runs, records and figures; `reproductions/dp-nf-vi` where not given.
        any_code: Take finished runs of other code, too.
        say: Where progress is told.

    Raises:
        ValueError: A number of splits, a table or a filter that there is not.
    """
    table, only, out = tuple(table), tuple(only), out or OUT
    running.check_splits(splits, SPLITS)
    running.check_tables(table, TABLES)
    running.check_only(only, TITLES)
    wanted = {str(number) for number in table}
    blocks = [b for b in BLOCKS if b.table in wanted or not (wanted or figure)]
    drawn = figures.all_figures(splits) if figure or not (table or only) else ()
    needed = [*(task for f in drawn for task in f.tasks), *tables.tasks(blocks, splits)]
    chosen = [task for task in dict.fromkeys(needed) if running.matches(task, only)]
    codes = {kind: _code(kind) for kind in LIBRARY}
    caches = caches_of(codes, folder=out / "runs", any_code=any_code)
    return running.finish(
        chosen,
        out=out,
        cache_of=lambda task: caches[_kind(task)],
        codes=codes.values(),
        perform=runs.perform,
        told=_told,
        records_of=lambda find: tables.records(find, splits),
        unmeasured=tables.SHEET.unmeasured,
        drawn=drawn,
        write_page=page.write_page if out.resolve() == OUT.resolve() else None,
        say=say,
    )


def write_page(out: Path | None = None) -> Path:
    """Write the page again from the records and figures that are there."""
    out = out or OUT
    return page.write_page(out, record_files.read(out / "results.json"))


def _told(result: dict[str, Any]) -> str:
    if "largest_error" in result:
        return f"largest error {result['largest_error']:.2f} SDs"
    if "accuracy" in result:
        return f"accuracy {result['accuracy']:.2f}"
    return "a posterior"


def _kind(task: Task) -> str:
    return _REGRESSION if task.data == _REGRESSION else _COHORT


def _code(kind: str = _REGRESSION) -> str:
    """The fingerprint of the code that decides what a run of a kind measures."""
    here = Path(__file__).parent
    names = OWN if kind == _REGRESSION else (*OWN, "circulation")
    return fingerprint([*(here / f"{name}.py" for name in names), *reachable(LIBRARY[kind])])
