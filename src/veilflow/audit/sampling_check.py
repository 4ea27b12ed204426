"""Whether batches are Poisson samples: who was drawn, read off the released sums.

Each record's gradient has an axis of its own. The same run on records without a gradient has the same
noise; the difference is who was in which batch. Batches of a fixed size, or records dealt out until all
had their turn, have the right mean and too little spread, and that is what tells them apart.
"""

import math
from collections.abc import Iterator
from dataclasses import replace

import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, PyTree

from veilflow._core.keys import Secret
from veilflow.audit.engine_report import Check
from veilflow.audit.gradient_canaries import Axes, along_its_axis
from veilflow.audit.noise_check import FALSE_ALARM
from veilflow.audit.watched import compiled, run, watched
from veilflow.engine.blocks import step_words
from veilflow.engine.clipping import Flat
from veilflow.engine.plan import TrainingPlan


def sampling_checks(
    plan: TrainingPlan, *, secret: Secret, steps: int, num_parts: int | None = None
) -> Iterator[Check]:
    """Rate and spread of the draws of some steps."""
    from scipy.stats import binomtest, norm

    steps = max(steps, 128)  # with fewer, no spread at all could be chance
    drawn = who_was_drawn(plan, secret=secret, steps=steps, num_parts=num_parts)
    rate, number = plan.sampling_rate, drawn.shape[1]
    found = float(drawn.mean())
    p_value = (
        binomtest(int(drawn.sum()), drawn.size, rate).pvalue if rate < 1 else float(found == 1)
    )
    yield Check(
        name="sampling rate",
        passed=bool(p_value >= FALSE_ALARM),
        measured=found,
        allowed=f"about {rate:.6g}",
        sentence="the share of records in a batch is",
    )
    if rate == 1:
        return
    most = float(norm.isf(FALSE_ALARM / 2))
    for name, counts, size, what in (
        ("batch sizes", drawn.sum(axis=1), number, "the spread of batch sizes"),
        ("turns", drawn.sum(axis=0), steps, "the spread of how often records are drawn"),
    ):
        off = dispersion(counts, size, rate)
        yield Check(
            name=name,
            passed=abs(off) <= most,
            measured=off,
            allowed=f"{-most:.2f} to {most:.2f}",
            sentence=f"{what}, beyond that of independent draws and in units of chance, is",
        )


def who_was_drawn(
    plan: TrainingPlan, *, secret: Secret, steps: int, num_parts: int | None = None
) -> Bool[np.ndarray, "steps records"]:
    """For each step of the real engine, which of some generated records were in its batch."""
    number = int(min(max(math.ceil(8 / plan.sampling_rate), 128), 2048))
    # what is measured is the draw: any clipping and noise will do, and small noise is read off well
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
    found = np.asarray(with_axes - without) > 0.5
    return found if num_parts is None else np.asarray(found.any(axis=1))


def dispersion(counts: np.ndarray, size: int, rate: float) -> float:
    """How far the variance of binomial counts is from what it must be, in its standard errors."""
    variance = size * rate * (1 - rate)
    # of a binomial: fourth central moment, and so the variance of a squared deviation
    fourth = 3 * variance**2 + variance * (1 - 6 * rate * (1 - rate))
    error = math.sqrt(max(fourth - variance**2, 1e-12) / len(counts))
    return float((np.mean((counts - size * rate) ** 2) - variance) / error)
