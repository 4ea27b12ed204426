"""Which runs the tables need, and the records that finished ones make."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace

from reproductions.blocks import Block
from reproductions.cache import Run
from reproductions.expm_nf import adult
from reproductions.expm_nf.measures import AUC, LOST
from reproductions.expm_nf.methods import DELTA
from reproductions.expm_nf.runs import AUDIT, EXACT, TIME, Task
from reproductions.expm_nf.sets import SETS
from reproductions.expm_nf.targets import ATTACKS, BLOCKS
from reproductions.records import Record, spread
from reproductions.sheet import Cell, Key, Sheet
from veilflow.privacy.assumptions import Unproved

Find = Callable[[Task], Run | None]
"""From a task to its finished run, if it is."""

_MOST = {"flow-longer": 1, "dp-sgd-l2": 5, "dp-sgd-rdp": 5}
"""Seeds of a method, at most: each of these fits takes long, or is there to be compared only."""
_FEWER = {"adult-tenth": 5, "last-mortality": 5, "last-stay": 5}
_FEWER |= dict.fromkeys((f"adult-{num}" for num in (30, adult.MOST)), 3)
_FEWER |= dict.fromkeys(("grud-mortality", "grud-stay"), 3)

TITLES = {
    **{name: facts.title for name, facts in SETS.items()},
    EXACT: "two parameters",
    AUDIT: "generated canaries",
    f"{TIME}/lr-mortality": "LR",
    f"{TIME}/grud-mortality": "GRU-D",
    f"{TIME}/lr-stay": "LR (long stay)",
    f"{TIME}/grud-stay": "GRU-D (long stay)",
}
SHEET = Sheet(
    blocks=BLOCKS,
    titles=TITLES,
    delta=DELTA,
    accountant="PRV for DP-SGD, none for the flow",
    sampling="Poisson for DP-SGD",
)
"""All tables, what must be reached first."""


def seeds_of(data: str, method: str, most: int) -> int:
    """How many fits make a median: ten, and fewer where ten would take too long."""
    if data in (EXACT, AUDIT) or data.startswith(TIME):
        return 1
    if method.startswith("non-private") and not data.startswith("grud"):
        return 1  # the same minimum, whatever the seed
    if method == "flow" and data == "generated":
        return 3
    return min(most, _FEWER.get(data, most), _MOST.get(method, most))


def task_of(data: str, method: str, epsilon: float, most: int) -> Task:
    """The run behind a cell."""
    return Task(data=data, method=method, epsilon=epsilon, seeds=seeds_of(data, method, most))


def tasks(blocks: Iterable[Block], most: int) -> list[Task]:
    """The runs that some blocks need, each once, one data set after the other."""
    wanted = {
        task_of(column.data, row.method, row.epsilon, most): None
        for block in blocks
        for row in block.rows
        if row.method is not None
        for column in block.columns
    }
    wanted |= {
        reference(task, most): None
        for block in blocks
        if any(column.what is LOST for column in block.columns)
        for task in list(wanted)
        if task.data in SETS
    }
    names = list(dict.fromkeys(task.data for task in wanted))
    # what takes longest comes last
    return sorted(wanted, key=lambda task: ("grud" in task.data, names.index(task.data)))


def reference(task: Task, most: int) -> Task:
    """The run without privacy on the same data."""
    return task_of(task.data, "non-private", float("inf"), most)


keys = SHEET.keys


def records(find: Find, most: int, only: Collection[Key] | None = None) -> list[Record]:
    """A record for every cell of which a run is finished; for those of some keys, where given."""
    made = [_record(cell, find, most) for cell in SHEET.cells(only)]
    return [record for record in made if record is not None]


def _record(cell: Cell, find: Find, most: int) -> Record | None:
    _, row, column = cell
    task = task_of(column.data, str(row.method), row.epsilon, most)
    run = find(task)
    value = None if run is None else row.value(column, run.result)
    if run is None or value is None:
        return None
    beside = []
    if column.what is LOST:
        plain = find(reference(task, most))
        if plain is None:
            return None
        beside, value = [plain], plain.result["auc"] - value
    record = SHEET.measured(cell, [value], [run], beside=beside, must=row.must.get(column))
    several = run.result["aucs"] if column.what in (AUC, LOST) else []
    return replace(
        record,
        spread=spread(several),
        splits=max(1, len(several)),
        delta=run.result["guarantee"].get("delta") if row.epsilon != float("inf") else None,
        note="CONDITIONAL" if _is_conditional(run) else "",
    )


def _is_conditional(run: Run) -> bool:
    return any(one["kind"] == Unproved.kind for one in run.result["guarantee"]["assumptions"])


def quick_attacks(most: int) -> list[Task]:
    """The attacks that take seconds."""
    return [task for task in tasks((ATTACKS,), most) if task.method.startswith("one-run")]
