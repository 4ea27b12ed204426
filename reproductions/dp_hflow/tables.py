"""Which runs the tables need, and the records that finished ones make."""

import math
import statistics
from collections.abc import Callable, Collection, Iterable

from reproductions.blocks import Block, Column
from reproductions.cache import Run
from reproductions.dp_hflow.ablations import ABLATIONS
from reproductions.dp_hflow.measures import TITLES
from reproductions.dp_hflow.paper import TABLES
from reproductions.dp_hflow.runs import DELTA, REAL, Task
from reproductions.dp_hflow.targets import TARGETS
from reproductions.records import Record
from reproductions.sheet import Cell, Key, Sheet

Find = Callable[[Task], Run | None]
"""From a task to its finished run, if it is."""

SHEET = Sheet(
    blocks=(*TARGETS, *TABLES, *ABLATIONS),
    titles=TITLES,
    delta=DELTA,
    accountant="RDP",
    sampling="not stated",
)
"""All tables, what must be reached first."""


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


keys = SHEET.keys


def records(find: Find, splits: int, only: Collection[Key] | None = None) -> list[Record]:
    """A record for every cell of which a run is finished; for those of some keys, where given."""
    made = [_record(cell, find, splits) for cell in SHEET.cells(only)]
    return [record for record in made if record is not None]


def _finished(find: Find, data: str, method: str, epsilon: float, splits: int) -> list[Run]:
    each = range(1, splits + 1)
    runs = [find(Task(data=data, method=method, epsilon=epsilon, split=i)) for i in each]
    return [run for run in runs if run is not None]


def _record(cell: Cell, find: Find, splits: int) -> Record | None:
    """What the runs say of a cell; None if they did not measure it."""
    _, row, column = cell
    what = column.what
    runs = _finished(find, column.data, str(row.method), row.epsilon, splits)
    real = _finished(find, column.data, REAL, math.inf, splits) if column.share else []
    values = [value for run in runs if (value := what.read(run.result)) is not None]
    bases = [value for run in real if (value := what.read(run.result)) is not None]
    if not values or (column.share and not bases):
        return None
    unit = statistics.fmean(bases) if bases else 1.0
    on_gpu = what.worst and any("NVIDIA" in run.device for run in runs)
    return SHEET.measured(
        cell,
        [value / unit for value in values],
        runs,
        beside=real,
        must=None if on_gpu else row.must.get(column),
        note=what.note(runs[0].result) if what.note else "",
    )
