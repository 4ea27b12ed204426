"""ExpM+NF (Bridges, Tombs and Stanley, 2024): AUC over epsilon, exact samplers beside flows, attacks.

`veilflow reproduce expm-nf` on the command line; here, `reproduce(small=True)` and the like. Runs are
kept in `reproductions/expm-nf/runs/` and not done again; records, figures and the page come from them.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from reproductions import records as record_files
from reproductions import running
from reproductions.cache import caches_of
from reproductions.expm_nf import figures, page, runs, tables, targets
from reproductions.expm_nf.runs import AUDIT, EXACT, TIME, Task
from reproductions.expm_nf.tables import SHEET, TITLES
from reproductions.fingerprint import fingerprint, reachable
from reproductions.records import FOLDER
from reproductions.running import Outcome

OUT = FOLDER / "expm-nf"
SPLITS, MOST_SPLITS = 10, 10
OPTIONS = ("small",)
"""What `reproduce` takes beside what every system does."""

_FITS = "fits"
_FITTED = ("adult", "data", "fits", "methods", "sets")
OWN = {
    _FITS: _FITTED,
    EXACT: ("exact",),
    AUDIT: ("audit", "exact"),
    TIME: (*_FITTED, "timing"),
}
"""The files here that decide what a run measures, by its kind,"""
_SAMPLERS = ("flow_sampler", "grid", "rejection", "zoom")
_BASELINES = ("dp_sgd", "non_private", "objective", "output", "trainable_grud")
LIBRARY = (
    "datasets",
    "models.expm.classifier",
    *(f"models.expm.{name}" for name in ("diagnostics", "grud", *_SAMPLERS)),
    *(f"models.expm.baselines.{name}" for name in _BASELINES),
)
"""and the modules of the library that all of them use."""


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
        splits: Seeds of a median, at most; methods that take long have fewer.
        table: None: the tables here are our own.
        figure: Draw the figures, after the runs they need.
        only: Of these runs, those that match a `DATA`, `DATA/EPSILON` or `DATA/EPSILON/METHOD`.
        out: The folder for runs, records and figures; `reproductions/expm-nf` where not given.
        any_code: Take finished runs of other code, too.
        small: Only the table of generated records and the attacks in one run; no files are needed.
        say: Where progress is told.

    Raises:
        ValueError: A number of splits, a table or a filter that there is not.
    """
    only, out = tuple(only), out or OUT
    running.check_splits(splits, MOST_SPLITS)
    running.check_tables(tuple(table), ())
    running.check_only(only, [name for name in TITLES if "/" not in name] + [TIME])
    drawn = figures.all_figures(splits) if not small and (figure or not only) else ()
    wanted = tables.tasks((targets.SMALL,), splits) + tables.quick_attacks(splits)
    if not small:
        blocks = () if figure else SHEET.blocks
        needed = [*tables.tasks(blocks, splits), *(task for f in drawn for task in f.tasks)]
        wanted = list(dict.fromkeys(needed))
    chosen = [task for task in wanted if _matches(task, only)]
    codes = {kind: _code(kind) for kind in OWN}
    caches = caches_of(codes, folder=out / "runs", any_code=any_code)
    return running.finish(
        chosen,
        out=out,
        cache_of=lambda task: caches[_kind(task)],
        codes=codes.values(),
        perform=runs.perform,
        told=_told,
        records_of=lambda find: tables.records(find, splits),
        unmeasured=SHEET.unmeasured,
        drawn=drawn,
        write_page=page.write_page if out.resolve() == OUT.resolve() else None,
        say=say,
    )


def write_page(out: Path | None = None) -> Path:
    """Write the page again from the records and figures that are there."""
    out = out or OUT
    return page.write_page(out, record_files.read(out / "results.json"))


def _matches(task: Task, only: tuple[str, ...]) -> bool:
    """Whether a task fits a filter; the times of all models are one set to it."""
    if _kind(task) == TIME:
        task = Task(data=TIME, method=task.method, epsilon=task.epsilon)
    return running.matches(task, only)


def _told(result: dict[str, Any]) -> str:
    words = {"auc": "AUC", "distance": "total variation", "lower_bound": "epsilon at least"}
    words |= {"second": "seconds of a second fit"}
    return ", ".join(f"{word} {result[name]:.3f}" for name, word in words.items() if name in result)


def _kind(task: Task) -> str:
    where = task.data.partition("/")[0]
    return where if where in OWN else _FITS


def _code(kind: str = _FITS) -> str:
    """The fingerprint of the code that decides what a run of a kind measures."""
    here = Path(__file__).parent
    return fingerprint([*(here / f"{name}.py" for name in OWN[kind]), *reachable(LIBRARY)])
