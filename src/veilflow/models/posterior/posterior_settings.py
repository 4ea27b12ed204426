"""Settings of a posterior: rules for its fields, and the steps that they ask for."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp

from veilflow._core import fields
from veilflow.engine.training import Training
from veilflow.models.posterior.guides import Guide
from veilflow.privacy.budget import Budget

_STEPS_WITHOUT_PRIVACY = 400
_UNCLIPPED = 1e9
_STEPS_FOR = "free-energy"
"""The one objective that is a sum over records, which steps can be taken on."""


def flat_prior(theta: jax.Array) -> jax.Array:
    """A prior that is the same everywhere."""
    return 0.0 * jnp.sum(theta)


def resolved(
    training: Training,
    *,
    budget: Budget,
    objective: str,
    precondition: bool,
    num_records: int | None,
) -> Training:
    """All settings of the steps, but for a clip norm that is left to the rounds.

    Args:
        training: As the user gave it.
        budget: Of the whole fit.
        objective: Of the fit; steps are for the free energy only.
        precondition: Whether there are rounds.
        num_records: If declared.

    Raises:
        ValueError: A setting is of no use to this fit, or one that it needs is not given.
    """
    usual: dict[str, Any] = {
        "steps": 0,
        "learning_rate": 0.01,
        "optimizer": "adam",
        "weight_decay": 0.0,
        "ema_decay": 0.98,
    }
    if not budget.private:
        usual["clip_norm"] = _UNCLIPPED
        usual["steps"] = _STEPS_WITHOUT_PRIVACY if objective == _STEPS_FOR else 0
    rate = training.rate(num_records)
    whole = training.resolved(sampling_rate=1.0 if rate is None else rate, **usual)
    _check_steps(training, whole.steps, objective, precondition, num_records)
    if whole.steps:
        # only for its refusals: the steps come after the rounds, when these are spent
        filled = replace(whole, clip_norm=1.0 if whole.clip_norm is None else whole.clip_norm)
        filled.plan(noise_multiplier=1.0, expected_batch_size=1.0)
    return whole


def _check_steps(
    training: Training,
    steps: int | None,
    objective: str,
    precondition: bool,
    num_records: int | None,
) -> None:
    """Raise unless the settings of the steps are of use to the fit, and enough."""
    if not precondition and not steps:
        raise ValueError(
            "without rounds there must be steps: give training=vf.Training(steps=...), or "
            "precondition=True."
        )
    if not precondition and None in (num_records, training.clip_norm):
        raise ValueError("without rounds, declare num_records and give clip_norm for the steps.")
    unused = sorted(set(training.given) - {"steps", "ema_decay"})  # late rounds are averaged, too
    if unused and not steps:
        raise ValueError(
            f"{', '.join(unused)} {'is' if len(unused) == 1 else 'are'} for steps, and this fit has "
            "none. Leave out what is for steps, or give training=vf.Training(steps=...)."
        )
    if steps and objective != _STEPS_FOR:
        raise ValueError(
            f"steps are for the free energy, a sum over records. objective={objective!r} is not: it "
            "sees records through the rounds only. Give steps=0."
        )


def one_each(name: str, value: float | tuple[float, ...], dim: int) -> tuple[float, ...]:
    """One number for each parameter, of a setting that may be one for all.

    Raises:
        ValueError: There are more or fewer.
    """
    if not isinstance(value, tuple):
        return (value,) * dim
    if len(value) != dim:
        raise ValueError(
            f"{name} must be a finite number, or one for each of {dim} parameters, got {len(value)}."
        )
    return value


def names_or_count(name: str, value: Any) -> int | tuple[str, ...]:
    """A rule for fields: how many parameters there are, or a text for each of them."""
    if isinstance(value, list | tuple) and all(isinstance(one, str) for one in value):
        if not value:
            raise ValueError(f"{name} must name at least one parameter, got none.")
        return tuple(value)
    if isinstance(value, str | list | tuple):
        raise TypeError(f"{name} must be a number of parameters, or a list of their names.")
    return fields.count()(name, value)


def guide(name: str, value: Any) -> Guide:
    """A rule for fields: a guide, or its kind."""
    if isinstance(value, str):
        return Guide(kind=value)
    return fields.instance(Guide, "a kind such as 'maf', or vf.Guide(...)")(name, value)


def function(name: str, value: Any) -> Any:
    """A rule for fields: something to be called."""
    if not callable(value):
        raise TypeError(f"{name} must be a function, got {value!r}.")
    return value
