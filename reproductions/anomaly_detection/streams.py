"""How many queries a budget answers: each paid for, or only those that turn out odd.

Answers of Algorithm 2 have exact probabilities. Those of sparse vector depend on each other: streams
are drawn many times over with noise of the same scales, and one goes through the library itself.
"""

import dataclasses
from typing import Any

import numpy as np
from jaxtyping import Bool, Int

import veilflow as vf
from reproductions.anomaly_detection import ensembles

PARTS, RECORDS = 1000, 400_000
AWAY = 10.0
"""Anomalies are clear ones here: what is measured is the noise, not where a border runs."""
QUERIES, ANOMALIES = 10_000, 100
"""Rows of the stream, and odd ones among them."""
SPARE = 5
"""Anomalies that are paid for beyond those there are, for false alarms."""
QUORUM = 0.55
LENGTHS = (100, 200, 300, 500, 1000, 2000, 5000, QUERIES)
"""Numbers of queries at which the curves are drawn; one in a hundred is odd."""
BUDGETS = {"pure": (4.0, 0.0), "approximate": (4.0, 1e-6)}
TOTAL, KS, COUNTS = (4.0, 1e-6), (5, 10, 20, 50, 100, 200), (10, 100, 1000, 10_000)
"""The trade-off: a budget, numbers of parts and numbers of queries."""
_TUNED = 0.2
"""The epsilon of an answer for which the threshold of a stream is tuned."""
_REPEATS = 100

Odd = Bool[np.ndarray, " rows"]
Votes = Int[np.ndarray, " rows"]


def perform(kind: str, *, split: int) -> dict[str, Any]:
    """Streams at one of the budgets.

    Args:
        kind: `pure` or `approximate`: with or without a delta.
        split: From 1; decides the draws.

    Returns:
        Accuracies by number of queries, and how many queries of plain composition are as accurate as
        a whole stream by sparse vector.
    """
    epsilon, delta = BUDGETS[kind]
    budget = vf.Budget(epsilon, delta)
    ensemble = ensembles.fit("mixture", parts=PARTS, records=RECORDS, seed=split)
    # a tenth of the parts and of the records says where the level lies; no vote of these records does
    level = ensembles.threshold(
        "mixture",
        records=RECORDS // 10,
        plan=ensembles.answers(vf.Budget(_TUNED, 0.0), parts=PARTS // 10),
        seed=600 + split,
        away=AWAY,
        anomalies=ANOMALIES / QUERIES,
    )
    rows, odd = stream(QUERIES, seed=split)
    normal = ensembles.votes(ensemble, rows, level)
    found: dict[str, Any] = {"threshold": level, "unanimous": float(np.mean(_agree(normal)))}
    found["right_votes"] = float(np.mean((normal > PARTS / 2) == ~odd))
    rng = np.random.default_rng(split)
    for length in LENGTHS:
        plan = search(budget, kind, length * ANOMALIES // QUERIES + SPARE).answers
        found[f"{length} queries"] = {
            "plain": accuracy(_answers(budget, length), normal, odd),
            "sparse": simulated(plan, normal, odd, length=length, rng=rng),
        }
    plan = search(budget, kind, ANOMALIES + SPARE, threshold=level)
    said = dataclasses.replace(ensemble, plan=plan).query(rows)
    found["sparse"] = found[f"{QUERIES} queries"]["sparse"]
    found["library"] = float(np.sum(said == odd[: len(said)]) / QUERIES)
    found["equal"] = as_accurate(budget, normal, odd, found["sparse"])
    majority = search(budget, kind, ANOMALIES + SPARE, quorum=0.5).answers
    half = simulated(majority, normal, odd, length=QUERIES, rng=rng)
    found["equal_majority"] = as_accurate(budget, normal, odd, half)
    return {**found, "guarantee": plan.guarantee.to_json(), "ledger": plan.ledger.to_json()}


def trade_off(*, split: int) -> dict[str, Any]:
    """Accuracy by the number of parts and of queries, each of which is paid for."""
    budget = vf.Budget(*TOTAL)
    found: dict[str, Any] = {}
    for parts in KS:
        tuned = ensembles.answers(budget, parts=parts, queries=COUNTS[1])
        records = ensembles.RECORDS
        level = ensembles.threshold("mixture", records=records, plan=tuned, seed=700 + split)
        ensemble = ensembles.fit("mixture", parts=parts, records=records, seed=split)
        rows = ensembles.asked(5_000, away=ensembles.AWAY, seed=300 + split)
        both = [ensembles.votes(ensemble, one, level) for one in (rows.ordinary, rows.anomalies)]
        found[f"{parts} parts"] = {
            f"{count} queries": sum(
                ensembles.right(ensembles.answers(budget, parts=parts, queries=count), *both)
            )
            / 2
            for count in COUNTS
        }
    guarantee = ensembles.planned(budget, parts=KS[0], queries=COUNTS[0]).guarantee.to_json()
    return {**found, "guarantee": {**guarantee, "epsilon": budget.epsilon}}


def stream(num_rows: int, *, seed: int) -> tuple[np.ndarray, Odd]:
    """Rows in random order, one in a hundred an anomaly, and which those are."""
    strange = num_rows * ANOMALIES // QUERIES
    rows = ensembles.asked(num_rows - strange, away=AWAY, seed=400 + seed, num_anomalies=strange)
    odd = np.arange(num_rows) >= num_rows - strange
    order = np.random.default_rng(seed).permutation(num_rows)
    return np.concatenate([rows.ordinary, rows.anomalies])[order], odd[order]


def search(
    budget: vf.Budget,
    kind: str,
    anomalies: int,
    *,
    quorum: float = QUORUM,
    threshold: float | str = "uniform",
) -> Any:
    """Sparse vector: one noisy threshold for all where epsilons add up, else one for each."""
    estimator = vf.EnsembleDetector(
        budget=budget,
        bounds=ensembles.BOUNDS,
        parts=PARTS,
        answers=vf.Answering(
            method="sparse_vector",
            max_anomalies=anomalies,
            quorum=quorum,
            renew=kind != "pure",
        ),
        threshold=threshold,
    )
    return estimator.plan()


def accuracy(plan: Any, normal: Votes, odd: Odd) -> float:
    """The mean probability that an answer of Algorithm 2 is right, by the votes for "normal"."""
    chance = plan.response_probability(normal)
    return float(np.where(odd, 1 - chance, chance).mean())


def simulated(
    answers: Any,
    normal: Votes,
    odd: Odd,
    *,
    length: int,
    rng: np.random.Generator,
    repeats: int = _REPEATS,
) -> float:
    """The mean share of right answers by sparse vector; a row without an answer is not right.

    Args:
        answers: By sparse vector.
        normal: Votes for each row of the whole stream.
        odd: Which of them are anomalies.
        length: How many of its rows are asked about; other ones each time.
        rng: Generator of rows and noise.
        repeats: How often.
    """
    against, shares = answers.parts - np.asarray(normal, float), []
    for _ in range(repeats):
        kept = _few(odd, length, rng)
        shares.append(_one(answers, against[kept], odd[kept], rng))
    return float(np.mean(shares))


def _one(answers: Any, against: np.ndarray, odd: Odd, rng: np.random.Generator) -> float:
    """One stream: Laplace noise of the library's scales, in place of its discrete twin."""
    share = 1 / (1 + (2 * answers.anomalies) ** (2 / 3))
    noisy = against + rng.laplace(
        scale=2 * answers.anomalies / (answers.epsilon * (1 - share)), size=len(against)
    )
    said, place = np.zeros(len(odd), bool), 0
    for _ in range(answers.limit):
        bar = answers.quorum * answers.parts + rng.laplace(scale=1 / (answers.epsilon * share))
        above = place + np.flatnonzero(noisy[place:] >= bar)[: answers.anomalies]
        said[above] = True
        if len(above) < answers.anomalies:
            return float(np.mean(said == odd))
        place = int(above[-1]) + 1
    return float(np.sum(said[:place] == odd[:place]) / len(odd))


def as_accurate(budget: vf.Budget, normal: Votes, odd: Odd, wanted: float) -> int:
    """Up to how many queries, each paid for, are as accurate; by bisection."""
    low, high = 1, QUERIES
    if accuracy(_answers(budget, high), normal, odd) >= wanted:
        return high
    while high - low > 1:
        middle = (low + high) // 2
        if accuracy(_answers(budget, middle), normal, odd) >= wanted:
            low = middle
        else:
            high = middle
    return low


def _answers(budget: vf.Budget, limit: int) -> Any:
    return ensembles.answers(budget, parts=PARTS, queries=limit)


def _agree(normal: Votes) -> Odd:
    return (normal == 0) | (normal == PARTS)


def _few(odd: Odd, length: int, rng: np.random.Generator) -> np.ndarray:
    """Some rows of the stream in its order, with its share of anomalies."""
    strange = length * ANOMALIES // QUERIES
    chosen = [
        rng.choice(np.flatnonzero(odd), strange, replace=False),
        rng.choice(np.flatnonzero(~odd), length - strange, replace=False),
    ]
    return np.sort(np.concatenate(chosen))
