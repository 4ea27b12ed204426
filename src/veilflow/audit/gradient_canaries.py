"""White-box audit of the gradient stream: canaries with a coordinate each, through the real step.

Every canary is a record whose gradient, once clipped, is the longest one allowed and points along an
axis of its own. A fair coin decides whether it is in. The step is the engine's: its Poisson draw, its
chunks, its clip, its noise. An attacker who sees every noisy sum weighs, for each canary and step, how
much likelier the number along its axis is with the canary than without; nothing tells more.
"""

from collections.abc import Callable
from dataclasses import replace

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PyTree

from veilflow._core import check
from veilflow._core.keys import Secret
from veilflow.audit import guessing
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
from veilflow.engine.plan import TrainingPlan
from veilflow.engine.step import State
from veilflow.privacy.ledger import Ledger

Scorer = Callable[[Bool[np.ndarray, " canaries"], Secret], Float[np.ndarray, " canaries"]]
"""From who is in, and the secret of a run, to the score of every canary."""


class Axes(eqx.Module):
    """A model with one number for each canary."""

    values: Float[Array, " canaries"]
    slope: float = eqx.field(static=True)


def along_its_axis(model: Axes, place: Int[Array, ""], key: object) -> Float[Array, ""]:
    """A loss whose gradient is the axis of the record's place; flat for the place after the last."""
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

    Canaries that are out leave a record without a gradient in their place, so that all runs of a plan
    share one program. The sums are those of a run in which they are missing.

    Args:
        plan: The run; its optimizer is replaced by plain descent, which no guarantee depends on.
        delta: At which claim and bound are stated.
        num_canaries: Records; more of them make the bound tighter.
        confidence: Of the bound.
        guesses: How many canaries to make a guess about; a fifth of them by default.
        bound: "one-run", or "one-run-f-dp" for full batches (needs jax-privacy).
        seed: For the same audit again; operating-system entropy by default.
        scorer: From `canary_scorer`, for many audits of one plan.
    """
    check.count(num_canaries=num_canaries, at_least=10)
    secret = Secret.from_seed(seed)
    inside = coins(num_canaries, secret)
    scorer = canary_scorer(plan, num_canaries) if scorer is None else scorer
    return guessing.from_scores(
        scorer(inside, secret),
        inside,
        method="gradient canary",
        delta=delta,
        claimed=claimed_epsilon(plan, delta),
        confidence=confidence,
        guesses=max(2, num_canaries // 5) if guesses is None else guesses,
        bound=bound,
        internal=False,
    )


def canary_scorer(plan: TrainingPlan, num_canaries: int) -> Scorer:
    """A compiled run of the plan with canaries."""
    if not plan.private:
        raise ValueError("a run without privacy has nothing to audit: every canary can be seen.")
    # steep enough for the clip to be what bounds it
    model = Axes(jnp.zeros(num_canaries), slope=100.0 * max(plan.clipping.sensitivity, 1.0))
    # the divisor is public; this one keeps the parameters at a size that float32 likes
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


def coins(number: int, secret: Secret) -> Bool[np.ndarray, " number"]:
    """A fair coin for each canary."""
    return (secret.words("coins", 0, number)[:, 0] & 1).astype(bool)


def claimed_epsilon(plan: TrainingPlan, delta: float) -> float:
    """What the ledger would say of a run of the plan."""
    return Ledger().spend(plan.event, purpose="training").epsilon(delta=delta)


def with_epsilon(plan: TrainingPlan, epsilon: float, delta: float) -> TrainingPlan:
    """The plan with the noise that makes a run cost this much."""
    from veilflow.privacy.budget import Budget
    from veilflow.privacy.calibration import noise_multiplier

    budget = Budget(epsilon=epsilon, delta=delta)
    noise = noise_multiplier(budget, sampling_rate=plan.sampling_rate, steps=plan.steps)
    return replace(plan, noise_multiplier=noise)
