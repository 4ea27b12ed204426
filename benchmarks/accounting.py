"""Seconds to account and to calibrate, with nothing cached.

Each figure comes from a fresh process, imports apart. The peer is a plain loop over the PLD accountant
of `dp_accounting`, which composes one event after the other.
"""

import json
import sys
from collections.abc import Callable
from statistics import median
from typing import Any

from benchmarks.records import Record, record
from benchmarks.timing import clock, in_fresh_process
from veilflow.privacy import calibration
from veilflow.privacy.budget import Budget
from veilflow.privacy.events import Event, Gaussian, PoissonSampled, Repeated
from veilflow.privacy.ledger import Ledger

RATE, STEPS, NOISE, DELTA = 0.01, 3000, 1.0, 1e-5
EVENTS, MUST = 100, 10.0
REPEATS = 3


def run(*, quick: bool = False) -> list[Record]:
    """Measure."""
    events = 4 if quick else EVENTS

    def seconds(task: str, repeats: int = 1 if quick else REPEATS) -> tuple[float, float]:
        answers = [
            in_fresh_process("benchmarks.accounting", task, str(events)) for _ in range(repeats)
        ]
        return median(a["seconds"] for a in answers), answers[0]["answer"]

    training = f"rate {RATE}, {STEPS} steps"
    one, _ = seconds("epsilon")
    tight, _ = seconds("calibrate-1")
    loose, _ = seconds("calibrate-10")
    ours, our_epsilon = seconds("events")
    naive, their_epsilon = seconds("naive", repeats=1)
    peer = "dp_accounting, PLD in a loop"
    return [
        record(f"one epsilon, {training}", one, "s"),
        record(f"noise calibrated to epsilon 1, {training}", tight, "s"),
        record(f"noise calibrated to epsilon 10, {training}", loose, "s"),
        record(f"epsilon of {events} different events", ours, "s", must=MUST),
        record(f"epsilon of {events} different events: {peer}", naive, "s"),
        record(
            f"times faster over {events} different events",
            naive / ours,
            "ratio",
            better="higher",
            peer=peer,
        ),
        record(
            "epsilon of those events over that of the loop",
            our_epsilon / their_epsilon,
            "ratio",
            peer=peer,
        ),
    ]


def different_events(count: int) -> list[tuple[float, float, int]]:
    """Rates, noise multipliers and step counts, no two alike."""
    return [(0.005 + 1e-4 * i, 1.0 + 0.01 * i, 10 + i) for i in range(count)]


def _training(rate: float, noise: float, steps: int) -> Event:
    return Repeated(steps, PoissonSampled(rate, Gaussian(noise)))


def _epsilon(events: list[Event]) -> float:
    ledger = Ledger()
    for event in events:
        ledger = ledger.spend(event, purpose="training")
    return ledger.epsilon(delta=DELTA)


def _naive(count: int) -> float:
    import dp_accounting as dp

    accountant = dp.pld.PLDAccountant()
    for rate, noise, steps in different_events(count):
        one = dp.PoissonSampledDpEvent(rate, dp.GaussianDpEvent(noise))
        accountant.compose(one, steps)
    return accountant.get_epsilon(DELTA)


def _calibrated(epsilon: float) -> float:
    budget = Budget(epsilon, DELTA)
    return calibration.noise_multiplier(budget, sampling_rate=RATE, steps=STEPS)


def measure(task: str, count: int) -> dict[str, Any]:
    """The seconds one task takes, and its answer."""
    tasks: dict[str, Callable[[], float]] = {
        "epsilon": lambda: _epsilon([_training(RATE, NOISE, STEPS)]),
        "calibrate-1": lambda: _calibrated(1.0),
        "calibrate-10": lambda: _calibrated(10.0),
        "events": lambda: _epsilon([_training(*event) for event in different_events(count)]),
        "naive": lambda: _naive(count),
    }
    import dp_accounting  # noqa: F401  (half a dozen other packages: imports are not accounting)

    # one small sum beforehand, so that imports inside functions are over
    _epsilon([_training(0.5, 5.0, 1)])
    answers: list[float] = []
    seconds = clock(lambda: answers.append(tasks[task]()))
    return {"seconds": seconds, "answer": answers[0]}


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], int(sys.argv[2]))))
