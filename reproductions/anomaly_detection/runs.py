"""One run: a detector on a split of a data set, or votes of an ensemble on a draw of a generator."""

import math
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from reproductions.anomaly_detection import ensembles, fits, references, sets, streams

ENSEMBLE, PARTS = "ensemble", "parts"
STREAMS = tuple(f"stream-{kind}" for kind in streams.BUDGETS)
"""In the place of a data set."""
REFERENCE = "reference"
"""In the place of a method: a flow without privacy."""


@dataclass(frozen=True, kw_only=True)
class Task:
    """What to run. Seeds follow from the split; noise and batches of fits they do not reach."""

    data: str
    method: str
    epsilon: float
    split: int

    @property
    def name(self) -> str:
        """The start of the file name of the run."""
        return f"{self.data}-{self.method}-{self.epsilon:g}-{self.split}"

    @property
    def settings(self) -> dict[str, Any]:
        """Everything that decides the result beside the code, as plain JSON."""
        budget = "inf" if self.epsilon == math.inf else self.epsilon
        named = {"data": self.data, "method": self.method, "split": self.split}
        return {**named, "epsilon": budget}

    def __str__(self) -> str:
        return f"{self.data}, {self.method}, epsilon {self.epsilon:g}, split {self.split}"


@dataclass(frozen=True)
class Finished:
    """The result of a task: numbers as plain JSON, and arrays for figures."""

    result: dict[str, Any]
    arrays: dict[str, np.ndarray]
    seconds: float


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
