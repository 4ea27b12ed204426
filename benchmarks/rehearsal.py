"""The planner's rule beside a choice by rehearsal, and beside the best choice in hindsight.

Settings are rehearsed on twins: rows with random structure, made from a released start alone
(`vf.rehearse`). They vary the learning rate and the clip norm of the rule, the size of the network, and
whether there is one. Figures are mean log-likelihoods of 2,000 fresh rows of generated sets; "against"
names the settings that were chosen. The best in hindsight was picked by these very rows. All trainings
are those of a rehearsal.
"""

import warnings
from dataclasses import replace
from typing import Any

import numpy as np

import veilflow as vf
from benchmarks.generated import draw
from benchmarks.records import Record, record

SETS = ("clusters", "warped", "skewed", "fingerprints", "sheets", "bent")
EPSILONS = (0.5, 1.0, 4.0)
ROWS, TEST, COLUMNS = 24_060, 2000, 10
RULE = "the rule"
FACTORS = (1 / 3, 1.0, 3.0)


def settings(epsilon: float, size: int, domain: dict) -> dict[str, vf.DensityFlow]:
    """The rule first, then what else is tried, by name."""
    rule = vf.DensityFlow(
        budget=vf.Budget(epsilon=epsilon, delta=0.3 / size), num_records=size, seed=3, **domain
    )
    plan = rule.plan(COLUMNS)
    assert plan.flow is not None
    training: Any = plan.releases[-1]
    planned = training.settings
    found = {RULE: rule}
    for rate in FACTORS:
        for clip in FACTORS:
            training = vf.Training(
                learning_rate=rate * planned.learning_rate, clip_norm=clip * planned.clip_norm
            )
            if (rate, clip) != (1.0, 1.0):
                found[f"rate x {rate:.2g}, clip x {clip:.2g}"] = replace(rule, training=training)
    found["32 hidden units"] = replace(rule, flow=replace(plan.flow, hidden=(32,)))
    found["no network"] = replace(rule, training=vf.Training(steps=0))
    return found


def run(*, quick: bool = False) -> list[Record]:
    """One start, its twins and one training of all settings for each case."""
    warnings.simplefilter("ignore")  # some settings diverge: the figure says so
    cases = [(name, epsilon) for epsilon in EPSILONS for name in SETS]
    size, test = (1000, 200) if quick else (ROWS, TEST)
    found, gains = [], []
    for name, epsilon in cases[:1] if quick else cases:
        rows, domain = draw(name, size + test, seed=11)
        tried = settings(epsilon, size, domain)
        if quick:
            tried = {n: tried[n] for n in (RULE, "no network")}
        # a start costs nothing to look at; all of its budget is that of the mixture here
        start = tried["no network"].fit(rows[:size], progress=False)
        chosen = vf.rehearse(tried, on=start).best
        true = vf.rehearse(tried, on=rows, held_out=test)
        scores = {n: true.expected(n) for n in tried}
        gains.append([scores[chosen] - scores[RULE], scores[true.best] - scores[RULE]])
        case = f"{name}, epsilon {epsilon:g}"
        for what, choice in (("rule", RULE), ("rehearsed", chosen), ("hindsight", true.best)):
            peer = None if what == "rule" else choice
            value = scores[choice]
            found.append(record(f"{case}: {what}", value, "nats", better="higher", peer=peer))
    mean = np.mean(gains, axis=0)
    for what, gain in zip(("rehearsed", "hindsight"), mean, strict=True):
        name = f"mean gain over the rule: {what}"
        found.append(record(name, float(gain), "nats", better="higher"))
    return found
