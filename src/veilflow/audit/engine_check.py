"""Measure the real compiled step: sensitivity, noise, draws and divisor, with frozen randomness.

A proof is about a mechanism on paper. This measures the one that runs. Randomness is frozen, so that
the noise is the same on two neighboring data sets and goes away in the difference; what is left is what
one record moved. Rows are generated: no data is read, and the report may be shown.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from veilflow._core.keys import Secret
from veilflow.audit import probe
from veilflow.audit.engine_report import Check, EngineReport
from veilflow.audit.noise_check import noise_checks
from veilflow.audit.sampling_check import sampling_checks
from veilflow.audit.watched import (
    Watched,
    compiled,
    gradient_part,
    plain_descent,
    randomness,
    run,
    watched,
)
from veilflow.engine.observed import LossFn
from veilflow.engine.plan import TrainingPlan
from veilflow.engine.step import State

PARTS = ("sensitivity", "scale", "noise", "sampling")

_CHUNK = 5

Start = tuple[Watched, State]

_NOBODY = 2.0**-32
"""The smallest rate: of a few records over a few steps nobody is drawn."""


def engine_check(
    plan: TrainingPlan,
    *,
    model: Any = None,
    loss_fn: LossFn | None = None,
    records: PyTree = None,
    parts: Sequence[str] = PARTS,
    steps: int = 256,
    seed: int = 0,
) -> EngineReport:
    """Measure what the step of a plan does to generated rows.

    Args:
        plan: A private plan. Of its run a few steps are taken, with plain descent.
        model: The model to measure it with; one with two networks by default. A clipping by groups
            fits its own model only, and needs it.
        loss_fn: The model's loss of one record.
        records: A dozen generated records for it. Never private ones.
        parts: Which of `PARTS` to measure; all of them by default. Each is compiled anew.
        steps: How many steps the statistics of noise and draws come from.
        seed: Of the measurement. A right engine fails any one check with a chance below 1e-6.

    Raises:
        ValueError: The plan is not private, or a model comes without its loss and records.
    """
    if not plan.private:
        raise ValueError("a run without privacy makes no promise that could be measured.")
    given = (model is not None, loss_fn is not None, records is not None)
    if len(set(given)) > 1:
        raise ValueError("give model, loss_fn and records together, or none of them.")
    unknown = [part for part in parts if part not in PARTS]
    if unknown or not parts:
        raise ValueError(f"parts must be some of {', '.join(PARTS)}, got {list(parts)}.")
    if model is None:
        model, loss_fn, records = probe.make_probe(), probe.steep, probe.make_rows()
    assert loss_fn is not None
    # few records need few chunks: a full one and a rest, as in a large run
    plan = plain_descent(plan, expected_batch_size=min(plan.expected_batch_size, 1.5 * _CHUNK))
    secret = Secret.from_seed(seed)
    of_part = {
        "sensitivity": lambda: _sensitivity(plan, model, loss_fn, records, secret),
        "scale": lambda: _scale(plan, model, records, secret),
        "noise": lambda: _noise(plan, model, loss_fn, records, secret, steps),
        "sampling": lambda: sampling_checks(plan, secret=secret, steps=steps),
    }
    checks = [check for part in parts for check in of_part[part]()]
    return EngineReport(checks=tuple(checks), plan=plan.to_json())


def _sensitivity(
    plan: TrainingPlan, model: Any, loss_fn: LossFn, records: PyTree, secret: Secret
) -> Iterator[Check]:
    """How far one record more moves the released sum; the same noise stands on both sides."""
    everybody = replace(plan, sampling_rate=1.0)
    step, state = watched(everybody, loss_fn, model, chunk_size=_CHUNK)

    @compiled
    def sums(start: Start, records: PyTree, neighbors: PyTree, *inputs: Any) -> Any:
        released = lambda rows: run(*start, rows, *inputs)[1]  # noqa: E731
        return released(records), jax.lax.map(released, neighbors)

    neighbors = probe.with_one_more(records)
    alone, more = sums((step, state), records, neighbors, *randomness(step, secret, 1))
    moved = [_flat(x) - _flat(alone) for x in _unstacked(more)]
    norms = [float(np.linalg.norm(m)) for m in moved]
    bound = plan.clipping.sensitivity
    # both sums are rounded after the noise was added
    size = _flat(alone).size
    slack = 1e-5 * bound + 2**-21 * math.sqrt(size) * (
        plan.noise_multiplier * bound + float(np.abs(_flat(alone)).max())
    )
    if step.grid is not None:
        slack += math.sqrt(size) * step.grid.spacing
    for name, chosen, what in (
        ("sensitivity", norms[:-2], "the most that one record moved the released sum"),
        ("not finite", norms[-2:], "the most that a record with NaN or infinity moved it"),
    ):
        found = max(chosen)
        yield Check(
            name=name,
            passed=bool(np.isfinite(chosen).all() and found <= bound + slack),
            measured=found,
            allowed=f"at most {bound:.6g}",
            sentence=what,
        )


def _scale(plan: TrainingPlan, model: Any, records: PyTree, secret: Secret) -> Iterator[Check]:
    """What is divided by, and whether noise depends on how many records there are."""
    step, state = watched(plan, probe.flat, model, chunk_size=_CHUNK)
    inputs = randomness(step, secret, 1)
    program = compiled(run)
    doubled = jax.tree.map(lambda x: np.concatenate([x, x]), records)
    (after, once), (_, twice) = (program(step, state, x, *inputs) for x in (records, doubled))
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
    size = plan.expected_batch_size
    total, _ = plan.clipping.gradient(released, state.clipping, size)
    moved = _flat(state.trainable) - _flat(after.trainable)
    divisor = float(np.linalg.norm(_flat(total)) / max(float(np.linalg.norm(moved)), 1e-300))
    yield Check(
        name="divisor",
        passed=abs(divisor / size - 1) < 1e-3,
        measured=divisor,
        allowed=f"{size:.6g}, the public number",
        sentence="the released sum over the step it made is",
    )


def _noise(
    plan: TrainingPlan,
    model: Any,
    loss_fn: LossFn,
    records: PyTree,
    secret: Secret,
    steps: int,
) -> Iterator[Check]:
    """Steps in which nobody is drawn: what comes out is noise, and it must always come out."""
    nobody = replace(plan, sampling_rate=_NOBODY)
    step, state = watched(nobody, loss_fn, model, chunk_size=_CHUNK)
    words, host_noise = randomness(step, secret, steps)
    whole = compiled(run)
    program = lambda *inputs: whole(step, state, records, *inputs)  # noqa: E731
    after, released = program(words, host_noise)
    tensors = [np.asarray(x, float).reshape(steps, -1) for x in jax.tree.leaves(released)]
    silent = sum(not np.any(np.concatenate([t[i] for t in tensors])) for i in range(steps))
    taken = int(after.step) - int(state.step)
    yield Check(
        name="empty batch",
        passed=silent == 0 and taken == steps,
        measured=float(silent + steps - taken),
        allowed="0",
        sentence=f"of {steps} steps with an empty batch, those without noise or not counted were",
    )
    yield from noise_checks(tensors, plan.noise_multiplier * plan.clipping.sensitivity)
    if host_noise is None:
        yield _own_key(program, words, tensors)


def _own_key(program: Callable[..., Any], words: np.ndarray, tensors: list[np.ndarray]) -> Check:
    """Noise comes from its own key and no other: new keys for the rest must not change it."""
    others, own = words.copy(), words.copy()
    others[:, :2] ^= np.uint32(1)
    own[:, 2] ^= np.uint32(1)
    first = np.concatenate(tensors, axis=1)
    with_others, with_own = (
        np.concatenate([np.asarray(x, float).reshape(len(first), -1) for x in leaves], axis=1)
        for leaves in (jax.tree.leaves(program(w, None)[1]) for w in (others, own))
    )
    changed = float(np.mean(first != with_others) + np.mean(first == with_own))
    return Check(
        name="key of the noise",
        passed=changed == 0.0,
        measured=changed,
        allowed="0",
        sentence="the share of noise that follows another key than its own is",
    )


def _flat(tree: PyTree) -> np.ndarray:
    return np.concatenate([np.ravel(np.asarray(x, float)) for x in jax.tree.leaves(tree)])


def _unstacked(tree: PyTree) -> list[PyTree]:
    number = jnp.shape(jax.tree.leaves(tree)[0])[0]
    return [jax.tree.map(lambda x, i=i: x[i], tree) for i in range(number)]
