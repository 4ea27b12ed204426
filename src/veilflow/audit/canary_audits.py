"""White-box audits of training: canaries, and the stream of noisy gradients of the real step.

A fair coin decides for each canary whether it is in. The step is the engine's: its Poisson draw, its
chunks, its clip, its noise. The attacker sees every noisy sum.

`audit_gradients`: the clipped gradient of each canary has the largest norm allowed and points
along its own axis. For each canary and step the attacker computes how much likelier the number along
its axis is with the canary than without; no statistic is more informative.

`audit_training`: in a real model canaries share parameters, so their gradients overlap, and change from
step to step. An attacker who sees the parameters knows all of these gradients, though, and estimates
which canaries explain the sums best: a ridge regression of the sums on the clipped gradients.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PyTree

from veilflow._core import check
from veilflow._core.keys import Secret
from veilflow.audit import guessing
from veilflow.audit.canaries import coins
from veilflow.audit.result import AuditResult
from veilflow.audit.watched import (
    compiled,
    gradient_part,
    has_count,
    plain_descent,
    run,
    watched,
)
from veilflow.engine.blocks import step_words
from veilflow.engine.observed import LossFn, num_parameters
from veilflow.engine.plan import TrainingPlan
from veilflow.engine.step import PublicLossFn, State
from veilflow.nn.frozen import trainable_part
from veilflow.privacy.ledger import Ledger

Scorer = Callable[[Bool[np.ndarray, " canaries"], Secret], Float[np.ndarray, " canaries"]]
"""The score of every canary, from who is in and the secret of a run."""


class Axes(eqx.Module):
    """A model with one number for each canary."""

    values: Float[Array, " canaries"]
    slope: float = eqx.field(static=True)


def along_its_axis(model: Axes, place: Int[Array, ""], key: object) -> Float[Array, ""]:
    """A loss whose gradient is the axis of the record's place; zero for the place after the last."""
    number = model.values.shape[0]
    value = model.values[jnp.minimum(place, number - 1)]
    return jnp.where(place < number, model.slope * value, 0 * value)


def audit_gradients(
    plan: TrainingPlan,
    *,
    delta: float,
    num_canaries: int = 1000,
    confidence: float = 0.95,
    guesses: int | None = None,
    bound: str = "one-run",
    seed: int | None = None,
    scorer: Scorer | None = None,
) -> AuditResult:
    """Audit the engine's run of a plan with canaries; reads no data.

    A canary that is out is replaced by a record without a gradient, so that all runs of a plan share
    one program. The sums are those of a run in which it is missing.

    Args:
        plan: The run; its optimizer is replaced by plain descent, which no guarantee depends on.
        delta: The delta of claim and bound.
        num_canaries: Number of canaries; more of them make the bound tighter.
        confidence: Confidence of the bound.
        guesses: Number of canaries to make a guess about; a fifth of them by default.
        bound: "one-run", or "one-run-f-dp" for full batches (needs jax-privacy).
        seed: For a reproducible audit; operating-system entropy by default.
        scorer: From `canary_scorer`, for many audits of one plan.
    """
    check.count(num_canaries=num_canaries, at_least=10)
    secret = Secret.from_seed(seed)
    inside = coins(num_canaries, secret)
    scorer = canary_scorer(plan, num_canaries) if scorer is None else scorer
    settings = {"delta": delta, "confidence": confidence, "guesses": guesses, "bound": bound}
    return _result(plan, scorer(inside, secret), inside, method="gradient canary", **settings)


def canary_scorer(plan: TrainingPlan, num_canaries: int) -> Scorer:
    """A compiled run of the plan with canaries."""
    if not plan.private:
        raise ValueError("a run without privacy has nothing to audit: every canary is visible.")
    # steep enough that the clip binds
    model = Axes(jnp.zeros(num_canaries), slope=100.0 * max(plan.clipping.sensitivity, 1.0))
    # the divisor is public; this one keeps the parameters in a good range for float32
    plain = plain_descent(plan, expected_batch_size=max(1.0, plan.sampling_rate * num_canaries))
    step, start = watched(plain, along_its_axis, model)
    longest = 1.0 if has_count(plan) else plan.clipping.sensitivity
    variance = (plan.noise_multiplier * plan.clipping.sensitivity) ** 2

    def weigh(state: State, released: PyTree) -> Float[Array, " canaries"]:
        along = gradient_part(plan, released).values
        drawn = longest * (along - longest / 2) / variance
        if plan.sampling_rate == 1:
            return drawn
        rate = plan.sampling_rate
        return jnp.logaddexp(jnp.log1p(-rate), jnp.log(rate) + drawn)

    program = compiled(lambda *inputs: jnp.sum(run(*inputs, watch=weigh)[1], axis=0))

    def scores(
        inside: Bool[np.ndarray, " canaries"], secret: Secret
    ) -> Float[np.ndarray, " canaries"]:
        places = np.where(inside, np.arange(num_canaries), num_canaries).astype(np.int32)
        return np.asarray(program(step, start, places, step_words(secret, 0, plan.steps)), float)

    return scores


def _result(
    plan: TrainingPlan,
    scores: Float[np.ndarray, " canaries"],
    inside: Bool[np.ndarray, " canaries"],
    *,
    delta: float,
    guesses: int | None,
    **settings: Any,
) -> AuditResult:
    """What the scores of generated canaries say about a plan's claim, from guesses about a fifth."""
    return guessing.from_scores(
        scores,
        inside,
        delta=delta,
        claimed=Ledger().spend(plan.event, purpose="training").epsilon(delta=delta),
        guesses=max(2, len(scores) // 5) if guesses is None else guesses,
        internal=False,
        **settings,
    )


def with_epsilon(plan: TrainingPlan, epsilon: float, delta: float) -> TrainingPlan:
    """The plan with the noise with which a run costs this epsilon."""
    from veilflow.privacy.budget import Budget
    from veilflow.privacy.calibration import noise_multiplier

    budget = Budget(epsilon=epsilon, delta=delta)
    run = {"sampling_rate": plan.sampling_rate, "steps": plan.steps, "bands": plan.noise_bands}
    return replace(plan, noise_multiplier=noise_multiplier(budget, **run))


def audit_training(
    plan: TrainingPlan,
    loss_fn: LossFn,
    model: Any,
    canaries: PyTree,
    *,
    delta: float,
    public_loss_fn: PublicLossFn | None = None,
    guesses: int | None = None,
    confidence: float = 0.95,
    bound: str = "one-run",
    seed: int | None = None,
) -> AuditResult:
    """Train a model on canaries alone, each in by a fair coin, and guess which from the gradients.

    Args:
        plan: The run, with its own optimizer. Its clipping must have a fixed bound.
        loss_fn: Loss of one record; must not use its key.
        model: The initial model.
        canaries: Arrays with the canary as first axis; a few hundred, generated. Memory grows with
            their square times the steps.
        delta: The delta of claim and bound.
        public_loss_fn: The part of the loss that depends on no record.
        guesses: As for `audit_gradients`, like `confidence`, `bound` and `seed`.
        confidence: Confidence of the bound.
        bound: "one-run" or "one-run-f-dp".
        seed: For a reproducible audit.
    """
    if has_count(plan):
        raise ValueError("this audit needs a clipping with a fixed bound, such as Flat.")
    number = jax.tree.leaves(canaries)[0].shape[0]
    secret = Secret.from_seed(seed)
    inside = coins(number, secret)
    if not inside.any():
        raise ValueError("the coins left out every canary. Use more canaries.")
    step, start = watched(plan, loss_fn, model, public_loss_fn=public_loss_fn)
    _, fixed = trainable_part(model)
    clip_norm, rate = plan.clipping.sensitivity, plan.sampling_rate
    # the random batch is one more source of noise, modelled as spread over all parameters
    drawing = rate * (1 - rate) * number / 2 * clip_norm**2 / num_parameters(model)
    variance = (plan.noise_multiplier * clip_norm) ** 2 + drawing

    def directions(trainable: PyTree) -> Float[Array, "canaries parameters"]:
        def gradient(record: PyTree) -> PyTree:
            key = jax.random.key(0)
            return eqx.filter_grad(lambda t: loss_fn(eqx.combine(t, fixed), record, key))(trainable)

        gradients = _flat(jax.vmap(gradient)(jax.tree.map(jnp.asarray, canaries)), number)
        norms = jnp.linalg.norm(gradients, axis=1, keepdims=True)
        return gradients * jnp.minimum(1.0, clip_norm / jnp.maximum(norms, 1e-30))

    def explain(state: State, released: PyTree) -> tuple[Array, Array]:
        expected = rate * directions(state.trainable)
        total = _flat(gradient_part(plan, released), 1)[0]
        return expected @ expected.T / variance, expected @ total / variance

    def explained(*inputs: Any) -> tuple[Array, Array]:
        gram, along = run(*inputs, watch=explain)[1]
        return jnp.sum(gram, axis=0), jnp.sum(along, axis=0)

    records = jax.tree.map(lambda x: np.asarray(x)[inside], canaries)
    words = step_words(secret, 0, plan.steps)
    gram, along = compiled(explained)(step, start, records, words)
    gram, along = np.asarray(gram, float), np.asarray(along, float)
    # a coin has mean 1/2 and variance 1/4 a priori: the ridge is one over the variance
    residual = along - gram.sum(axis=1) / 2
    scores = np.linalg.solve(gram + 4 * np.eye(number), residual)
    settings = {"delta": delta, "confidence": confidence, "guesses": guesses, "bound": bound}
    return _result(plan, scores, inside, method="model canary", **settings)


def _flat(tree: PyTree, number: int) -> Float[Array, "number parameters"]:
    return jnp.concatenate([jnp.reshape(x, (number, -1)) for x in jax.tree.leaves(tree)], axis=1)
