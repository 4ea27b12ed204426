"""The plan of a posterior: rounds, noisy steps or both, and the rules for the settings behind it."""

from dataclasses import dataclass, replace
from typing import Any

from veilflow._core import fields
from veilflow.engine.training import Training
from veilflow.models.posterior.exploration import num_points
from veilflow.models.posterior.guides import Guide
from veilflow.privacy import calibration
from veilflow.privacy.budget import Budget
from veilflow.privacy.unit import Unit
from veilflow.releases.plan import FitPlan, spending
from veilflow.releases.release import Release
from veilflow.releases.rounds.newton import NewtonRounds
from veilflow.releases.rounds.values import LikelihoodValues
from veilflow.releases.training import PrivateTraining

_ROUNDS_SHARE = 0.6
"""Share of the budget that the rounds take where steps follow, in squared signal-to-noise ratio."""
_BEFORE_VALUES = 0.3
"""The same where values of the log-likelihood follow."""
_MOST_WITH_VALUES = 12
_STEPS_WITHOUT_PRIVACY = 400
_UNCLIPPED = 1e9
_FREE_ENERGY = "free-energy"
"""The one objective that is a sum over records, so that steps can be taken on it."""


@dataclass(frozen=True, kw_only=True, repr=False)
class PosteriorPlan(FitPlan):
    """The plan of a posterior.

    Attributes:
        start: Where the search begins, one number per parameter.
        scale: How far off the start may be.
        flow: The family in which the posterior is sought, and how it is fitted.
        likelihood: A hash of the code of the likelihood (see `code_hash`), so that a checkpoint is
            not resumed with another one.
        prior: The same for the prior.
    """

    start: tuple[float, ...]
    scale: tuple[float, ...]
    flow: Guide
    likelihood: str
    prior: str

    @property
    def dim(self) -> int:
        """Number of parameters."""
        return len(self.start)


def releases(
    budget: Budget,
    rounds: NewtonRounds | None,
    training: Training,
    *,
    num_parameters: int,
    values: bool = False,
) -> tuple[Release, ...]:
    """Rounds, if any, with values or steps of a resolved training; together they spend the budget.

    Raises:
        BudgetError: Nothing is left for one of the two.
    """
    unpriced = float(budget.private)
    queries: list[Release] = []
    if rounds is not None:
        noise = unpriced
        if budget.private and (training.steps or values):
            share = _BEFORE_VALUES if values else _ROUNDS_SHARE
            noise = _noise_of(budget, share)
        queries.append(replace(rounds, noise_multiplier=noise))
        if values:
            queries += _rounds_of_values(budget, len(rounds.start))
    if training.steps:
        price = {"noise_multiplier": unpriced, "num_parameters": num_parameters}
        queries.append(PrivateTraining(settings=training, **price))
    return spending(budget, tuple(queries), unit=Unit.RECORD)


def check_values(flow: Guide, dim: int) -> None:
    """Raise if there are too many parameters for values at points."""
    if flow.target == "values" and dim > _MOST_WITH_VALUES:
        raise ValueError(
            f'target="values" is for at most {_MOST_WITH_VALUES} parameters, got {dim}: points in more '
            'dimensions are too far from each other. Give target="quadratic".'
        )


def _rounds_of_values(budget: Budget, dim: int) -> list[Release]:
    """Rounds of values with equal shares of what the rounds leave."""
    numbers = num_points(dim)
    share = (1 - _BEFORE_VALUES) / len(numbers)
    noise = _noise_of(budget, share) if budget.private else 0.0
    return [
        LikelihoodValues(
            purpose=f"values of the log-likelihood, {i + 1}",
            round_=i,
            num_points=number,
            noise_multiplier=noise,
        )
        for i, number in enumerate(numbers)
    ]


def _noise_of(budget: Budget, share: float) -> float:
    """The noise multiplier of a release with this share of the price, in squared mu."""
    return 1 / (calibration.gaussian_mu(budget) * share**0.5)


def resolved_training(
    training: Training,
    *,
    budget: Budget,
    flow: Guide,
    precondition: bool,
    num_records: int | None,
) -> Training:
    """The user's training with all settings filled in, except a clip norm left to the rounds.

    Raises:
        ValueError: The fit has no use for a setting, or lacks one that it needs.
    """
    defaults: dict[str, Any] = {
        "steps": 0,
        "learning_rate": 0.01,
        "optimizer": "adam",
        "weight_decay": 0.0,
        "ema_decay": 0.98,
    }
    if not budget.private:
        defaults["clip_norm"] = _UNCLIPPED
        by_steps = flow.objective == _FREE_ENERGY and flow.target == "quadratic"
        defaults["steps"] = _STEPS_WITHOUT_PRIVACY if by_steps else 0
    rate = training.rate(num_records)
    settings = training.resolved(sampling_rate=1.0 if rate is None else rate, **defaults)
    _check_rounds_or_steps(training, settings.steps, precondition, num_records)
    if flow.target == "values" and (settings.steps or not precondition):
        raise ValueError(
            'a guide with target="values" is fitted to what rounds release, without steps. Leave out '
            'training and precondition, or give target="quadratic".'
        )
    if settings.steps and flow.objective != _FREE_ENERGY:
        raise ValueError(
            "steps are for the free energy, a sum over records. "
            f"objective={flow.objective!r} is not one: it sees records through the rounds only. Give "
            "steps=0."
        )
    if settings.steps:
        # only for its refusals: steps come after the rounds, when these are already paid for
        clip_norm = 1.0 if settings.clip_norm is None else settings.clip_norm
        complete = replace(settings, clip_norm=clip_norm)
        complete.plan(noise_multiplier=1.0, expected_batch_size=1.0)
    return settings


def _check_rounds_or_steps(
    training: Training, steps: int | None, precondition: bool, num_records: int | None
) -> None:
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


def one_each(name: str, rule: fields.Rule, value: Any, dim: int) -> tuple[float, ...]:
    """A rule for fields: one number per parameter, or one for all of them."""
    numbers = fields.one_or_each(rule)(name, value)
    if not isinstance(numbers, tuple):
        return (numbers,) * dim
    if len(numbers) != dim:
        raise ValueError(
            f"{name} must be a number, or one for each of {dim} parameters, got {len(numbers)}."
        )
    return numbers


def names_or_count(name: str, value: Any) -> int | tuple[str, ...]:
    """A rule for fields: the number of parameters, or their names."""
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
    """A rule for fields: a function."""
    if not callable(value):
        raise TypeError(f"{name} must be a function, got {value!r}.")
    return value
