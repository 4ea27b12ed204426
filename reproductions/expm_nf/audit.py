"""Attacks on samplers: how much more than its nominal epsilon does a draw give away, at least?

Both are on generated records and give lower bounds on epsilon that hold with 95 % confidence, each on
its own. A bound above the nominal epsilon refutes the guarantee; one below proves nothing.

- **Membership**: many draws with and without one record that fits badly. The attacker knows both data
  sets. A linear score is fitted to half of the draws, with a threshold; error rates on the other half
  are bounded by Clopper and Pearson.
- **One run** (after Steinke, Nasr, Jagielski, 2023): each of many canaries enters with probability 1/2,
  and one draw is made. The attacker guesses who was in. For an epsilon-private draw, right guesses are
  no more than a binomial with success probability e^epsilon / (1 + e^epsilon) would have.
"""

import math
import time
from typing import Any

import numpy as np
from jaxtyping import Float

import veilflow as vf
from reproductions.expm_nf import exact
from veilflow.engine import Secret
from veilflow.privacy.guarantees import Sensitive

CONFIDENCE = 0.95
MEMBERS = 60
"""Records of the first attack beside the one in question."""
TRIALS = 120
"""Draws from each of the two data sets."""
CANARIES = 120
"""Of the second attack."""
_PRIOR = 3.0


def sampler_of(method: str) -> Any:
    """The sampler under attack."""
    if method == "grid":
        return vf.expm.GridSampler(per_axis=101)
    if method == "rejection":
        return vf.expm.RejectionSampler(num_records=CANARIES)
    return exact.SAMPLERS[method]


def membership(method: str, *, epsilon: float, shift: int = 0) -> dict[str, Any]:
    """The first attack."""
    rows, labels = exact.records(MEMBERS, seed=11)
    # as unlike the others as may be: the feature at its end, with the label that it never has
    joined = np.concatenate([rows, [[1.0]]]).astype(np.float32), np.append(labels, 0)
    aim, sampler = exact.target(epsilon), sampler_of(method)
    worlds = [
        np.array(
            [
                sampler.draw(aim, Sensitive(data), secret=Secret.from_seed(shift + i)).value
                for i in range(1000 * world, 1000 * world + TRIALS)
            ]
        )
        for world, data in enumerate([(rows, labels.astype(np.int32)), joined])
    ]
    return {"lower_bound": membership_bound(*worlds)}


def membership_bound(
    without: Float[np.ndarray, "draws dim"], within: Float[np.ndarray, "draws dim"]
) -> float:
    """A lower bound on epsilon from draws of two worlds."""
    half = len(without) // 2
    fit_out, fit_in, out, inside = without[:half], within[:half], without[half:], within[half:]
    spread = np.cov(fit_out.T) + np.cov(fit_in.T)
    direction = np.linalg.solve(
        spread + 1e-12 * np.trace(spread) * np.eye(len(spread)), fit_in.mean(0) - fit_out.mean(0)
    )
    scores_out, scores_in = fit_out @ direction, fit_in @ direction
    # the threshold that looks best on the first half, by counts that are never 0
    best = max(
        np.quantile(np.concatenate([scores_out, scores_in]), np.linspace(0.02, 0.98, 49)),
        key=lambda cut: max(
            np.log((1 + (scores_in > cut).sum()) / (1 + (scores_out > cut).sum())),
            np.log((1 + (scores_out <= cut).sum()) / (1 + (scores_in <= cut).sum())),
        ),
    )
    hits, false = (inside @ direction > best).sum(), (out @ direction > best).sum()
    return ratio_bound(int(hits), int(false), len(out))


def ratio_bound(hits: int, false: int, num: int) -> float:
    """The larger log ratio of both errors, at confidence 95 % for all four rates together."""
    miss = (1 - CONFIDENCE) / 4
    bounds = []
    for top, bottom in ((hits, false), (num - false, num - hits)):
        low, high = _least(top, num, miss), _most(bottom, num, miss)
        bounds.append(math.log(low / high) if low > 0 else 0.0)
    return max(0.0, *bounds)


def one_run(method: str, *, epsilon: float, shift: int = 0) -> dict[str, Any]:
    """The second attack: canary i has a feature of its own, so that its weight is all about it."""
    present = np.random.default_rng(21).random(CANARIES) < 0.5
    rows = np.eye(CANARIES, dtype=np.float32)[present]
    labels = np.ones(len(rows), np.int32)
    aim = vf.expm.Target(
        network=vf.expm.Logistic(num_features=CANARIES),
        loss=vf.expm.BoundedLoss("l2"),
        prior=vf.GaussianPrior(_PRIOR),
        epsilon=epsilon,
    )
    sampler, secret = sampler_of(method), Secret.from_seed(22 + shift)
    theta = sampler.draw(aim, Sensitive((rows, labels)), secret=secret).value
    # present canaries pull their weights up; where to cut is the attacker's guess
    weights = theta[:CANARIES]
    guesses = weights > np.median(weights)
    right = int((guesses == present).sum())
    return {
        "right": right,
        "guesses": CANARIES,
        "lower_bound": guesses_bound(right, CANARIES),
    }


def guesses_bound(right: int, guesses: int) -> float:
    """The largest epsilon at which so many right guesses would be a chance of 5 % at most."""
    from scipy.stats import binom

    def chance(epsilon: float) -> float:
        return float(binom.sf(right - 1, guesses, 1 / (1 + math.exp(-epsilon))))

    low, high = 0.0, 30.0
    if chance(low) > 1 - CONFIDENCE:
        return 0.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if chance(middle) <= 1 - CONFIDENCE else (low, middle)
    return low


def perform(method: str, *, epsilon: float, shift: int = 0) -> dict[str, Any]:
    """One attack on one sampler, both in the method's name; `shift` is added to the seeds of draws."""
    kind, _, sampler = method.partition(":")
    started = time.perf_counter()
    attack = {"membership": membership, "one-run": one_run}[kind]
    found = attack(sampler, epsilon=epsilon, shift=shift)
    ledger = vf.Ledger().spend(sampler_of(sampler).event(epsilon), purpose="model")
    assumption = sampler_of(sampler).assumption
    if assumption is not None:
        ledger = ledger.assuming(assumption)
    return found | {
        "excess": found["lower_bound"] - epsilon,
        "aucs": [found["lower_bound"]],
        "seconds_a_fit": time.perf_counter() - started,
        "guarantee": ledger.guarantee(delta=0).to_json(),
        "ledger": ledger.to_json(),
    }


def _least(count: int, num: int, miss: float) -> float:
    from scipy.stats import beta

    return 0.0 if count == 0 else float(beta.ppf(miss, count, num - count + 1))


def _most(count: int, num: int, miss: float) -> float:
    from scipy.stats import beta

    return 1.0 if count == num else float(beta.ppf(1 - miss, count + 1, num - count))
