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
SHAPE = vf.nsf(blocks=1, hidden=(16,), num_bins=6, radial=True)
FLOW: dict[str, dict[str, Any]] = {
    "as planned": {},
    "no rehearsal": {"rehearse": False},
    "mixture alone": {"training": vf.Training(steps=0)},
    "mixture alone, no rehearsal": {"training": vf.Training(steps=0), "rehearse": False},
    "without the radial map": {"flow": replace(SHAPE, radial=False)},
    "larger shape": {"flow": replace(SHAPE, blocks=2, hidden=(32,))},
    "clip norm 1": {"training": vf.Training(clip_norm=1.0, learning_rate=0.1)},
    "Adam": {"training": vf.Training(optimizer="adam", learning_rate=3e-3, weight_decay=0.1)},
    "whitening first": {"start": "whitening"},
    "half as many normals": {"num_components": 22},
    "twice as many normals": {"num_components": 88},
}
FEW = {name: choice for name, choice in FLOW.items() if "alone" in name or "rehears" in name}
FEW = {"as planned": {}, **FEW}
COLUMNS = {**FEW, "no marginals": {"start": "whitening"}}
PLANE: dict[str, dict[str, Any]] = {
    "as planned": {},
    "normal base": {"base": "normal"},
    "normal base, clip norm 1": {"base": "normal", "training": vf.Training(clip_norm=1.0)},
    "normal base, maf": {"base": "normal", "flow": vf.maf()},
}
CASES: list[tuple[str, int, float, dict[str, dict[str, Any]]]] = [
    ("fingerprints", 24_060, 1.0, FLOW),
    ("skewed", 24_060, 1.0, FLOW),
    ("sheets", 24_060, 1.0, FLOW),
    ("clusters", 24_060, 1.0, FEW),
    ("warped", 24_060, 1.0, FEW),
    ("bent", 24_060, 1.0, FEW),
    ("fingerprints", 24_060, 4.0, FEW),
    ("skewed", 24_060, 4.0, FEW),
    ("fingerprints", 24_060, 0.5, FEW),
    ("skewed", 24_060, 0.5, FEW),
    ("clusters", 3_000, 1.0, FEW),
    ("meter", 90_000, 1.25, COLUMNS),
    ("cities", 90_000, 1.5, {"as planned": {}}),
    ("spirals", 27_000, 1.5, PLANE),
    ("rings", 27_000, 1.5, PLANE),
    ("petals", 27_000, 1.5, PLANE),
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
