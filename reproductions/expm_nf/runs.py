"""One run: all seeds of a method on a data set for one budget, or one test of a sampler."""

import time
from dataclasses import dataclass

from reproductions.expm_nf import audit, exact, fits, methods, timing
from reproductions.tasks import Budgeted, Finished

EXACT, AUDIT, TIME = "two-parameters", "audit", "time"
"""In the place of a data set; `time` with that of the fits behind it: time/lr-mortality."""


@dataclass(frozen=True, kw_only=True)
class Task(Budgeted):
    """What to run. Seeds are 1, 2, ...; what is drawn from the operating system they do not reach."""

    seeds: int = 1

    def __str__(self) -> str:
        return f"{super().__str__()}, {self.seeds} seeds"


def perform(task: Task, *, shift: int = 0) -> Finished:
    """Do it. Seconds are those of one fit, with what is looked at beside.

    Args:
        task: What to run.
        shift: Added to every seed of noise, for other draws of the same run.
    """
    started, arrays = time.perf_counter(), {}
    where, _, data = task.data.partition("/")
    seeds = range(shift + 1, shift + task.seeds + 1)
    if where == EXACT:
        result = exact.perform(task.method, epsilon=task.epsilon, shift=shift)
    elif where == AUDIT:
        result = audit.perform(task.method, epsilon=task.epsilon, shift=shift)
    elif where == TIME:
        result = timing.perform(data, task.method, epsilon=task.epsilon, shift=shift)
    elif task.method.startswith("flow"):
        result, arrays = fits.flow(task.data, task.method, epsilon=task.epsilon, seeds=seeds)
    elif task.method in methods.PRIVATE:
        result = fits.private(task.data, task.method, epsilon=task.epsilon, seeds=seeds)
    else:
        result = fits.plain(task.data, task.method, seeds=seeds)
    return Finished(result, arrays, (time.perf_counter() - started) / task.seeds)
