"""DP-HFlow (Lee et al., 2022): Tables 1 to 3, Figures 3 to 5, and ablations of ours beside them.

`veilflow reproduce dp-hflow` on the command line; here, `reproduce(splits=1)` and the like. Runs are
kept in `reproductions/dp-hflow/runs/` and not done again; records, figures and the page come from them.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from reproductions import records as record_files
from reproductions import running
from reproductions.cache import Cache, caches_of
from reproductions.dp_hflow import figures, page, paper, runs, tables
from reproductions.dp_hflow.measures import TITLES
from reproductions.dp_hflow.runs import HELD_OUT, REAL, Task
from reproductions.fingerprint import fingerprint, reachable
from reproductions.records import FOLDER
from reproductions.running import Outcome

OUT = FOLDER / "dp-hflow"
SPLITS, MOST_SPLITS = 3, 10

REFERENCE = ("data", "measuring", "runs")
"""The files here that decide what a run on real rows measures,"""
RUN = (*REFERENCE, "estimators")
"""those that decide what a run of a model measures,"""
MEASURED = (
    "datasets",
    *(f"evaluation.{name}" for name in ("classifiers", "detection", "log_likelihood", "marginals")),
    *(f"evaluation.{name}" for name in ("rank_correlation", "table_marginals", "value_shares")),
    *(f"tabular.{name}" for name in ("columns", "schema")),
)
"""the modules of the library that both use,"""
LIBRARY = (*MEASURED, "models.table.table_flow", "privacy.budget")
"""and those that models use."""


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
        table: Which tables of the paper; with neither these nor figures nor `only`, everything.
        figure: Draw the figures, after the runs they need.
        only: Of these runs, those that match a `DATA`, `DATA/EPSILON` or `DATA/EPSILON/METHOD`.
        out: The folder for runs, records and figures; `reproductions/dp-hflow` where not given.
        any_code: Take finished runs of other code, too.
        say: Where progress is told.

    Raises:
        ValueError: A number of splits, a table or a filter that there is not.
    """
    table, only, out = tuple(table), tuple(only), out or OUT
    everything = not (table or figure or only)
    running.check_splits(splits, MOST_SPLITS)
    running.check_tables(table, [int(block.table) for block in paper.TABLES])
    running.check_only(only, TITLES)
    wanted_tables = {str(number) for number in table}
    blocks = [b for b in tables.SHEET.blocks if b.table in wanted_tables or not (table or figure)]
    drawn = figures.all_figures(splits) if figure or everything else ()
    wanted = [*tables.tasks(blocks, splits), *(task for f in drawn for task in f.tasks)]
    chosen = [task for task in dict.fromkeys(wanted) if running.matches(task, only)]
    codes = {True: _code(reference=True), False: _code()}
    caches = caches_of(codes, folder=out / "runs", any_code=any_code)

    def cache_of(task: Task) -> Cache:
        # what real rows reach takes long to measure, and no model decides it
        return caches[task.method in (REAL, HELD_OUT)]

    return running.finish(
        chosen,
        out=out,
        cache_of=cache_of,
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
    apart = f"2-way total variation {result['marginals']['mean_two_way']:.4f}"
    if "classifiers" not in result:
        return apart
    mean = result["classifiers"]["mean"]
    return f"AUROC {mean['auroc']:.3f}, macro-F1 {mean['macro_f1']:.3f}, {apart}"


def _code(*, reference: bool = False) -> str:
    """The fingerprint of the code that decides what a run measures."""
    here = Path(__file__).parent
    own = (here / f"{name}.py" for name in (REFERENCE if reference else RUN))
    return fingerprint([*own, *reachable(MEASURED if reference else LIBRARY)])
