"""DP-NF (Waites and Cummings, 2021): Tables 1, 2, 4 and 5 and Figures 1 to 5, 7 and 9.

`veilflow reproduce dp-nf` on the command line; here, `reproduce(splits=1)` and the like. Runs are
kept in `reproductions/dp-nf/runs/` and not done again; records, figures and the page come from them.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from reproductions import records as record_files
from reproductions import running
from reproductions.cache import Cache
from reproductions.dp_nf import figures, page, paper, runs, tables
from reproductions.dp_nf.data import FACTS, SPLITS
from reproductions.fingerprint import fingerprint, reachable
from reproductions.records import FOLDER
from reproductions.running import Outcome

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
    running.check_splits(splits, SPLITS)
    running.check_tables(table, paper.TABLES)
    running.check_only(only, FACTS)
    blocks = tuple(b for b in paper.BLOCKS if b.table in table or (not table and not figure))
    drawn = figures.all_figures(splits) if figure or everything else ()
    wanted = [*tables.tasks(blocks, splits), *(task for f in drawn for task in f.tasks)]
    chosen = [task for task in dict.fromkeys(wanted) if running.matches(task, only)]
    code = _code()
    cache = Cache(folder=out / "runs", code=code, any_code=any_code)
    return running.finish(
        chosen,
        out=out,
        cache_of=lambda task: cache,
        codes=[code],
        perform=runs.perform,
        told=_told,
        records_of=lambda find: tables.records(find, splits),
        unmeasured=tables.unmeasured,
        drawn=drawn,
        write_page=page.write_page if out.resolve() == OUT.resolve() else None,
        say=say,
    )


def write_page(out: Path | None = None) -> Path:
    """Write the page again from the records and figures that are there."""
    out = out or OUT
    return page.write_page(out, record_files.read(out / "results.json"))


def _told(result: dict[str, Any]) -> str:
    mean = result["log_likelihood"]["mean"]
    return f"log-likelihood {'minus infinity' if mean is None else f'{mean:.3f}'}"


def _code() -> str:
    """The fingerprint of the code that decides what a run measures."""
    here = Path(__file__).parent
    own = (here / f"{name}.py" for name in RUN)
    return fingerprint([*own, *reachable(LIBRARY, besides=BESIDES)])
