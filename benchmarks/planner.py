"""The planner's choices beside their alternatives, on generated data only.

Mean log-likelihood of 9,000 fresh rows, one fit each. The rules in `models/density_plan.py` were fitted
on these sets; a row without "as planned" changes one setting and leaves the rest to the planner.
"""

import warnings
from dataclasses import replace
from typing import Any

import veilflow as vf
from benchmarks.generated import draw
from benchmarks.records import Record, record

TEST = 9000
FLOW: dict[str, dict[str, Any]] = {
    "as planned": {},
    "learning rate 0.002": {"training": vf.Training(learning_rate=2e-3)},
    "learning rate 0.02": {"training": vf.Training(learning_rate=2e-2)},
    "no weight decay": {"training": vf.Training(weight_decay=0.0)},
    "no start": {"start": "none"},
    "nsf": {"flow": vf.nsf()},
    "base normal": {"base": "normal"},
}
COLUMNS = {
    **{name: FLOW[name] for name in ("as planned", "no weight decay", "no start", "nsf")},
    "whitening alone": {"start": "whitening"},
}
PLANE: dict[str, dict[str, Any]] = {
    "as planned": {},
    "1,000 private steps on top": {
        "start": "grid",
        "training": vf.Training(steps=1000, learning_rate=1e-3),
    },
    "base normal": {"base": "normal"},
}
FEW = {name: FLOW[name] for name in ("as planned", "learning rate 0.002", "no start")}
CASES: list[tuple[str, int, float, dict[str, dict[str, Any]]]] = [
    ("clusters", 24_060, 0.5, FLOW),
    ("clusters", 24_060, 2.0, FEW),
    ("warped", 24_060, 0.5, FEW),
    ("warped", 24_060, 2.0, FLOW),
    ("skewed", 24_060, 1.0, FEW),
    ("clusters", 3_000, 1.0, FEW),
    ("meter", 90_000, 1.25, COLUMNS),
    ("moons", 27_000, 1.5, PLANE),
    ("cities", 90_000, 1.5, PLANE),
]


def run(*, quick: bool = False) -> list[Record]:
    """One fit for each case and choice."""
    found = []
    for name, size, epsilon, choices in CASES[-2:-1] if quick else CASES:
        size = 1000 if quick else size
        rows, domain = draw(name, size + TEST, seed=7)
        for choice, settings in choices.items():
            if quick and choice != "as planned":
                training = settings.get("training", vf.Training())
                settings = {**settings, "training": replace(training, steps=2)}
            fitted = vf.DensityFlow(
                budget=vf.Budget(epsilon=epsilon, delta=0.3 / size),
                num_records=size,
                **domain,
                **settings,
            )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # an alternative may diverge: the figure says so
                score = fitted.fit(rows[:size], progress=False).log_prob(rows[size:]).mean()
            setting = f"{name}, {size:,} rows, epsilon {epsilon:g}"
            found.append(record(f"{setting}: {choice}", float(score), "nats", better="higher"))
    return found
