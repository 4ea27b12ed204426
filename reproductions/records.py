"""Figures are data: the records a reproduction leaves, the paper's number beside ours."""

import json
import math
import statistics
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.provenance import ROOT, Better, bound, check_better, misses, write_json

from reproductions.cache import Run

FOLDER = ROOT / "reproductions"
_AND = " and "
"""Between the commits, devices and the like of several runs."""


@dataclass(frozen=True, kw_only=True)
class Record:
    """One cell of a table: what the paper printed, what we reach, and how that was measured.

    A record is not changed later. A new measurement is a new record in its place.

    Attributes:
        table: Table of the paper, as text; a figure's or our own name where there is no table.
        row: The method.
        column: The data set and the epsilon aimed at.
        metric: What was measured.
        paper: The paper's number, where it has one.
        ours: Our mean over the splits; None where it is not finite.
        spread: Standard deviation over the splits; None for a single one.
        must: What `ours` must reach.
        better: Which way is better.
        epsilon: What was spent at most, by `accountant`.
        delta: What epsilon is stated at.
        accountant: Whose sums epsilon is.
        splits: How many splits were measured.
        seconds: Per split, of what the system's runs time: the fit, and what its page says beside.
        device: What it ran on.
        commit: The code it ran, with a plus sign where that was not committed.
        date: The day it ran; None where it was not recorded.
        versions: Versions of the libraries; None where they were not recorded.
        settings: Settings of its runs; a list where they differ, None where they were not recorded.
        sampling: How our batches were drawn.
        paper_accountant: Whose sums the paper's epsilon is.
        paper_sampling: How the paper's batches were drawn.
        true_epsilon_of_paper: What the paper's run had really spent, where its settings are known.
        claims: What other accountants say of our run at the same delta.
        note: What one must know beside.
        digits: How many are shown behind the point.
    """

    table: str
    row: str
    column: str
    metric: str
    paper: float | None
    ours: float | None
    spread: float | None
    must: float | None
    better: Better
    epsilon: float | None
    delta: float | None
    accountant: str
    splits: int
    seconds: float | None
    device: str
    commit: str
    date: str | None = None
    versions: dict[str, str] | None = None
    settings: dict[str, Any] | None = None
    sampling: str = ""
    paper_accountant: str = ""
    paper_sampling: str = ""
    true_epsilon_of_paper: float | None = None
    claims: dict[str, float] = field(default_factory=dict)
    note: str = ""
    digits: int = 2

    def __post_init__(self) -> None:
        check_better(self.better)

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What makes two records the same cell."""
        return (self.table, self.row, self.column, self.metric)

    @property
    def misses(self) -> bool:
        """Whether there is a bound and it isn't shown to be met."""
        return misses(self.ours, self.must, self.better)

    @property
    def measured(self) -> str:
        """Our number with its spread."""
        return number(self.ours, self.spread, digits=self.digits)


def write(path: Path, records: list[Record]) -> Path:
    """Write records; an infinite epsilon becomes the word "inf", as in a guarantee."""
    items = [asdict(record) for record in records]
    for item in items:
        if item["epsilon"] == math.inf:
            item["epsilon"] = "inf"
    return write_json(path, items)


def read(path: Path) -> list[Record]:
    """The records in a file; none if it is not there.

    Raises:
        ValueError: The file does not hold records; the message names it.
    """
    if not path.exists():
        return []
    try:
        items = json.loads(path.read_text("utf-8"))
        for item in items:
            if item["epsilon"] is not None:
                item["epsilon"] = float(item["epsilon"])
        return [Record(**item) for item in items]
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path.name} does not hold reproduction records: {error}") from error


def merge(old: list[Record], new: list[Record]) -> tuple[list[Record], list[Record]]:
    """Old records with new ones in their places, and the new ones that were not let in.

    A quick look at few splits does not replace a measurement on more.
    """
    before = {record.key: record for record in old}
    held_back = [r for r in new if r.key in before and r.splits < before[r.key].splits]
    blocked = {record.key for record in held_back}
    fresh = {record.key: record for record in new if record.key not in blocked}
    kept = [fresh.pop(record.key, record) for record in old]
    return [*kept, *fresh.values()], held_back


def provenance(runs: list[Run]) -> dict[str, Any]:
    """What every record says about the runs behind it."""
    guarantees = [run.result["guarantee"] for run in runs]
    seconds = [run.seconds for run in runs]
    return {
        "epsilon": max((float(guarantee["epsilon"]) for guarantee in guarantees), default=None),
        "accountant": _joined(guarantee["accountant"] for guarantee in guarantees),
        "splits": len(runs),
        "seconds": round(statistics.fmean(seconds), 1) if seconds else None,
        "device": _joined(run.device for run in runs),
        **origin(runs),
        "settings": _common([run.settings for run in runs]),
    }


def origin(runs: list[Run]) -> dict[str, Any]:
    """Which code measured some runs, and when; None where one of them does not say."""
    dates = [run.date for run in runs if run.date is not None]
    versions = [run.versions for run in runs if run.versions is not None]
    told = len(versions) == len(runs) > 0
    return {
        "commit": _joined(run.commit for run in runs),
        "date": _joined(dates) if len(dates) == len(runs) > 0 else None,
        "versions": {name: _joined(v[name] for v in versions) for name in versions[0]}
        if told
        else None,
    }


def _joined(texts: Iterable[str]) -> str:
    return _AND.join(sorted(set(texts)))


def _common(settings: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Settings of several runs in one: what differs, such as the split, becomes a list."""
    if not settings:
        return None
    found = {}
    for name in settings[0]:
        values = [each[name] for each in settings]
        found[name] = values[0] if all(value == values[0] for value in values) else values
    return found


def spread(values: list[float]) -> float | None:
    """The standard deviation, where there is one."""
    return statistics.stdev(values) if len(values) > 1 else None


def show(title: str, records: list[Record]) -> None:
    """Print one table."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=None, header_style="bold")
    for name in ("table", "method", "data, epsilon", "metric", "paper", "ours", "must", ""):
        table.add_column(name, justify="right" if name in ("paper", "ours", "must") else "left")
    for r in records:
        verdict = "" if r.must is None else "misses" if r.misses else "holds"
        cells = (number(r.paper, digits=r.digits), r.measured, bound(r.must, r.better), verdict)
        table.add_row(r.table, r.row, r.column, r.metric, *cells)
    Console(markup=False, highlight=False).print(table)


def number(value: float | None, spread: float | None = None, *, digits: int = 2) -> str:
    """A value with its spread, in the digits the paper prints."""
    if value is None:
        return "-"
    return f"{value:.{digits}f}" + ("" if spread is None else f" ± {spread:.{digits}f}")
