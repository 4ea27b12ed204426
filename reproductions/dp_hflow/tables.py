"""Which runs the tables need, and the records that finished ones make."""

import math
import statistics
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from reproductions.batches import sampling
from reproductions.cache import Run
from reproductions.dp_hflow.ablations import ABLATIONS
from reproductions.dp_hflow.blocks import TITLES, Block, Column, Row
from reproductions.dp_hflow.paper import TABLES
from reproductions.dp_hflow.runs import DELTA, REAL, Task
from reproductions.dp_hflow.targets import TARGETS
from reproductions.records import Record, provenance, spread
from veilflow.privacy.ledger import Ledger

Find = Callable[[Task], Run | None]
"""From a task to its finished run, if it is."""

BLOCKS = (*TARGETS, *TABLES, *ABLATIONS)
"""All tables, what must be reached first."""

_ACCOUNTANT, _SAMPLING = "RDP", "not stated"
"""Of the paper."""


def tasks(blocks: Iterable[Block], splits: int) -> list[Task]:
    """The runs that some blocks need, each once for a split before any for the next."""
    cells = [
        (column.data, method, epsilon)
        for block in blocks
        for row in block.rows
        if row.method is not None
        for column in block.columns
        for method, epsilon in ((row.method, row.epsilon), *_bases(column))
    ]
    return [
        Task(data=data, method=method, epsilon=epsilon, split=split)
        for split in range(1, splits + 1)
        for data, method, epsilon in dict.fromkeys(cells)
    ]


def _bases(column: Column) -> tuple[tuple[str, float], ...]:
    """What a share is a share of."""
    return ((REAL, math.inf),) if column.share else ()


def records(find: Find, splits: int) -> list[Record]:
    """A record for every cell of which a run is finished."""
    found = []
    for block, row, column in _cells():
        runs = _finished(find, column.data, row.method, row.epsilon, splits)
        real = _finished(find, column.data, REAL, math.inf, splits) if column.share else []
        if runs and (real or not column.share):
            record = _record(block, row, column, runs, real)
            found += [] if record is None else [record]
    return found


def unmeasured(known: list[Record]) -> list[Record]:
    """A record without a number for each cell that must reach something and has no record yet."""
    keys = {record.key for record in known}
    found = [
        _described(block, row, column, must=row.must[column], note="not run yet", **provenance([]))
        for block, row, column in _cells()
        if column in row.must
    ]
    return [record for record in found if record.key not in keys]


def column_of(row: Row, column: Column) -> str:
    """How a record names its column."""
    return f"{TITLES[column.data]}, {row.epsilon:g}"


def _cells() -> Iterator[tuple[Block, Row, Column]]:
    for block in BLOCKS:
        for row in block.rows:
            if row.method is not None:
                yield from ((block, row, column) for column in block.columns)


def _finished(find: Find, data: str, method: Any, epsilon: float, splits: int) -> list[Run]:
    each = range(1, splits + 1)
    runs = [find(Task(data=data, method=method, epsilon=epsilon, split=i)) for i in each]
    return [run for run in runs if run is not None]


def _record(
    block: Block, row: Row, column: Column, runs: list[Run], real: list[Run]
) -> Record | None:
    """What the runs say of a cell; None if they did not measure it."""
    what = column.what
    values = [value for run in runs if (value := what.read(run.result)) is not None]
    bases = [value for run in real if (value := what.read(run.result)) is not None]
    unit = statistics.fmean(bases) if bases else 1.0
    if not values or (column.share and not bases):
        return None
    values = [value / unit for value in values]
    worst = max(values) if what.better == "lower" else min(values)
    ledger = runs[0].result.get("ledger")
    both = provenance([*runs, *real])
    on_gpu = what.worst and any("NVIDIA" in run.device for run in runs)
    return _described(
        block,
        row,
        column,
        ours=worst if what.worst else statistics.fmean(values),
        spread=None if what.worst else spread(values),
        must=None if on_gpu else row.must.get(column),
        sampling=sampling(Ledger.from_json(ledger)) if ledger else "",
        note=what.note(runs[0].result) if what.note else "",
        **{**provenance(runs), "code": both["code"], "commit": both["commit"]},
    )


def _described(
    block: Block,
    row: Row,
    column: Column,
    *,
    ours: float | None = None,
    spread: float | None = None,
    **fields: Any,
) -> Record:
    """A record with all that is known without a run."""
    printed = row.paper.get(column)
    private = printed is not None and row.epsilon != math.inf
    return Record(
        table=block.table,
        row=row.name,
        column=column_of(row, column),
        metric=column.metric,
        paper=printed,
        ours=ours,
        spread=spread,
        better=column.what.better,
        delta=DELTA if row.epsilon != math.inf else None,
        paper_accountant=_ACCOUNTANT if private else "",
        paper_sampling=_SAMPLING if private else "",
        digits=column.what.digits,
        **fields,
    )
