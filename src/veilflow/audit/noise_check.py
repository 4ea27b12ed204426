"""Whether numbers are what a proof takes them for: independent normals of one known size."""

import math
from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np
from jaxtyping import Float

from veilflow.audit.engine_report import Check

FALSE_ALARM = 1e-7
"""The chance that right noise fails a check."""


def noise_checks(
    tensors: Sequence[Float[np.ndarray, "steps size"]], stddev: float
) -> Iterator[Check]:
    """Size, shape and independence of the noise of some steps, tensor by tensor."""
    yield _size(tensors, stddev)
    yield _every_coordinate(tensors, stddev)
    yield _shape(tensors, stddev)
    yield _independence(tensors)


def _size(tensors: Sequence[np.ndarray], stddev: float) -> Check:
    from scipy.stats import norm

    numbers = _all(tensors)
    found = float(np.sqrt(np.mean(numbers**2)))
    off = float(norm.isf(FALSE_ALARM / 2)) / math.sqrt(2 * numbers.size)
    return Check(
        name="noise",
        passed=abs(found / stddev - 1) <= off,
        measured=found / stddev,
        allowed=f"{1 - off:.3f} to {1 + off:.3f}",
        sentence="the deviation of the noise, over multiplier times sensitivity, is",
    )


def _every_coordinate(tensors: Sequence[np.ndarray], stddev: float) -> Check:
    """The coordinate whose noise is least, over all steps: none may go without."""
    from scipy.stats import chi2

    squares = np.concatenate([np.sum((t / stddev) ** 2, axis=0) for t in tensors])
    steps = len(tensors[0])
    least = math.sqrt(float(chi2.ppf(FALSE_ALARM / squares.size, steps)) / steps)
    found = math.sqrt(float(squares.min()) / steps)
    return Check(
        name="noise of every coordinate",
        passed=found >= least,
        measured=found,
        allowed=f"at least {least:.3f}",
        sentence=f"the least deviation of a coordinate in {steps} steps, likewise, is",
    )


def _shape(tensors: Sequence[np.ndarray], stddev: float) -> Check:
    """The largest distance between the distribution of the noise and a normal one."""
    from scipy.stats import kstest

    numbers = _all(tensors)
    found = kstest(numbers / stddev, "norm")
    # 2 exp(-2 n d^2) is how likely a distance d is, at most
    most = math.sqrt(math.log(2 / FALSE_ALARM) / (2 * numbers.size))
    return Check(
        name="shape of the noise",
        passed=bool(found.statistic <= most),  # type: ignore[attr-defined]
        measured=float(found.statistic),  # type: ignore[attr-defined]
        allowed=f"at most {most:.3f}",
        sentence="the distance from a normal distribution is",
    )


def _independence(tensors: Sequence[np.ndarray]) -> Check:
    """The strongest tie between tensors, between neighbors in one, and between steps."""
    from scipy.stats import norm

    pairs = [(_start(a, b), _start(b, a)) for a, b in combinations(tensors, 2)]
    pairs += [(t[:, 1:], t[:, :-1]) for t in tensors if t.shape[1] > 1]
    pairs += [(t[1:], t[:-1]) for t in tensors]
    # as multiples of what chance does to pairs of this many numbers
    found = max(abs(_correlation(a, b)) * math.sqrt(a.size) for a, b in pairs)
    most = float(norm.isf(FALSE_ALARM / (2 * len(pairs))))
    return Check(
        name="independent noise",
        passed=found <= most,
        measured=found,
        allowed=f"at most {most:.2f}",
        sentence="the strongest tie of tensors, coordinates or steps, in units of chance, is",
    )


def _start(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a[:, : min(a.shape[1], b.shape[1])]


def _correlation(a: np.ndarray, b: np.ndarray) -> float:
    scale = math.sqrt(float(np.sum(a**2) * np.sum(b**2)))
    return float(np.sum(a * b)) / scale if scale else 1.0


def _all(tensors: Sequence[np.ndarray]) -> np.ndarray:
    return np.concatenate([np.ravel(t) for t in tensors])
