"""DP-NF-VI: the posterior of a scientific model, learned from private records.

After Su et al., "Differentially private normalizing flows for density estimation, data synthesis, and
variational inference with application to electronic health records" (2023), made sound (a public
divisor, no BatchNorm, the PLD accountant) and turned around: instead of thousands of noisy steps in the
units of the parameters, a few rounds release where the posterior lies and how wide it is, and the guide
is fitted to what was released. Steps through the engine remain, for shapes that are not normal.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from veilflow._core import fields
from veilflow._core.functions import code_hash
from veilflow.engine.training import Training
from veilflow.models.estimator import Estimator, Fit, Source, facts_of
from veilflow.models.posterior import posterior_parts as parts
from veilflow.models.posterior import posterior_settings as settings
from veilflow.models.posterior.fitted_posterior import FittedPosterior
from veilflow.models.posterior.guides import Guide, skeleton
from veilflow.models.posterior.objectives import OBJECTIVES
from veilflow.models.posterior.posterior_plan import PosteriorPlan, releases
from veilflow.models.posterior.records import opened
from veilflow.models.settings import check_budget, is_training, seed
from veilflow.privacy.budget import Budget
from veilflow.privacy.unit import Unit
from veilflow.releases.release import Query, Release
from veilflow.releases.rounds.newton import NewtonRounds
from veilflow.releases.rounds.statistics import LogLikelihood
from veilflow.releases.rounds.surrogate import LogPrior
from veilflow.releases.training import PrivateTraining


@dataclass(frozen=True, kw_only=True)
class FlowPosterior(Estimator[FittedPosterior]):
    """A posterior to be learned privately.

    Guarantee:
        Everything `fit` returns is (epsilon, delta)-differentially private as `budget` says, for
        adding or removing one record, by the PLD accountant. Likelihood, prior, start and scale
        count as declared; nothing else is read from the records without being paid.

    A checkpoint is bound to the code of both functions, as far as `code_hash` sees it, and to the
    version of Python. Where a function calls code of other files, do not change these before an
    interrupted fit goes on.

    Args:
        log_likelihood: `log_likelihood(theta, record)` of one record and a vector of parameters, a
            function that JAX can trace. What makes a person's whole data is one record.
        parameters: How many parameters there are, or their names.
        budget: What the whole fit may spend. An infinite epsilon fits without privacy, for reference.
        log_prior: `log_prior(theta)`; flat where not given.
        start: Where the search begins, from knowledge and not from the records; zero by default.
        scale: How far off the start may be in each parameter, up to a factor of a few; 1 by default.
        flow: The family: a kind such as "maf", or a `vf.Guide`.
        objective: How the guide is fitted to what the rounds released: "free-energy", "renyi",
            "forward-kl", "wasserstein" or "sliced-wasserstein".
        precondition: Whether rounds release gradients and curvatures. Without them all is left to
            steps in the units of the parameters, as in the paper.
        noise_aware: Whether the posterior's width contains what the noise adds to its place.
        training: Noisy steps through the engine after the rounds, on the free energy, as
            `vf.Training(steps=...)`; none by default in a private fit, and 400 in one without privacy.
            The clip norm is twice what the rounds cut gradients to, unless given. `ema_decay=None`
            turns off averages, also that of late rounds.
        num_records: How many records there are, if that may be known; the steps' public divisor. Where
            not given, the rounds' counts of lengths tell it.
        num_draws: Draws of the guide in a step, shared by all records, averaged before the clip.
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
    log_prior: LogPrior = settings.flat_prior
    start: Any = 0.0
    scale: Any = 1.0
    flow: Guide | str = "maf"
    objective: str = "free-energy"
    precondition: bool = True
    noise_aware: bool = True
    training: Training = field(default_factory=Training)
    num_records: int | None = None
    num_draws: int = 64
    seed: int | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        check_budget(self.budget)
        fields.convert(
            self,
            log_likelihood=settings.function,
            log_prior=settings.function,
            parameters=settings.names_or_count,
            start=fields.one_or_each(fields.finite),
            scale=fields.one_or_each(fields.positive),
            flow=settings.guide,
            objective=fields.word(*OBJECTIVES),
            precondition=fields.flag,
            noise_aware=fields.flag,
            training=is_training,
            num_records=fields.optional(fields.count()),
            num_draws=fields.count(),
            seed=seed,
        )
        _ = self._place, self._training  # or they say what is wrong

    @property
    def dim(self) -> int:
        """How many parameters there are."""
        return self.parameters if isinstance(self.parameters, int) else len(self.parameters)

    def plan(self) -> PosteriorPlan:
        """Everything that a fit will ask and pay: public, and known before the records are.

        Raises:
            BudgetError: The settings cost more than the budget.
        """
        assert isinstance(self.flow, Guide)
        training, (start, scale) = self._training, self._place
        rounds = None
        if self.precondition:
            average = training.ema_decay is not None
            rounds = NewtonRounds(start=start, scale=scale, noise_multiplier=0.0, average=average)
        size = skeleton(self.flow, self.dim).size
        return PosteriorPlan(
            model="FlowPosterior",
            budget=self.budget,
            releases=releases(self.budget, rounds, training, num_parameters=size),
            declared=("likelihood", "prior", "start", "scale"),
            num_records=self.num_records,
            seeded=self.seed is not None,
            unit=Unit.RECORD,
            start=start,
            scale=scale,
            flow=self.flow,
            objective=self.objective,
            noise_aware=self.noise_aware,
            num_draws=self.num_draws,
            likelihood=code_hash(self.log_likelihood),
            prior=code_hash(self.log_prior),
        )

    def read(self, data: Any) -> Source:
        """The records of `data`.

        Args:
            data: An array, a tuple or dictionary of arrays with the record as first axis, a frame, or
                the path of a file of numbers. `log_likelihood` gets one record of the same shape. A
                record at which its derivatives are not finite says nothing.
        """
        return Source(opened(data))

    def query(self, release: Release, fit: Fit) -> Query:
        functions: Any = {"log_likelihood": self.log_likelihood, "log_prior": self.log_prior}
        if isinstance(release, PrivateTraining):
            return Query(fit.source.records, {"task": parts.task(release, fit, **functions)})
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
    def _place(self) -> tuple[tuple[float, ...], ...]:
        """Start and scale, one number a parameter."""
        return tuple(settings.one_each(n, getattr(self, n), self.dim) for n in ("start", "scale"))

    @property
    def _training(self) -> Training:
        """All settings of the steps."""
        return settings.resolved(
            self.training,
            budget=self.budget,
            objective=self.objective,
            precondition=self.precondition,
            num_records=self.num_records,
        )
