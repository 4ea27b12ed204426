"""The data-dependent price of answers by noisy maximum: less than planned, and itself private.

Where nearly all parts agree, one more vote hardly changes the probability of an answer. PATE bounds
the Renyi divergence of such an answer by the margin of the votes. For two answers no bound is needed:
the only neighbors of c votes are c - 1 and c + 1, and the divergence of two coins is known.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from scipy.special import log_ndtr

from veilflow.privacy.guarantees import Sensitive
from veilflow.releases.answers import GRID, Answers

_ORDERS = np.concatenate([np.arange(1.1, 10.9, 0.1), np.arange(11, 64), [128.0, 256.0, 512.0]])


def data_dependent_epsilon(
    votes: Sensitive[Sequence[int]], answers: Answers, *, delta: float
) -> Sensitive[float]:
    """Epsilon at `delta` of answers to queries with these votes, on these records.

    Guarantee:
        None that may be released: the number is a function of the records, so it comes back as
        `Sensitive`. It bounds how well these records can be told from any neighbor of theirs, for
        queries that were chosen beforehand and not from answers.

    Args:
        votes: The number of parts that called the row normal, for each answered query.
        answers: With method "noisy_max".
        delta: Positive.

    References:
        Papernot, Song, Mironov, Raghunathan, Talwar, Erlingsson, "Scalable private learning with
        PATE", 2018, on data-dependent Renyi bounds.
    """
    if answers.method != "noisy_max":
        raise ValueError(f"only noisy_max has a data-dependent price, got {answers.method!r}.")

    def epsilon(asked: Sequence[int]) -> float:
        values, counts = np.unique(np.asarray(asked, int), return_counts=True)
        total = sum(n * _divergence(int(c), answers) for c, n in zip(values, counts, strict=True))
        return _epsilon(np.zeros_like(_ORDERS) + total, delta)

    return votes.map(epsilon, description="epsilon of these records")


def _divergence(votes: int, answers: Answers) -> Float[np.ndarray, " orders"]:
    """At each order, the largest divergence from or to the answer of a neighbor."""
    assert answers.noise_multiplier is not None
    worst = _ORDERS * (1 / (2 * answers.noise_multiplier**2))  # on any records
    here = _log_chances(votes, answers)
    near = [_log_chances(c, answers) for c in (votes - 1, votes + 1) if 0 <= c <= answers.parts]
    local = [_renyi(p, q) for other in near for p, q in ((here, other), (other, here))]
    return np.minimum(worst, np.max(local, axis=0))


def _log_chances(votes: int, answers: Answers) -> tuple[tuple[float, float], tuple[float, float]]:
    """Lower and upper bounds on the log-probability of each answer.

    The noise is a discrete Gaussian on a grid. Its sums lie between integrals one step apart, divided
    by a total between that of a normal and one term more.
    """
    assert answers.noise_multiplier is not None
    stddev = 2 * answers.noise_multiplier * GRID
    margin = (2 * votes - answers.parts) * GRID
    slack = float(np.log1p(1 / stddev))
    normal = log_ndtr((margin - 1) / stddev) - slack, log_ndtr((margin + 1) / stddev) + slack
    odd = log_ndtr((-margin - 1) / stddev) - slack, log_ndtr((-margin + 1) / stddev) + slack
    return (float(normal[0]), float(min(normal[1], 0))), (float(odd[0]), float(min(odd[1], 0)))


def _renyi(p: tuple, q: tuple) -> Float[np.ndarray, " orders"]:
    """An upper bound on the divergence of coin `p` from coin `q`, given bounds on both."""
    terms = [
        _ORDERS * high_p + (1 - _ORDERS) * low_q
        for (_, high_p), (low_q, _) in zip(p, q, strict=True)
    ]
    return np.maximum(np.logaddexp(*terms), 0.0) / (_ORDERS - 1)


def _epsilon(curve: Float[np.ndarray, " orders"], delta: float) -> float:
    """From Renyi to approximate differential privacy (Canonne, Kamath, Steinke, Proposition 12)."""
    bounds = curve + np.log1p(-1 / _ORDERS) - (np.log(delta) + np.log(_ORDERS)) / (_ORDERS - 1)
    return float(max(0.0, bounds.min()))
