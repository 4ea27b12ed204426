"""Figure 8: half-moons, records in k parts, and the exact probability that an answer is right.

The paper does not say how its anomalies were made. Here they are spread evenly over the box, at least
three deviations of the noise from either half circle, where hardly a row of the generator lies. The
threshold is the one that is best on *another* draw of the generator, for each kind of model, as in the
paper, but for its looking at the rows that are judged: a generator is public.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

import veilflow as vf

PARTS = 10
EPSILONS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 4.0)
"""Epsilons of an answer."""
TUNED = 1.0
"""The epsilon at which the threshold is the best."""
RECORDS = 27_000
"""As in the tables of the paper."""
BOUNDS = ((-1.5, -1.0), (2.5, 1.5))
NOISE = 0.05
AWAY = 3.0
"""Deviations of the noise from the half circles at which anomalies begin."""
_ASKED = 5_000
_LEVELS = np.linspace(-9.0, 1.0, 41)
"""Thresholds to choose from."""

Plane = Float[np.ndarray, "rows 2"]


@dataclass(frozen=True)
class Asked:
    """Rows to ask about."""

    ordinary: Plane
    anomalies: Plane


def perform(density: str, *, split: int, parts: int = PARTS) -> dict[str, Any]:
    """Choose a threshold on one draw, then fit and ask on another.

    Args:
        density: `flow` or `mixture`.
        split: From 1; decides the draws.
        parts: How many.

    Returns:
        By epsilon, the probabilities that an answer is right, for both kinds of rows and on average.
    """
    tuned = planned(vf.Budget(TUNED, 0.0), parts=parts)
    level = threshold(density, records=RECORDS, plan=tuned.answers, seed=500 + split)
    ensemble = fit(density, parts=parts, records=RECORDS, seed=split)
    rows = asked(_ASKED, away=AWAY, seed=300 + split)
    ordinary, strange = (votes(ensemble, one, level) for one in (rows.ordinary, rows.anomalies))
    result: dict[str, Any] = {
        "threshold": level,
        "unanimous": float(np.mean(np.isin([*ordinary, *strange], (0, parts)))),
    }
    for epsilon in EPSILONS:
        at = answers(vf.Budget(epsilon, 0.0), parts=parts)
        kept, found = right(at, ordinary, strange)
        result[f"epsilon {epsilon:g}"] = {
            "correct": (kept + found) / 2,
            "kept": kept,
            "found": found,
        }
    return {
        **result,
        "guarantee": tuned.guarantee.to_json(),
        "ledger": tuned.ledger.to_json(),
    }


def planned(budget: vf.Budget, *, parts: int, queries: int = 1) -> Any:
    """What an estimator plans before it fits: Algorithm 2 for so many queries and a budget."""
    asked = vf.Answering(max_queries=queries)
    return vf.EnsembleDetector(budget=budget, answers=asked, bounds=BOUNDS, parts=parts).plan()


def answers(budget: vf.Budget, *, parts: int, queries: int = 1) -> Any:
    """How Algorithm 2 answers so many queries for a budget."""
    return planned(budget, parts=parts, queries=queries).answers


def fit(density: str, *, parts: int, records: int, seed: int) -> vf.FittedEnsemble:
    """An ensemble on a draw of the generator. Its own budget is of no matter: votes are looked at."""
    estimator = vf.EnsembleDetector(
        budget=vf.Budget(1.0, 0.0),
        bounds=BOUNDS,
        answers=vf.Answering(max_queries=1),
        parts=parts,
        flow="mixture" if density == "mixture" else None,
        seed=seed,
    )
    return estimator.fit(vf.datasets.moons(records, seed=seed), progress=False)


def threshold(
    density: str,
    *,
    records: int,
    plan: Any,
    seed: int,
    away: float = AWAY,
    anomalies: float = 0.5,
) -> float:
    """The level at which answers of a plan are right most often, on a draw of its own.

    Args:
        density: `flow` or `mixture`.
        records: Number of records in all parts together.
        plan: It says how many parts there are.
        seed: Seed of the draw.
        away: As for `asked`.
        anomalies: Their share of the rows that are asked about.
    """
    ensemble = fit(density, parts=plan.parts, records=records, seed=seed)
    rows = asked(_ASKED, away=away, seed=200 + seed)
    logs = [log_density(ensemble, one) for one in (rows.ordinary, rows.anomalies)]
    scores = []
    for level in _LEVELS:
        kept, found = right(plan, *((log > level).sum(axis=0) for log in logs))
        scores.append((1 - anomalies) * kept + anomalies * found)
    return float(_LEVELS[int(np.argmax(scores))])


def right(
    plan: Any, ordinary: Int[np.ndarray, " a"], strange: Int[np.ndarray, " b"]
) -> tuple[float, float]:
    """The mean probabilities that normal rows are called so, and that anomalies are found."""
    kept = plan.response_probability(ordinary).mean()
    return float(kept), float(1 - plan.response_probability(strange).mean())


def votes(ensemble: vf.FittedEnsemble, rows: Plane, level: float) -> Int[np.ndarray, " rows"]:
    """How many parts call each row normal. Private, but for records out of a generator."""
    return (log_density(ensemble, rows) > level).sum(axis=0)


def log_density(ensemble: vf.FittedEnsemble, rows: Plane) -> Float[np.ndarray, "parts rows"]:
    """What each part gives to each row, in units of the data."""
    domain = ensemble.domain
    return ensemble.densities.log_prob(domain.encode(rows)) - domain.log_scale(2)


def asked(num_rows: int, *, away: float, seed: int, num_anomalies: int | None = None) -> Asked:
    """Rows of the generator, and rows from anywhere else in the box.

    Args:
        num_rows: Rows to draw from the generator.
        away: Deviations of the noise between the half circles and the anomalies.
        seed: For the same rows again.
        num_anomalies: As many as rows, where not given.
    """
    rng = np.random.default_rng(seed)
    wanted = num_rows if num_anomalies is None else num_anomalies
    found = np.empty((0, 2))
    while len(found) < wanted:
        drawn = rng.uniform(*BOUNDS, size=(2 * wanted, 2))
        found = np.concatenate([found, drawn[distance(drawn) >= away * NOISE]])
    low, high = BOUNDS
    ordinary = np.clip(vf.datasets.moons(num_rows, noise=NOISE, seed=seed), low, high)
    return Asked(ordinary, found[:wanted])


def distance(points: Plane) -> Float[np.ndarray, " rows"]:
    """From the nearer of the two half circles of the generator."""
    return np.minimum(_to_arc(points), _to_arc(np.array([1.0, 0.5]) - points))


def _to_arc(points: Plane) -> Float[np.ndarray, " rows"]:
    """From the upper half of the unit circle: beside it, its nearer end is the nearest."""
    to_circle = np.abs(np.hypot(points[:, 0], points[:, 1]) - 1)
    to_end = np.hypot(np.abs(points[:, 0]) - 1, points[:, 1])
    return np.where(points[:, 1] >= 0, to_circle, to_end)
