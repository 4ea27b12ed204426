"""How long training takes: every number is the time of a call of `fit`, which trains.

The paper's tables of timings are of statements that name a function and do not call it. Here a fit is
done once, so that programs are compiled, and then timed with another seed.
"""

import time
from typing import Any

from reproductions.expm_nf import baselines, methods, sets


def _price(estimator: Any, problem: sets.Problem) -> Any:
    """What a fit will cost, with the noise or the epsilon of a draw that this needs."""
    if isinstance(estimator, baselines.Baseline):
        return estimator.ledger()
    return estimator.plan(problem.network.num_features).ledger


def perform(data: str, method: str, *, epsilon: float, shift: int = 0) -> dict[str, Any]:
    """Seconds of the first fit, compilation and calibration included, and of a second one.

    Accounting is the part of the first in which noise is found and the ledger is added up; the paper
    calls it "computing epsilon". In the second it is remembered.

    `shift` is added to the seeds of both.
    """
    problem = sets.load(data)

    def once(seed: int) -> tuple[float, float, Any]:
        if method in methods.PRIVATE:
            estimator = methods.estimator(method, problem, epsilon=epsilon, seed=seed)
        else:
            estimator = methods.plain(method, problem, seed=seed)[-1]
        started = time.perf_counter()
        _price(estimator, problem)
        priced = time.perf_counter()
        model = methods.fit(estimator, problem.train)
        return priced - started, time.perf_counter() - started, model

    accounting, first, _ = once(1 + shift)
    _, second, model = once(2 + shift)
    return {
        "accounting": accounting,
        "first": first,
        "second": second,
        "aucs": [second],
        "seconds_a_fit": second,
        "guarantee": model.guarantee.to_json(),
        "ledger": model.ledger.to_json(),
    }
