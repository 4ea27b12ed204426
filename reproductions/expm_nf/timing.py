"""How long training takes: every number is the time of a call of `fit`, which trains.

The paper's tables of timings are of statements that name a function and do not call it. Here a fit is
done once, so that programs are compiled, and then timed with another seed.
"""

import time
from typing import Any

from reproductions.expm_nf import methods, sets


def perform(data: str, method: str, *, epsilon: float, shift: int = 0) -> dict[str, Any]:
    """Seconds of the first fit, compilation and calibration included, and of a second one.

    `shift` is added to the seeds of both.
    """
    problem = sets.load(data)

    def once(seed: int) -> tuple[float, Any]:
        if method in methods.PRIVATE:
            estimator = methods.estimator(method, problem, epsilon=epsilon, seed=seed)
        else:
            estimator = methods.plain(method, problem, seed=seed)[-1]
        started = time.perf_counter()
        model = methods.fit(estimator, problem.train)
        return time.perf_counter() - started, model

    first, _ = once(1 + shift)
    second, model = once(2 + shift)
    return {
        "first": first,
        "second": second,
        "aucs": [second],
        "seconds_a_fit": second,
        "guarantee": model.guarantee.to_json(),
        "ledger": model.ledger.to_json(),
    }
