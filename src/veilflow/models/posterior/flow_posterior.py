"""DP-NF-VI: the posterior of a scientific model, learned from private records.

After Su et al., "Differentially private normalizing flows for density estimation, data synthesis, and
variational inference with application to electronic health records" (2023), made sound (a public
divisor, no BatchNorm, the PLD accountant) and turned around: instead of thousands of noisy steps in the
units of the parameters, a few rounds release where the posterior lies and how wide it is, and the guide
is fitted to what was released. For shapes that are not normal, rounds of values follow
(`Guide(target="values")`). Steps through the engine remain.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp

from veilflow._core import fields
from veilflow._core.functions import code_hash
from veilflow.engine.training import Training
from veilflow.models.estimator import Estimator, Fit, Source, facts_of
from veilflow.models.posterior import posterior_parts as parts
from veilflow.models.posterior import posterior_plan as plans
from veilflow.models.posterior.fitted_posterior import FittedPosterior
from veilflow.models.posterior.guides import Guide, skeleton
from veilflow.models.posterior.posterior_plan import PosteriorPlan
from veilflow.models.settings import check_budget, is_training, seed
from veilflow.privacy.budget import Budget
from veilflow.privacy.unit import Unit
from veilflow.releases.release import Query, Release
from veilflow.releases.rounds.newton import NewtonRounds
from veilflow.releases.rounds.statistics import LogLikelihood
from veilflow.releases.rounds.surrogate import LogPrior
from veilflow.releases.rounds.values import LikelihoodValues
from veilflow.releases.training import PrivateTraining


def flat_prior(theta: jax.Array) -> jax.Array:
    """An improper prior that is the same everywhere."""
    return 0.0 * jnp.sum(theta)


@dataclass(frozen=True, kw_only=True)
class FlowPosterior(Estimator[FittedPosterior]):
    """A posterior to be learned privately.

    Guarantee:
        Everything `fit` returns is (epsilon, delta)-differentially private as `budget` says, for
        adding or removing one record, by the PLD accountant. Likelihood, prior, start and scale
        count as declared; nothing else is read from the records without being paid.

    A checkpoint is bound to the code of both functions, as far as `code_hash` sees it, and to the
    version of Python. Where a function calls code in other files, do not change that code before an
    interrupted fit is resumed.

    Args:
        log_likelihood: `log_likelihood(theta, record)` of a vector of parameters and one record, a
            function that JAX can trace. All data of one person make one record.
        parameters: The number of parameters, or their names.
        budget: What the whole fit may spend. An infinite epsilon fits without privacy, for reference.
        log_prior: `log_prior(theta)`; flat by default.
        start: Where the search begins, from knowledge and not from the records; zero by default.
        scale: How far off the start may be in each parameter, up to a factor of a few; 1 by default.
        flow: The family of the posterior and how it is fitted: a `vf.Guide(...)`, or only its kind,
            such as "maf".
        precondition: Whether rounds release gradients and curvatures. Without them everything is left
            to noisy steps in the units of the parameters, as in the paper.
        training: Noisy steps on the free energy after the rounds, as `vf.Training(steps=...)`. By
            default a private fit has none, and one without privacy has 400. Unless given, the clip
            norm is twice that of the gradients in the rounds. `ema_decay=None` turns off averages,
            also that of late rounds.
        num_records: The number of records, if it may be known; the public divisor of the steps. By
            default the rounds estimate it, from their counts of gradient lengths.
        seed: For repeatable research, and for one fit only. The guarantee then says so.

    Example:
        >>> import jax.numpy as jnp, numpy as np, veilflow as vf
        >>> heights = np.random.default_rng(0).normal(1.7, 0.1, size=2000)
        >>> estimator = vf.FlowPosterior(
        ...     log_likelihood=lambda theta, x: -0.5 * ((x - theta[0]) / 0.1) ** 2,
        ...     parameters=("mean",),
        ...     budget=vf.Budget(epsilon=1.0, delta=1e-6),
        ... )
        >>> posterior = estimator.fit(heights)  # doctest: +SKIP
    """

    log_likelihood: LogLikelihood
    parameters: int | Sequence[str]
    budget: Budget
    log_prior: LogPrior = flat_prior
    start: Any = 0.0
    scale: Any = 1.0
    flow: Guide | str = "maf"
    precondition: bool = True
    training: Training = field(default_factory=Training)
    num_records: int | None = None
    seed: int | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        check_budget(self.budget)
        fields.convert(
            self,
            log_likelihood=plans.function,
            log_prior=plans.function,
            parameters=plans.names_or_count,
            flow=plans.guide,
            precondition=fields.flag,
            training=is_training,
            num_records=fields.optional(fields.count()),
            seed=seed,
        )
        fields.convert(
            self,
            start=lambda name, value: plans.one_each(name, fields.finite, value, self.dim),
            scale=lambda name, value: plans.one_each(name, fields.positive, value, self.dim),
        )
        assert isinstance(self.flow, Guide)
        plans.check_values(self.flow, self.dim)
        _ = self._training  # refuses settings that do not go together

    @property
    def dim(self) -> int:
        """Number of parameters."""
        return self.parameters if isinstance(self.parameters, int) else len(self.parameters)

    def plan(self) -> PosteriorPlan:
        """Everything that a fit will ask and pay: public, and known before the records are.

        Raises:
            BudgetError: The settings cost more than the budget.
        """
        assert isinstance(self.flow, Guide)
        training, place = self._training, {"start": self.start, "scale": self.scale}
        rounds = None
        if self.precondition:
            average = training.ema_decay is not None
            rounds = NewtonRounds(**place, noise_multiplier=0.0, average=average)
        size = skeleton(self.flow, self.dim).size
        return PosteriorPlan(
            model="FlowPosterior",
            budget=self.budget,
            releases=plans.releases(
                self.budget,
                rounds,
                training,
                num_parameters=size,
                values=self.flow.target == "values",
            ),
            declared=("likelihood", "prior", "start", "scale"),
            num_records=self.num_records,
            seeded=self.seed is not None,
            unit=Unit.RECORD,
            **place,
            flow=self.flow,
            likelihood=code_hash(self.log_likelihood),
            prior=code_hash(self.log_prior),
        )

    def read(self, data: Any) -> Source:
        """The records of `data`.

        Args:
            data: An array, a tuple or dictionary of arrays with the record as first axis, a frame, or
                the path of a file of numbers. `log_likelihood` gets one record of the same shape. A
                record at which its derivatives are not finite adds nothing.
        """
        return Source(parts.read_records(data))

    def query(self, release: Release, fit: Fit) -> Query:
        functions: Any = {"log_likelihood": self.log_likelihood, "log_prior": self.log_prior}
        if isinstance(release, PrivateTraining):
            return Query(fit.source.records, {"task": parts.task(release, fit, **functions)})
        if isinstance(release, LikelihoodValues):
            asked = parts.explored(fit, log_prior=self.log_prior).next_question()
            return Query(fit.source.records, {"log_likelihood": self.log_likelihood, **asked})
        return Query(fit.source.records, functions)

    def assemble(self, fit: Fit) -> FittedPosterior:
        parts.warn_of_noise(fit)
        names = self.parameters
        facts = {"num_records": parts.num_records(fit), **parts.facts(fit)}
        return FittedPosterior(
            flow=parts.guide(fit, log_prior=self.log_prior).flow(),
            parameters=(
                tuple(f"theta{i}" for i in range(names)) if isinstance(names, int) else tuple(names)
            ),
            plan=fit.plan,
            guarantee=fit.plan.guarantee,
            facts=facts_of(fit.plan, **facts),
        )

    @property
    def _training(self) -> Training:
        """All settings of the steps."""
        assert isinstance(self.flow, Guide)
        return plans.resolved_training(
            self.training,
            budget=self.budget,
            flow=self.flow,
            precondition=self.precondition,
            num_records=self.num_records,
        )
