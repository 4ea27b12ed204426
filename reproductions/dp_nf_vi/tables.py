"""Which runs the tables need, and the records that finished ones make."""

from collections.abc import Callable, Collection, Iterable
from statistics import fmean

from reproductions.blocks import Block
from reproductions.cache import Run
from reproductions.dp_nf_vi.data import TITLES
from reproductions.dp_nf_vi.estimators import DELTA
from reproductions.dp_nf_vi.measures import BIASES
from reproductions.dp_nf_vi.paper import BLOCKS
from reproductions.dp_nf_vi.runs import SIMULATION, Task
from reproductions.records import Record
from reproductions.sheet import Cell, Key, Sheet

Find = Callable[[Task], Run | None]

SHEET = Sheet(blocks=BLOCKS, titles=TITLES, delta=DELTA, accountant="GDP-CLT", sampling="Poisson")
"""All tables, what must be reached first."""

_ONCE = (SIMULATION,)
"""Takes minutes: one seed."""


def tasks(blocks: Iterable[Block], splits: int) -> list[Task]:
    """The runs that some blocks need, each once for a split before any for the next."""
    wanted = dict.fromkeys(
        (column.data, row.method, row.epsilon)
        for block in blocks
        for row in block.rows
        if row.method is not None
        for column in block.columns
    )
    return [
        Task(data=data, method=method, epsilon=epsilon, split=split)
        for split in range(1, splits + 1)
        for data, method, epsilon in wanted
        if split == 1 or method not in _ONCE
    ]


keys = SHEET.keys


def records(find: Find, splits: int, only: Collection[Key] | None = None) -> list[Record]:
    """A record for every cell of which a run is finished; for those of some keys, where given."""
    made = [_record(cell, find, splits) for cell in SHEET.cells(only)]
    return [record for record in made if record is not None]


def _record(cell: Cell, find: Find, splits: int) -> Record | None:
    _, row, column = cell
    each = [
        Task(data=column.data, method=str(row.method), epsilon=row.epsilon, split=split)
        for split in range(1, splits + 1)
    ]
    found = [run for task in each if (run := find(task)) is not None]
    told = [(run, value) for run in found if (value := row.value(column, run.result)) is not None]
    if not told:
        return None
    runs, values = [run for run, _ in told], [value for _, value in told]
    if column.what in BIASES:
        values = [abs(fmean(values))]
    return SHEET.measured(cell, values, runs, must=row.must.get(column))
