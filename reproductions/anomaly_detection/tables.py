"""Which runs the tables need, and the records that finished ones make."""

import statistics
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace

from reproductions.anomaly_detection import elsewhere, fits, sets, streams
from reproductions.anomaly_detection.runs import ENSEMBLE, PARTS, STREAMS, Task
from reproductions.anomaly_detection.targets import (
    BLOCKS,
    LEAD,
    MISSED,
    STREAM_EPSILON,
)
from reproductions.blocks import Block, Row
from reproductions.cache import Run
from reproductions.records import Record, spread
from reproductions.sheet import Cell, Key, Sheet
from veilflow.privacy.events import ExponentialMechanism
from veilflow.privacy.ledger import Ledger

Find = Callable[[Task], Run | None]
"""From a task to its finished run, if it is."""

_ONCE = (sets.NETWORK, sets.CARDS, PARTS, *STREAMS)
"""What takes long, or has little left to chance."""
_VOTED = 1.0
"""In the place of the epsilon of a run of votes, which answers for every epsilon."""

TITLES = {
    **{name: sets.facts_of(name).title for name in sets.NAMES},
    ENSEMBLE: "Half-Moons by ten parts",
    PARTS: "Half-Moons by parts",
    STREAMS[0]: "delta 0",
    STREAMS[1]: "delta 1e-6",
}
SHEET = Sheet(
    blocks=BLOCKS,
    titles=TITLES,
    delta=1e-6,
    accountant="",
    sampling="",
)
"""All tables, what must be reached first."""


def splits_of(data: str, most: int) -> int:
    """How many splits or draws make a mean."""
    return 1 if data in _ONCE else most


def tasks_of(data: str, method: str, epsilon: float, most: int) -> list[Task]:
    """The runs behind a cell."""
    if data == ENSEMBLE:
        epsilon = _VOTED
    elif data in (PARTS, *STREAMS):
        epsilon = STREAM_EPSILON
    return [
        Task(data=data, method=method, epsilon=epsilon, split=split)
        for split in range(1, splits_of(data, most) + 1)
    ]


def tasks(blocks: Iterable[Block], most: int) -> list[Task]:
    """The runs that some blocks need, each once; what takes longest comes last."""
    wanted = [
        task
        for block in blocks
        for row in block.rows
        for column in block.columns
        for task in tasks_of(column.data, str(row.method), row.epsilon, most)
    ]
    wanted += [replace(task, method="mixture") for task in wanted if task.data == ENSEMBLE]
    slow = (sets.NETWORK, sets.CARDS)
    return sorted(
        dict.fromkeys(wanted),
        key=lambda task: task.data in slow and not task.method.startswith("mixture"),
    )


keys = SHEET.keys


def records(find: Find, most: int, only: Collection[Key] | None = None) -> list[Record]:
    """A record for every cell of which a run is finished, and those that others have measured.

    Where keys are given: for our cells of these keys.
    """
    made = [_record(cell, find, most) for cell in SHEET.cells(only)]
    found = [record for record in made if record is not None]
    return found if only is not None else [*found, *elsewhere.records()]


def _record(cell: Cell, find: Find, most: int) -> Record | None:
    _, row, column = cell
    wanted = tasks_of(column.data, str(row.method), row.epsilon, most)
    pairs = [(task, run) for task in wanted if (run := find(task)) is not None]
    beside: list[Run] = []
    if column.what is LEAD:
        others = [(task, find(replace(task, method="mixture"))) for task, _ in pairs]
        beside = [run for _, run in others if run is not None]
        pairs = [p for p, (_, other) in zip(pairs, others, strict=True) if other is not None]
    runs = [run for _, run in pairs]
    values = [value for run in runs if (value := row.value(column, run.result)) is not None]
    if not values:
        return None
    must = row.must.get(column)
    record = SHEET.measured(cell, values, runs, beside=beside, must=must)
    if column.what is MISSED:
        asked = runs[0].result[row.part]["asked"]
        record = replace(record, ours=abs(statistics.fmean(values) / asked - 1), spread=None)
    if column.what is LEAD:
        less = [v for run in beside if (v := row.value(column, run.result)) is not None]
        leads = [a - b for a, b in zip(values, less, strict=True)]
        record = replace(record, ours=statistics.fmean(leads), spread=spread(leads))
    return _priced(record, column.data, row, runs)


def _priced(record: Record, data: str, row: Row, runs: list[Run]) -> Record:
    """With the epsilon and delta that hold for the number: of a run of votes, those of the row."""
    if data == ENSEMBLE:
        return replace(record, epsilon=row.epsilon, delta=0.0, accountant="sum")
    if data == PARTS:
        return replace(record, epsilon=streams.TOTAL[0], delta=streams.TOTAL[1])
    if row.epsilon == float("inf"):
        return replace(record, delta=None)
    delta = float(runs[0].result["guarantee"]["delta"])
    if row.part.startswith("private"):
        spent = max(_with_threshold(run, delta) for run in runs)
        return replace(record, epsilon=spent, delta=delta, note="model and threshold together")
    return replace(record, delta=delta)


def _with_threshold(run: Run, delta: float) -> float:
    """What a model and a private threshold cost together."""
    ledger = Ledger.from_json(run.result["ledger"])
    ledger = ledger.spend(ExponentialMechanism(fits.PRIVATE_EPSILON), purpose="threshold")
    return ledger.guarantee(delta=delta).epsilon
