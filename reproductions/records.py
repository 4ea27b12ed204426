"""Figures are data: the records a reproduction leaves, the paper's number beside ours."""

import json
import math
import statistics
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks.provenance import ROOT, Better, bound, check_better, misses, write_json

from reproductions.cache import Run
from reproductions.equivalent import same_numbers

FOLDER = ROOT / "reproductions"
_AND = " and "
"""Between the codes, devices and the like of several runs."""


@dataclass(frozen=True, kw_only=True)
class Record:
    """One cell of a table: what the paper printed and what we reach.

    Attributes:
        table: Of the paper, as text; a figure's or our own name where there is no table.
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
        code: The fingerprint of that code; where runs of several were taken, all of them.
        stale: Whether code measured it that may give other numbers than the code that wrote it last.
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
    code: str = ""
    stale: bool = False
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
            # older files did not tell the code: it is not known to be that of today
            item.setdefault("stale", "code" not in item and item["splits"] > 0)
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


def dated(records: list[Record], *codes: str) -> list[Record]:
    """The records, those marked as stale that code measured whose numbers may differ from `codes`'."""
    known = set().union(*(same_numbers(code) for code in codes))
    return [replace(r, stale=r.splits > 0 and not known.issuperset(codes_of(r))) for r in records]


def provenance(runs: list[Run]) -> dict[str, Any]:
    """What every record says about the runs behind it."""
    guarantees = [run.result["guarantee"] for run in runs]
    seconds = [run.seconds for run in runs]
    return {
        "epsilon": max((float(guarantee["epsilon"]) for guarantee in guarantees), default=None),
        "accountant": _AND.join(sorted({guarantee["accountant"] for guarantee in guarantees})),
        "splits": len(runs),
        "seconds": round(statistics.fmean(seconds), 1) if seconds else None,
        "device": _AND.join(sorted({run.device for run in runs})),
        "commit": _AND.join(sorted({run.commit for run in runs})),
        "code": _AND.join(sorted({run.code for run in runs})),
    }


def spread(values: list[float]) -> float | None:
    """The standard deviation, where there is one."""
    return statistics.stdev(values) if len(values) > 1 else None


def codes_of(record: Record) -> list[str]:
    """The fingerprints of all code that measured a record."""
    return record.code.split(_AND)


def show(title: str, records: list[Record]) -> None:
    """Print one table."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=None, header_style="bold")
    for name in ("table", "method", "data, epsilon", "metric", "paper", "ours", "must", ""):
        table.add_column(name, justify="right" if name in ("paper", "ours", "must") else "left")
    for r in records:
        verdict = "" if r.must is None else "misses" if r.misses else "holds"
        remark = ", ".join(filter(None, (verdict, "stale" if r.stale else "")))
        cells = (number(r.paper, digits=r.digits), r.measured, bound(r.must, r.better), remark)
        table.add_row(r.table, r.row, r.column, r.metric, *cells)
    Console(markup=False, highlight=False).print(table)


def number(value: float | None, spread: float | None = None, *, digits: int = 2) -> str:
    """A value with its spread, in the digits the paper prints."""
    if value is None:
        return "-"
    return f"{value:.{digits}f}" + ("" if spread is None else f" ± {spread:.{digits}f}")
