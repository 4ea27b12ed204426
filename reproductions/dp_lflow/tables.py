"""Which runs the tables need, and the records that finished ones make."""

from collections.abc import Callable, Collection, Iterable

from reproductions.blocks import Block
from reproductions.cache import Run
from reproductions.dp_lflow import fid
from reproductions.dp_lflow.ablations import ABLATIONS
from reproductions.dp_lflow.data import FACTS
from reproductions.dp_lflow.measures import FID
from reproductions.dp_lflow.paper import TABLES, TRUE_EPSILONS
from reproductions.dp_lflow.runs import DELTA, Task
from reproductions.dp_lflow.targets import SMALL, TARGETS
from reproductions.records import Record
from reproductions.sheet import Cell, Key, Sheet

Find = Callable[[fid.AnyTask], Run | None]
"""From a task to its finished run, if it is."""

SHEET = Sheet(
    blocks=(*TARGETS, *TABLES, *ABLATIONS, SMALL),
    titles={**{name: facts.title for name, facts in FACTS.items()}, "celeba": "CelebA"},
    delta=DELTA,
    accountant="RDP",
    sampling="shuffled, accounted as Poisson",
    true_epsilons=TRUE_EPSILONS,
)
"""All tables, what must be reached first."""


def tasks(blocks: Iterable[Block], splits: int) -> list[Task]:
    """The runs of models that some blocks need, each once for a split before any for the next."""
    wanted = [
        (column.data, row.method, row.epsilon)
        for block in blocks
        for row in block.rows
        if row.method is not None
        for column in block.columns
    ]
    return [
        Task(data=data, method=method, epsilon=epsilon, split=split)
        for split in range(1, splits + 1)
        for data, method, epsilon in dict.fromkeys(wanted)
    ]


def distances(of: Iterable[Task], find: Find) -> list[fid.ReferenceFeatures | fid.Fid]:
    """The second pass over those of some runs whose FID a table shows, and which are finished."""
    shown = dict.fromkeys(
        (column.data, row.method, row.epsilon, row.part)
        for _, row, column in SHEET.cells()
        if column.what is FID
    )
    wanted = [
        (task, part)
        for task in of
        for *run, part in shown
        if (task.data, task.method, task.epsilon) == tuple(run)
    ]
    found = [each for which in wanted if (each := fid.task_of(*which, find)) is not None]
    # one set after the other, as its images and features are in memory
    sets = dict.fromkeys(each.data for each in found)
    return [
        task
        for name in sets
        for task in (
            fid.ReferenceFeatures(data=name),
            *(each for each in found if each.data == name),
        )
    ]


keys = SHEET.keys


def records(find: Find, splits: int, only: Collection[Key] | None = None) -> list[Record]:
    """A record for every cell of which a run is finished; for those of some keys, where given."""
    made = [_record(cell, find, splits) for cell in SHEET.cells(only)]
    return [record for record in made if record is not None]


def _record(cell: Cell, find: Find, splits: int) -> Record | None:
    """What the runs say of a cell; None if they did not measure it."""
    _, row, column = cell
    runs, sources = [], []
    for split in range(1, splits + 1):
        task = Task(data=column.data, method=str(row.method), epsilon=row.epsilon, split=split)
        run, source = find(task), find(task)
        if column.what is FID:
            second = fid.task_of(task, row.part, find)
            source = None if second is None else find(second)
        if run is not None and source is not None:
            runs.append(run)
            sources.append(source)
    values = [value for s in sources if (value := row.value(column, s.result)) is not None]
    if not values:
        return None
    # a bound on time is for a GPU, but for the small set, whose is for a machine without
    fits = not column.what.worst or _on_gpu(runs) is (column.data != "digits")
    return SHEET.measured(
        cell,
        values,
        runs,
        beside=sources if column.what is FID else (),
        must=row.must.get(column) if fits else None,
        note=column.what.note(sources[0].result) if column.what.note else "",
    )


def _on_gpu(runs: list[Run]) -> bool:
    return any("NVIDIA" in run.device for run in runs)
