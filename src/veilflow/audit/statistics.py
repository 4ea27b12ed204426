"""Whether the noise and the draws of a step are those that its privacy proof assumes.

Noise must be independent normal numbers of a known size. Batches must be Poisson samples: who was drawn
is read from the released sums. Each record's gradient has its own axis, and the same run on records
without a gradient has the same noise, so the difference shows who was in which batch. Batches of a
fixed size, or records dealt out until all have had their turn, have the right mean and too little
variance.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, PyTree

from veilflow._core.keys import Secret
from veilflow.audit.canary_audits import Axes, along_its_axis
from veilflow.audit.result import Check
from veilflow.audit.watched import compiled, run, watched
from veilflow.engine.blocks import step_words
from veilflow.engine.clipping import Flat
from veilflow.engine.plan import TrainingPlan

FALSE_ALARM = 1e-7
"""The probability that correct noise fails a check."""


def noise_checks(
    tensors: Sequence[Float[np.ndarray, "steps size"]], stddev: float
) -> Iterator[Check]:
    """Scale, distribution and independence of the noise of some steps, tensor by tensor."""
    yield _size(tensors, stddev)
    yield _every_coordinate(tensors, stddev)
    yield _shape(tensors, stddev)
    yield _independence(tensors)


def _size(tensors: Sequence[np.ndarray], stddev: float) -> Check:
    from scipy.stats import norm

    numbers = _all(tensors)
    ratio = float(np.sqrt(np.mean(numbers**2))) / stddev
    margin = float(norm.isf(FALSE_ALARM / 2)) / math.sqrt(2 * numbers.size)
    return Check(
        name="noise",
        passed=abs(ratio - 1) <= margin,
        measured=ratio,
        allowed=f"{1 - margin:.3f} to {1 + margin:.3f}",
        sentence="the standard deviation of the noise, over multiplier times sensitivity, is",
    )


def _every_coordinate(tensors: Sequence[np.ndarray], stddev: float) -> Check:
    """The smallest noise of a coordinate over all steps: no coordinate may go without."""
    from scipy.stats import chi2

    squares = np.concatenate([np.sum((t / stddev) ** 2, axis=0) for t in tensors])
    steps = len(tensors[0])
    least = math.sqrt(float(chi2.ppf(FALSE_ALARM / squares.size, steps)) / steps)
    smallest = math.sqrt(float(squares.min()) / steps)
    return Check(
        name="noise of every coordinate",
        passed=smallest >= least,
        measured=smallest,
        allowed=f"at least {least:.3f}",
        sentence=f"the smallest such deviation of a coordinate over {steps} steps is",
    )


def _shape(tensors: Sequence[np.ndarray], stddev: float) -> Check:
    """The Kolmogorov-Smirnov distance between the noise and a normal distribution."""
    from scipy.stats import kstest

    numbers = _all(tensors)
    distance = float(kstest(numbers / stddev, "norm").statistic)  # type: ignore[attr-defined]
    # the probability of a distance d is at most 2 exp(-2 n d^2)
    most = math.sqrt(math.log(2 / FALSE_ALARM) / (2 * numbers.size))
    return Check(
        name="shape of the noise",
        passed=distance <= most,
        measured=distance,
        allowed=f"at most {most:.3f}",
        sentence="the distance from a normal distribution is",
    )


def _independence(tensors: Sequence[np.ndarray]) -> Check:
    """The strongest correlation between tensors, between neighbors in one, and between steps."""
    from scipy.stats import norm

    pairs = [(_start(a, b), _start(b, a)) for a, b in combinations(tensors, 2)]
    pairs += [(t[:, 1:], t[:, :-1]) for t in tensors if t.shape[1] > 1]
    pairs += [(t[1:], t[:-1]) for t in tensors]
    # in standard errors of a correlation of this many numbers
    strongest = max(abs(_correlation(a, b)) * math.sqrt(a.size) for a, b in pairs)
    most = float(norm.isf(FALSE_ALARM / (2 * len(pairs))))
    return Check(
        name="independent noise",
        passed=strongest <= most,
        measured=strongest,
        allowed=f"at most {most:.2f}",
        sentence="the strongest correlation of tensors, coordinates or steps, in standard errors, is",
    )


def _start(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a[:, : min(a.shape[1], b.shape[1])]


def _correlation(a: np.ndarray, b: np.ndarray) -> float:
    scale = math.sqrt(float(np.sum(a**2) * np.sum(b**2)))
    return float(np.sum(a * b)) / scale if scale else 1.0


def _all(tensors: Sequence[np.ndarray]) -> np.ndarray:
    return np.concatenate([np.ravel(t) for t in tensors])


def sampling_checks(
    plan: TrainingPlan, *, secret: Secret, steps: int, num_parts: int | None = None
) -> Iterator[Check]:
    """Rate and variance of the draws of some steps."""
    from scipy.stats import binomtest, norm

    steps = max(steps, 128)  # with fewer, even a variance of zero could be chance
    drawn = who_was_drawn(plan, secret=secret, steps=steps, num_parts=num_parts)
    rate, number = plan.sampling_rate, drawn.shape[1]
    share = float(drawn.mean())
    p_value = (
        binomtest(int(drawn.sum()), drawn.size, rate).pvalue if rate < 1 else float(share == 1)
    )
    yield Check(
        name="sampling rate",
        passed=bool(p_value >= FALSE_ALARM),
        measured=share,
        allowed=f"about {rate:.6g}",
        sentence="the share of records in a batch is",
    )
    if rate == 1:
        return
    most = float(norm.isf(FALSE_ALARM / 2))
    for name, counts, size, what in (
        ("batch sizes", drawn.sum(axis=1), number, "the variance of batch sizes"),
        ("turns", drawn.sum(axis=0), steps, "the variance of how often records are drawn"),
    ):
        excess = dispersion(counts, size, rate)
        yield Check(
            name=name,
            passed=abs(excess) <= most,
            measured=excess,
            allowed=f"{-most:.2f} to {most:.2f}",
            sentence=f"{what}, less that of independent draws and in standard errors, is",
        )


def who_was_drawn(
    plan: TrainingPlan, *, secret: Secret, steps: int, num_parts: int | None = None
) -> Bool[np.ndarray, "steps records"]:
    """For each step of the real engine, which of some generated records were in its batch."""
    number = int(min(max(math.ceil(8 / plan.sampling_rate), 128), 2048))
    # only the draw is measured: any clipping and noise will do, and small noise is easy to remove
    clipping, noise = Flat(1.0), min(plan.noise_multiplier, 1.0)
    size = max(1.0, plan.sampling_rate * number)
    plan = replace(
        plan,
        clipping=clipping,
        noise_multiplier=noise,
        expected_batch_size=size,
        steps=max(plan.steps, steps),
    )
    shape = (number,) if num_parts is None else (num_parts, number)
    model = Axes(jnp.zeros(shape), slope=10.0)
    step, state = watched(plan, along_its_axis, model, num_parts=num_parts)
    words = step_words(secret, 0, steps)
    program = compiled(run)
    records: list[PyTree] = [np.arange(number, dtype=np.int32), np.full(number, number, np.int32)]
    if num_parts is not None:
        part = np.arange(number, dtype=np.int32) % num_parts
        records = [(places, part) for places in records]
    with_axes, without = (program(step, state, x, words)[1].values for x in records)
    drawn = np.asarray(with_axes - without) > 0.5
    return drawn if num_parts is None else np.asarray(drawn.any(axis=1))


def dispersion(counts: np.ndarray, size: int, rate: float) -> float:
    """How far the variance of counts is from that of a binomial, in standard errors."""
    variance = size * rate * (1 - rate)
    # the fourth central moment of a binomial gives the variance of a squared deviation
    fourth = 3 * variance**2 + variance * (1 - 6 * rate * (1 - rate))
    error = math.sqrt(max(fourth - variance**2, 1e-12) / len(counts))
    return float((np.mean((counts - size * rate) ** 2) - variance) / error)
