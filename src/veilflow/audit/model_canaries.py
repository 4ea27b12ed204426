"""White-box audit of the training of a real model: canary rows, and the stream of noisy gradients.

In a real model canaries share parameters, so their gradients overlap, and change from step to step. An
attacker who sees the parameters knows them all, though, and asks which canaries together explain the
sums best: a ridge regression of what was released on the canaries' clipped gradients.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from veilflow._core.keys import Secret
from veilflow.audit import guessing
from veilflow.audit.gradient_canaries import claimed_epsilon, coins
from veilflow.audit.result import AuditResult
from veilflow.audit.watched import compiled, gradient_part, has_count, run, watched
from veilflow.engine.blocks import step_words
from veilflow.engine.observed import LossFn, num_parameters
from veilflow.engine.plan import TrainingPlan
from veilflow.engine.step import PublicLossFn, State
from veilflow.nn.frozen import trainable_part


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
    """Train a model on canaries alone, each in by a fair coin, and guess from the stream which were.

    Args:
        plan: The run, with its own optimizer. Its clipping must have a fixed bound.
        loss_fn: Loss of one record; must not use its key.
        model: What is trained, at its start.
        canaries: Arrays with the canary as first axis; a few hundred, generated. Memory grows with
            their square times the steps.
        delta: At which claim and bound are stated.
        public_loss_fn: The part of the loss without records.
        guesses: How many canaries to make a guess about; a fifth of them by default.
        confidence: Of the bound.
        bound: As for `audit_gradients`.
        seed: For the same audit again.
    """
    if has_count(plan):
        raise ValueError("this audit needs a clipping with a fixed bound, such as Flat.")
    number = jax.tree.leaves(canaries)[0].shape[0]
    secret = Secret.from_seed(seed)
    inside = coins(number, secret)
    if not inside.any():
        raise ValueError("no coin fell on the side of a canary. Use more canaries.")
    step, start = watched(plan, loss_fn, model, public_loss_fn=public_loss_fn)
    _, fixed = trainable_part(model)
    clip_norm, rate = plan.clipping.sensitivity, plan.sampling_rate
    # who was drawn into a batch is one more noise, taken to be spread over all parameters
    drawing = rate * (1 - rate) * number / 2 * clip_norm**2 / num_parameters(model)
    variance = (plan.noise_multiplier * clip_norm) ** 2 + drawing

    def directions(trainable: PyTree) -> Float[Array, "canaries parameters"]:
        def of(record: PyTree) -> PyTree:
            key = jax.random.key(0)
            return eqx.filter_grad(lambda t: loss_fn(eqx.combine(t, fixed), record, key))(trainable)

        gradients = _flat(jax.vmap(of)(jax.tree.map(jnp.asarray, canaries)), number)
        norms = jnp.linalg.norm(gradients, axis=1, keepdims=True)
        return gradients * jnp.minimum(1.0, clip_norm / jnp.maximum(norms, 1e-30))

    def explain(state: State, released: PyTree) -> tuple[Array, Array]:
        ways = rate * directions(state.trainable)
        total = _flat(gradient_part(plan, released), 1)[0]
        return ways @ ways.T / variance, ways @ total / variance

    def explained(*inputs: Any) -> tuple[Array, Array]:
        gram, along = run(*inputs, watch=explain)[1]
        return jnp.sum(gram, axis=0), jnp.sum(along, axis=0)

    records = jax.tree.map(lambda x: np.asarray(x)[inside], canaries)
    words = step_words(secret, 0, plan.steps)
    gram, along = compiled(explained)(step, start, records, words)
    gram, along = np.asarray(gram, float), np.asarray(along, float)
    # a coin is 1/2 give or take 1/2 before anything is seen: a ridge of one over its variance
    off = along - gram.sum(axis=1) / 2
    scores = np.linalg.solve(gram + 4 * np.eye(number), off)
    return guessing.from_scores(
        scores,
        inside,
        method="model canary",
        delta=delta,
        claimed=claimed_epsilon(plan, delta),
        confidence=confidence,
        guesses=max(2, number // 5) if guesses is None else guesses,
        bound=bound,
        internal=False,
    )


def _flat(tree: PyTree, number: int) -> Float[Array, "number parameters"]:
    return jnp.concatenate([jnp.reshape(x, (number, -1)) for x in jax.tree.leaves(tree)], axis=1)
