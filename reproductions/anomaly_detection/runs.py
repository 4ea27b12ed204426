"""One run: a detector on a split of a data set, or votes of an ensemble on a draw of a generator."""

import time

from reproductions.anomaly_detection import ensembles, fits, references, sets, streams
from reproductions.tasks import Finished
from reproductions.tasks import OfSplit as Task

ENSEMBLE, PARTS = "ensemble", "parts"
STREAMS = tuple(f"stream-{kind}" for kind in streams.BUDGETS)
"""In the place of a data set."""
REFERENCE = "reference"
"""In the place of a method: a flow without privacy."""


def perform(task: Task) -> Finished:
    """Do it. Seconds are of all of it: reading, fitting and measuring."""
    started, arrays = time.perf_counter(), {}
    if task.data == ENSEMBLE:
        result = ensembles.perform(task.method, split=task.split)
    elif task.data == PARTS:
        result = streams.trade_off(split=task.split)
    elif task.data in STREAMS:
        result = streams.perform(task.data.removeprefix("stream-"), split=task.split)
    elif task.data in sets.NAMES and task.method == REFERENCE:
        result, arrays = references.perform(task.data, split=task.split)
    elif task.data in sets.NAMES:
        result, arrays = fits.perform(
            task.data, task.method, epsilon=task.epsilon, split=task.split
        )
    else:
        raise ValueError(f"there is no data set {task.data!r}.")
    return Finished(result, arrays, time.perf_counter() - started)
