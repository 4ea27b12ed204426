"""Measure the real compiled step: sensitivity, noise, draws and divisor, with frozen randomness.

A proof is about a mechanism on paper; this measures the one that runs. Randomness is frozen, so the
noise is the same on two neighboring data sets and cancels in the difference, which is the effect of one
record. Rows are generated: no data is read, and the report is not private.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from veilflow._core.keys import Secret
from veilflow.audit.result import Check, EngineReport
from veilflow.audit.statistics import noise_checks, sampling_checks
from veilflow.audit.subject import CHUNK, HOSTILE, Subject, flat, subject_of
from veilflow.audit.watched import (
    Watched,
    compiled,
    gradient_part,
    plain_descent,
    run,
)
from veilflow.engine.blocks import step_words
from veilflow.engine.observed import LossFn
from veilflow.engine.plan import TrainingPlan
from veilflow.engine.step import State

PARTS = ("sensitivity", "scale", "noise", "sampling")

Start = tuple[Watched, State]

_NOBODY = 2.0**-32
"""The smallest rate, at which none of a few records is drawn in a few steps."""


def engine_check(
    plan: TrainingPlan,
    *,
    model: Any = None,
    loss_fn: LossFn | None = None,
    records: PyTree = None,
    num_parts: int | None = None,
    common: Callable[[Any], Sequence[PyTree]] | None = None,
    parts: Sequence[str] = PARTS,
    steps: int = 256,
    seed: int = 0,
) -> EngineReport:
    """Measure the step of a plan on generated rows.

    Args:
        plan: A private plan. A few steps of it are run, with plain gradient descent.
        model: The model to measure; by default one with two networks. A clipping by groups works
            with its own model only, and needs it.
        loss_fn: The model's loss of one record.
        records: About a dozen generated records for it. Never private ones.
        num_parts: Measure the step of `engine.train_parts` for this many models, each of which has its
            part of the records. The model must then be stacked, and the records be a pair of arrays
            and the part of each record.
        common: The arrays of the model that all parts share, as for `engine.train_parts`.
        parts: Which of `PARTS` to measure; all of them by default. Each is compiled anew.
        steps: Number of steps for the statistics of noise and draws.
        seed: Seed of the measurement. A correct engine fails any one check with a probability below
            1e-6.

    Raises:
        ValueError: If the plan is not private or not one for parts, or a model comes without its loss
            and records.
    """
    if not plan.private:
        raise ValueError("a run without privacy makes no promise that could be measured.")
    unknown = [part for part in parts if part not in PARTS]
    if unknown or not parts:
        raise ValueError(f"parts must be some of {', '.join(PARTS)}, got {list(parts)}.")
    # few records need few chunks: a full one and a remainder, as in a large run
    plan = plain_descent(plan, expected_batch_size=min(plan.expected_batch_size, 1.5 * CHUNK))
    settings = {"model": model, "loss_fn": loss_fn, "records": records}
    subject = subject_of(plan, **settings, num_parts=num_parts, common=common)
    secret = Secret.from_seed(seed)
    checks_of = {
        "sensitivity": lambda: _sensitivity(subject, secret),
        "scale": lambda: _scale(subject, secret),
        "noise": lambda: _noise(subject, secret, steps),
        "sampling": lambda: sampling_checks(plan, secret=secret, steps=steps, num_parts=num_parts),
    }
    checks = [check for part in parts for check in checks_of[part]()]
    return EngineReport(checks=tuple(checks), plan=plan.to_json())


def _sensitivity(subject: Subject, secret: Secret) -> Iterator[Check]:
    """How far one record more moves the released sum, with the same noise on both sides."""
    plan = subject.plan
    step, state = subject.start(sampling_rate=1.0)

    @compiled
    def sums(start: Start, records: PyTree, neighbors: PyTree, *inputs: Any) -> Any:
        released = lambda rows: run(*start, rows, *inputs)[1]  # noqa: E731
        return released(records), jax.lax.map(released, neighbors)

    places, neighbors = subject.neighbors()
    alone, more = sums((step, state), subject.records, neighbors, step_words(secret, 0, 1))
    moved = [
        jax.tree.map(lambda x, y: np.asarray(x, float)[0] - np.asarray(y, float)[0], x, alone)
        for x in _unstacked(more)
    ]
    norms = np.array([np.linalg.norm(_flat(m)) for m in moved]).reshape(-1, len(HOSTILE))
    bound = plan.clipping.sensitivity
    # both sums are rounded after the noise is added
    size = _flat(alone).size
    slack = 1e-5 * bound + 2**-21 * math.sqrt(size) * (
        plan.noise_multiplier * bound + float(np.abs(_flat(alone)).max())
    )
    if step.noise is not None:
        slack += math.sqrt(size) * step.noise.grid.spacing
    for name, lengths, sentence in (
        ("sensitivity", norms[:, :-2], "the most that one record moved the released sum"),
        ("not finite", norms[:, -2:], "the most that a record with NaN or infinity moved it"),
    ):
        largest = float(lengths.max())
        yield Check(
            name=name,
            passed=bool(np.isfinite(lengths).all() and largest <= bound + slack),
            measured=largest,
            allowed=f"at most {bound:.6g}",
            sentence=sentence,
        )
    if subject.num_parts is not None:
        pairs = zip(moved, places, strict=True)
        strayed = np.array([np.linalg.norm(_flat(subject.elsewhere(m, p))) for m, p in pairs])
        yield Check(
            name="other parts",
            passed=bool((strayed <= slack).all()),  # false for NaN
            measured=float(strayed.max()),
            allowed="0, rounding aside",
            sentence="the most that a record moved what belongs to other parts is",
        )


def _scale(subject: Subject, secret: Secret) -> Iterator[Check]:
    """The divisor, and whether the release depends on the number of records."""
    plan, records = subject.plan, subject.records
    step, state = subject.start(loss_fn=flat)
    words = step_words(secret, 0, 1)
    program = compiled(run)
    doubled = jax.tree.map(lambda x: np.concatenate([x, x]), records)
    (after, once), (_, twice) = (program(step, state, x, words) for x in (records, doubled))
    first = [_flat(gradient_part(plan, x)) for x in (once, twice)]
    apart = float(np.abs(first[0] - first[1]).max())
    yield Check(
        name="number of records",
        passed=apart == 0.0,
        measured=apart,
        allowed="0",
        sentence="with twice as many records and no gradients the release changed by",
    )
    released = jax.tree.map(lambda x: x[0], once)
    total, _ = plan.clipping.gradient(released, state.clipping, plan.expected_batch_size)
    moved = jax.tree.map(lambda x, y: x - y, state.trainable, after.trainable)
    for (name, piece, size), (_, of_step, _) in zip(
        subject.divided(total), subject.divided(moved), strict=True
    ):
        length = max(float(np.linalg.norm(_flat(of_step))), 1e-300)
        divisor = float(np.linalg.norm(_flat(piece))) / length
        yield Check(
            name=name,
            passed=abs(divisor / size - 1) < 1e-3,
            measured=divisor,
            allowed=f"{size:.6g}, the public number",
            sentence="the released sum over the step it made is",
        )


def _noise(subject: Subject, secret: Secret, steps: int) -> Iterator[Check]:
    """Steps in which no record is drawn: each must release noise, and nothing else."""
    plan = subject.plan
    step, state = subject.start(sampling_rate=_NOBODY)
    words = step_words(secret, 0, steps)
    compiled_run = compiled(run)
    program = lambda words: compiled_run(step, state, subject.records, words)  # noqa: E731
    after, released = program(words)
    groups = subject.groups(released)
    tensors = [tensor for group in groups for tensor in group]
    # a part without noise is as bad as a step without noise
    has_noise = [np.concatenate(group, axis=1).any(axis=1) for group in groups]
    silent = steps - int(np.all(has_noise, axis=0).sum())
    taken = int(after.step) - int(state.step)
    yield Check(
        name="empty batch",
        passed=silent == 0 and taken == steps,
        measured=float(silent + steps - taken),
        allowed="0",
        sentence=f"of {steps} steps with an empty batch, those without noise or not counted were",
    )
    yield from noise_checks(tensors, plan.noise_multiplier * plan.clipping.sensitivity)
    yield _own_key(lambda words: _flat(program(words)[1]), words)


def _own_key(noise: Callable[[np.ndarray], np.ndarray], words: np.ndarray) -> Check:
    """Noise depends on its own key and no other: new keys for the rest must not change it."""
    others, own = words.copy(), words.copy()
    others[:, :2] ^= np.uint32(1)
    own[:, 2] ^= np.uint32(1)
    first, with_others, with_own = (noise(w) for w in (words, others, own))
    changed = float(np.mean(first != with_others) + np.mean(first == with_own))
    return Check(
        name="key of the noise",
        passed=changed == 0.0,
        measured=changed,
        allowed="0",
        sentence="the share of noise that depends on another key than its own is",
    )


def _flat(tree: PyTree) -> np.ndarray:
    return np.concatenate([np.ravel(np.asarray(x, float)) for x in jax.tree.leaves(tree)])


def _unstacked(tree: PyTree) -> list[PyTree]:
    number = jnp.shape(jax.tree.leaves(tree)[0])[0]
    return [jax.tree.map(lambda x, i=i: x[i], tree) for i in range(number)]
