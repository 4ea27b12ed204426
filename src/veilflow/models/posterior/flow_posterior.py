"""DP-NF-VI: the posterior of a scientific model, learned from private records.

After Su et al., "Differentially private normalizing flows for density estimation, data synthesis, and
variational inference with application to electronic health records" (2023), made sound (a public
divisor, no BatchNorm, the PLD accountant) and turned around: instead of thousands of noisy steps in the
units of the parameters, a few rounds release where the posterior lies and how wide it is, and the guide
is fitted to what was released. Steps through the engine remain, for shapes that are not normal.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from veilflow._core import check
from veilflow._core.errors import FewRecordsWarning
from veilflow._core.keys import Secret
from veilflow.engine import Flat, Optimizer, TrainingPlan, counting_bar, progress_bar, train
from veilflow.flows import FixedLinear
from veilflow.models.assumptions import assuming
from veilflow.models.posterior import fitting, rounds, training
from veilflow.models.posterior.fitted_posterior import FittedPosterior
from veilflow.models.posterior.flat_guide import FlatGuide
from veilflow.models.posterior.guides import Guide
from veilflow.models.posterior.objectives import OBJECTIVES
from veilflow.models.posterior.pricing import Prices, settle
from veilflow.models.posterior.records import opened
from veilflow.models.posterior.rounds import LogPrior, Surrogate
from veilflow.models.posterior.statistics import LogLikelihood
from veilflow.models.settings import check_budget, make_whole, warn_before
from veilflow.privacy.budget import Budget
from veilflow.privacy.guarantees import Sensitive
from veilflow.privacy.ledger import Ledger

_STEPS_WITHOUT_PRIVACY = 400
_RATE = 0.01
_DRAWS = 64
_UNCLIPPED = 1e9
_REACH = 2.0
"""Bound on a record's gradient in the steps, over what gradients were cut to in the rounds."""
FEW = (
    "there are few records for so much noise. Lengths of gradients hardly stand out of it, so they are "
    "cut by a guess that leaves room: the posterior is wider than with more records, and may be off by "
    "more than it says. More records or a larger epsilon would help; a new fit is a new spend"
)
"""What a fit warns of where `few` of its rounds is true."""


def flat_prior(theta: jax.Array) -> jax.Array:
    """A prior that is the same everywhere."""
    return 0.0 * jnp.sum(theta)


@dataclass(frozen=True, kw_only=True)
class FlowPosterior:
    """A posterior to be learned privately.

    Guarantee:
        Everything `fit` returns is (epsilon, delta)-differentially private as `budget` says, for
        adding or removing one record, by the PLD accountant. Likelihood, prior, start and scale
        count as declared; nothing else is read from the records without being paid.

    Args:
        log_likelihood: `log_likelihood(theta, record)` of one record and a vector of parameters, a
            function that JAX can trace. What makes a person's whole data is one record.
        parameters: How many parameters there are, or their names.
        budget: What the whole fit may spend. An infinite epsilon fits without privacy, for reference.
        log_prior: `log_prior(theta)`; flat where not given.
        start: Where the search begins, from knowledge and not from the records; zero by default.
        scale: How far off the start may be in each parameter, up to a factor of a few; 1 by default.
        guide: The family: a kind such as "maf", or a `vf.Guide`.
        objective: How the guide is fitted to what the rounds released: "free-energy", "renyi",
            "forward-kl", "wasserstein" or "sliced-wasserstein".
        precondition: Whether rounds release gradients and curvatures. Without them all is left to
            steps in the units of the parameters, as in the paper.
        noise_aware: Whether the posterior's width contains what the noise adds to its place.
        average: Whether late rounds are averaged.
        steps: Noisy steps through the engine after the rounds, on the free energy. None for none in a
            private fit, and 400 in one without privacy.
        num_records: How many records there are, if that may be known; the steps' public divisor. Where
            not given, the rounds' counts of lengths tell it.
        sampling_rate: The probability that a record enters a step.
        clip_norm: Bound on a record's gradient in a step; twice what the rounds found by default.
        num_draws: Draws of the guide in a step, shared by all records, averaged before the clip.
        learning_rate: Of Adam, with cosine decay.
        hardened: Noise from operating-system entropy on an integer grid.
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
    guide: Guide | str = "maf"
    objective: str = "free-energy"
    precondition: bool = True
    noise_aware: bool = True
    average: bool = True
    steps: int | None = None
    num_records: int | None = None
    sampling_rate: float = 1.0
    clip_norm: float | None = None
    num_draws: int = _DRAWS
    learning_rate: float = _RATE
    hardened: bool = False
    seed: int | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        check_budget(self.budget, hardened=self.hardened)
        if isinstance(self.guide, str):
            object.__setattr__(self, "guide", Guide(kind=self.guide))
        if not isinstance(self.guide, Guide):
            raise TypeError(
                f"guide must be a kind such as 'maf' or a vf.Guide, got {self.guide!r}."
            )
        for name in ("log_likelihood", "log_prior"):
            if not callable(getattr(self, name)):
                raise TypeError(f"{name} must be a function, got {getattr(self, name)!r}.")
        make_whole(self, "num_records", optional=True)
        make_whole(self, "num_draws")
        make_whole(self, "steps", at_least=0, optional=True)
        if not isinstance(self.parameters, int):
            object.__setattr__(self, "parameters", tuple(map(str, self.parameters)))
        check.count(parameters=self.dim)
        check.one_of(OBJECTIVES, objective=self.objective)
        check.rate(sampling_rate=self.sampling_rate)
        check.positive(learning_rate=self.learning_rate)
        self._place()
        if not self.precondition and not self._steps():
            raise ValueError(
                "without rounds there must be steps: give steps, or precondition=True."
            )
        if not self.precondition and None in (self.num_records, self.clip_norm):
            raise ValueError(
                "without rounds, declare num_records and give clip_norm for the steps."
            )
        if self._steps() and self.objective != "free-energy":
            raise ValueError(
                f"steps are for the free energy, a sum over records. objective={self.objective!r} is "
                "not: it sees records through the rounds only. Give steps=0."
            )
        Secret.from_seed(self.seed)

    @property
    def dim(self) -> int:
        """How many parameters there are."""
        return self.parameters if isinstance(self.parameters, int) else len(self.parameters)

    def fit(self, records: Any, *, progress: bool = True) -> FittedPosterior:
        """Learn the posterior. A second call is a second spend.

        Args:
            records: An array, a tuple or dictionary of arrays with the record as first axis, a frame,
                or the path of a file of numbers. `log_likelihood` gets one record of the same shape.
                A record at which its derivatives are not finite says nothing.
            progress: Show a progress bar on standard error.

        Returns:
            The posterior, which may be published.

        Raises:
            BudgetError: The settings cost more than the budget. Nothing was spent.
            ValueError: Records are empty or of unequal length.

        Warns:
            FewRecordsWarning: There are few records for the noise. `settings["rounds"]["few"]` of the
                posterior says so, too.
        """
        warn_before(self.budget, self.num_records)
        sensitive = opened(records)
        # settled before a record is looked at: composition is proved for noise fixed beforehand
        prices = self._prices()
        secret = Secret.from_seed(self.seed)
        start, scale = self._place()
        released, number, clip = None, self.num_records or 0.0, self.clip_norm
        guide = fitting.placed(self._guide, start, np.diag(scale**2), secret=secret)
        if prices.noises is not None:
            released = self._rounds(sensitive, prices, secret, progress)
            seen = released.aware() if self.noise_aware else released
            if released.unknown:
                warnings.warn(
                    f"in {released.unknown} of {self.dim} directions what was released is not told "
                    "from noise: there the posterior is the prior, within three times the scale. "
                    "More records or a larger epsilon would tell; a new fit is a new spend.",
                    stacklevel=2,
                )
            if released.few:
                warnings.warn(f"{FEW}.", FewRecordsWarning, stacklevel=2)
            guide = self._fitted(seen, secret)
            number = self.num_records or max(1.0, round(released.num_records))
            clip = clip or _REACH * released.length
        plan = None
        if self._steps():
            plan = self._plan(prices, number, float(clip or _UNCLIPPED))
            guide = self._train(plan, prices.ledger, guide, sensitive, secret, number, progress)
        ledger = self._assuming(prices.ledger, seeded=secret.chosen)
        return FittedPosterior(
            flow=guide.flow(),
            parameters=self._names(),
            ledger=ledger,
            guarantee=ledger.guarantee(delta=self.budget.delta),
            settings={
                "dim": self.dim,
                "guide": self._guide.to_json(),
                "objective": self.objective,
                "noise_aware": self.noise_aware,
                "rounds": None if released is None else _told(prices, released),
                "plan": None if plan is None else plan.to_json(),
            },
        )

    def ledger(self) -> Ledger:
        """All that a fit will spend: public, and known before the records are.

        Raises:
            BudgetError: The settings cost more than the budget.
        """
        return self._assuming(self._prices().ledger, seeded=self.seed is not None)

    @property
    def _guide(self) -> Guide:
        assert isinstance(self.guide, Guide)
        return self.guide

    def _names(self) -> tuple[str, ...]:
        if isinstance(self.parameters, int):
            return tuple(f"theta{i}" for i in range(self.dim))
        return tuple(self.parameters)

    def _steps(self) -> int:
        if self.steps is not None:
            return self.steps
        return (
            0 if self.budget.private or self.objective != "free-energy" else _STEPS_WITHOUT_PRIVACY
        )

    def _place(self) -> tuple[np.ndarray, np.ndarray]:
        """Start and scale, one number a parameter."""
        found = []
        for name in ("start", "scale"):
            value = np.asarray(getattr(self, name), np.float64)
            if value.shape not in ((), (self.dim,)) or not np.isfinite(value).all():
                raise ValueError(
                    f"{name} must be a finite number, or one for each of {self.dim} parameters, got "
                    f"shape {value.shape}."
                )
            found.append(np.broadcast_to(value, (self.dim,)).copy())
        if not (found[1] > 0).all():
            raise ValueError("scale must be positive.")
        return found[0], found[1]

    def _prices(self) -> Prices:
        steps = self._steps()
        start, scale = self._place()
        guide = ()
        if steps and self.hardened:
            guide = fitting.placed(
                self._guide, start, np.diag(scale**2), secret=Secret.from_seed(0)
            )
        return settle(
            self.budget,
            dim=self.dim,
            precondition=self.precondition,
            steps=steps,
            sampling_rate=self.sampling_rate,
            hardened=self.hardened,
            guide=guide,
        )

    def _rounds(
        self, records: Sensitive[Any], prices: Prices, secret: Secret, progress: bool
    ) -> Surrogate:
        assert prices.noises is not None
        start, scale = self._place()
        with counting_bar("rounds", rounds.EARLY + rounds.LATE, show=progress) as monitor:
            return rounds.private_rounds(
                self.log_likelihood,
                self.log_prior,
                records,
                start=start,
                scale=scale,
                noises=prices.noises,
                average=self.average,
                secret=secret,
                hardened=self.hardened,
                monitor=monitor,
            ).value

    def _fitted(self, surrogate: Surrogate, secret: Secret) -> FlatGuide:
        """The guide, fitted to what the rounds released."""
        target = fitting.target_of(surrogate, self.log_prior)
        mean, covariance = rounds.normal_of(surrogate, self.log_prior)
        guide = fitting.placed(self._guide, mean, covariance, secret=secret)
        around = FixedLinear.from_moments(mean, covariance)
        return fitting.fitted_to(target, guide, name=self.objective, secret=secret, around=around)

    def _plan(self, prices: Prices, num_records: float, clip_norm: float) -> TrainingPlan:
        return TrainingPlan(
            clipping=Flat(clip_norm if self.budget.private else _UNCLIPPED),
            noise_multiplier=prices.noise_multiplier,
            sampling_rate=self.sampling_rate,
            expected_batch_size=self.sampling_rate * num_records,
            steps=self._steps(),
            optimizer=Optimizer(learning_rate=self.learning_rate),
            ema_decay=0.98 if self.average else None,
            hardened=self.hardened,
            private=self.budget.private,
        )

    def _train(
        self,
        plan: TrainingPlan,
        ledger: Ledger,
        guide: FlatGuide,
        records: Sensitive[Any],
        secret: Secret,
        num_records: float,
        progress: bool,
    ) -> FlatGuide:
        with progress_bar(
            plan, ledger, delta=self.budget.delta, total_epsilon=self.budget.epsilon, show=progress
        ) as monitor:
            return train(
                plan,
                training.record_loss(self.log_likelihood, self.num_draws),
                guide,
                records,
                secret=secret,
                public_loss_fn=training.public_loss(
                    self.log_prior, self.num_draws, float(num_records)
                ),
                monitor=monitor,
            ).value

    def _assuming(self, ledger: Ledger, *, seeded: bool) -> Ledger:
        what = "likelihood, prior, start and scale"
        if self.num_records is not None:
            what += ", and the number of records,"
        ledger = ledger.assuming(f"{what} were declared, not read from the records")
        generator = not self.hardened or self._steps() > 0
        return assuming(ledger, hardened=self.hardened, generator=generator, seeded=seeded)


def _told(prices: Prices, released: Surrogate) -> dict[str, Any]:
    """What the rounds released, as plain JSON."""
    assert prices.noises is not None
    return {
        "noise_multipliers": vars(prices.noises),
        "mean": released.mean.tolist(),
        "precision": released.precision.tolist(),
        "noise": released.noise.tolist(),
        "num_records": released.num_records,
        "unknown": released.unknown,
        "few": released.few,
    }
