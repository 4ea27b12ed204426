"""One run: all seeds of a method on a data set for one budget, or one test of a sampler."""

import math
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from reproductions.expm_nf import audit, exact, fits, methods, timing

EXACT, AUDIT, TIME = "two-parameters", "audit", "time"
"""In the place of a data set; `time` with that of the fits behind it: time/lr-mortality."""


@dataclass(frozen=True, kw_only=True)
class Task:
    """What to run. Seeds are 1, 2, ...; what is drawn from the operating system they do not reach."""

    data: str
    method: str
    epsilon: float
    seeds: int = 1

    @property
    def name(self) -> str:
        """The start of the file name of the run."""
        words = f"{self.data}-{self.method}-{self.epsilon:g}-{self.seeds}"
        return words.replace("/", "-").replace(":", "-")

    @property
    def settings(self) -> dict[str, Any]:
        """Everything that decides the result beside the code, as plain JSON."""
        budget = "inf" if self.epsilon == math.inf else self.epsilon
        named = {"data": self.data, "method": self.method, "seeds": self.seeds}
        return {**named, "epsilon": budget}

    def __str__(self) -> str:
        return f"{self.data}, {self.method}, epsilon {self.epsilon:g}, {self.seeds} seeds"


@dataclass(frozen=True)
class Finished:
    """The result of a task: numbers as plain JSON, and arrays for figures."""

    result: dict[str, Any]
    arrays: dict[str, np.ndarray]
    seconds: float


def perform(task: Task) -> Finished:
    """Do it. Seconds are those of one fit, with what is looked at beside."""
    started, arrays = time.perf_counter(), {}
    where, _, data = task.data.partition("/")
    if where == EXACT:
        result = exact.perform(task.method, epsilon=task.epsilon)
    elif where == AUDIT:
        result = audit.perform(task.method, epsilon=task.epsilon)
    elif where == TIME:
        result = timing.perform(data, task.method, epsilon=task.epsilon)
    elif task.method.startswith("flow"):
        result, arrays = fits.flow(task.data, task.method, epsilon=task.epsilon, seeds=task.seeds)
    elif task.method in methods.PRIVATE:
        result = fits.private(task.data, task.method, epsilon=task.epsilon, seeds=task.seeds)
    else:
        result = fits.plain(task.data, task.method, seeds=task.seeds)
    return Finished(result, arrays, (time.perf_counter() - started) / task.seeds)
