"""Runs of the tables of AUC: classifiers fitted to training records, and judged by test records."""

import time
from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int
from scipy.stats import rankdata

from reproductions.expm_nf import methods, sets
from veilflow.engine import Secret
from veilflow.privacy.guarantees import Sensitive

DRAWS = 1_000
"""From each flow, for the spread of AUC. None but the first would be released."""
_OF_SERIES = 100
"""The same of GRU-D, each draw of which goes through every hour of every stay."""
_TOGETHER = 20


def auc(labels: Any, scores: Any) -> float:
    """The area under the ROC curve, a half where scores are all the same."""
    return float(aucs_of(labels, np.asarray(scores)[None])[0])


def aucs_of(
    labels: Int[np.ndarray, " records"], scores: Float[np.ndarray, "draws records"]
) -> Float[np.ndarray, " draws"]:
    """The same of many scores of the same records, by their ranks: the mean of those of class 1."""
    positive = np.asarray(labels) == 1
    ranks = rankdata(np.nan_to_num(scores), axis=1)
    num, others = int(positive.sum()), int((~positive).sum())
    return (ranks[:, positive].sum(axis=1) - num * (num + 1) / 2) / (num * others)


def private(data: str, method: str, *, epsilon: float, seeds: Sequence[int]) -> dict[str, Any]:
    """Fits of one method at one epsilon, each with another seed."""
    problem, aucs, model = sets.load(data), [], None
    started = time.perf_counter()
    for seed in seeds:
        estimator = methods.estimator(method, problem, epsilon=epsilon, seed=seed)
        model = methods.fit(estimator, problem.train)
        aucs.append(auc(problem.test[1], model.predict_proba(problem.test[0])[:, 1]))
    result = _result(aucs, model, (time.perf_counter() - started) / len(seeds))
    if method.startswith("dp-sgd"):
        planned = methods.estimator(method, problem, epsilon=epsilon, seed=seeds[0]).plan()
        result["noise"] = planned.noise_multiplier
    return result


def plain(data: str, method: str, *, seeds: Sequence[int]) -> dict[str, Any]:
    """Fits without privacy; of several settings the best by the records for choices."""
    problem, aucs, model = sets.load(data), [], None
    started = time.perf_counter()
    for seed in seeds:
        found = [
            methods.fit(each, problem.train) for each in methods.plain(method, problem, seed=seed)
        ]
        model = found[0]
        if problem.dev is not None and len(found) > 1:
            rows, labels = problem.dev
            model = max(found, key=lambda m: auc(labels, m.predict_proba(rows)[:, 1]))
        aucs.append(auc(problem.test[1], model.predict_proba(problem.test[0])[:, 1]))
    return _result(aucs, model, (time.perf_counter() - started) / len(seeds))


def flow(
    data: str, method: str, *, epsilon: float, seeds: Sequence[int]
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The same for a flow, of which more is looked at than the one draw that would be released.

    Returns:
        The result, and the AUC of every draw of every flow.
    """
    problem, spread = sets.load(data), []
    is_series = isinstance(problem.train[0], tuple)
    num = min(DRAWS, _OF_SERIES) if is_series else DRAWS
    started = time.perf_counter()
    ledger = None
    for seed in seeds:
        estimator = methods.estimator(method, problem, epsilon=epsilon, seed=seed)
        ledger = estimator.plan(problem.network.num_features).ledger
        spread.append(flow_draws(estimator, problem, epsilon=epsilon, seed=seed, num=num))
    assert ledger is not None
    aucs = [float(each[0]) for each in spread]
    result = {
        "auc": float(np.median(spread)),
        "aucs": aucs,
        "lowest": float(np.quantile(spread, 0.05)),
        "highest": float(np.quantile(spread, 0.95)),
        "seconds_a_fit": (time.perf_counter() - started) / len(seeds),
        "guarantee": ledger.guarantee(delta=0).to_json(),
        "ledger": ledger.to_json(),
    }
    return result, {"draws": np.array(spread)}


def flow_draws(
    estimator: Any, problem: sets.Problem, *, epsilon: float, seed: int, num: int
) -> Float[np.ndarray, " num"]:
    """AUC on the test records of draws from one flow."""
    train, test = (sets.scaled(part[0], problem.bounds) for part in (problem.train, problem.test))
    records, secret = Sensitive((train, problem.train[1])), Secret.from_seed(seed)
    trained = estimator.sampler.fit(methods.target(problem, epsilon), records, secret=secret)
    keys = jax.random.split(secret.key("spread"), num)
    thetas = np.nan_to_num(np.asarray(jax.vmap(trained.open().sample)(keys), np.float32))
    return aucs_of(problem.test[1], _scores(problem.network, thetas, test))


def _scores(network: Any, thetas: Float[np.ndarray, "num dim"], rows: Any) -> np.ndarray:
    """What each parameter vector says of each record."""
    rows = jax.tree.map(jnp.asarray, rows)
    parts = [thetas[i : i + _TOGETHER] for i in range(0, len(thetas), _TOGETHER)]
    return np.concatenate([np.asarray(_all_scores(network, jnp.asarray(p), rows)) for p in parts])


@partial(jax.jit, static_argnums=0)
def _all_scores(network: Any, thetas: Any, rows: Any) -> Any:
    return jax.vmap(jax.vmap(network.outputs, (None, 0)), (0, None))(thetas, rows)


def _result(aucs: list[float], model: Any, seconds: float) -> dict[str, Any]:
    return {
        "auc": float(np.median(aucs)),
        "aucs": aucs,
        "seconds_a_fit": seconds,
        "guarantee": model.guarantee.to_json(),
        "ledger": model.ledger.to_json(),
    }
