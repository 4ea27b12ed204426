"""DP-NF: a private density over rows of numbers, by a normalizing flow.

After Waites and Cummings, "Differentially private normalizing flows for privacy-preserving density
estimation" (2021), made sound: Poisson sampling, add/remove adjacency, a public divisor, declared
bounds instead of scaling by the data, a fixed number of steps, and the PLD accountant. What the paper
reads from the data for free (means, scales, priors) is released first and paid for.
"""

import os
import warnings
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from veilflow._core import check
from veilflow._core.errors import PrivacyError
from veilflow._core.keys import Secret
from veilflow.engine import Checkpoint, TrainingPlan, progress_bar, train
from veilflow.flows import Flow, StandardNormal
from veilflow.models import domain as domains
from veilflow.models import planner
from veilflow.models.architecture import Architecture
from veilflow.models.assembly import Assembly, in_order, join
from veilflow.models.assumptions import assuming, declared
from veilflow.models.domain import Box, Domain
from veilflow.models.fitted_density import FittedDensityFlow
from veilflow.models.planner import Recipe
from veilflow.models.pricing import Counts, learn_facts, settle, training_plan, training_price
from veilflow.models.settings import check_budget, check_used, make_whole, opened, warn_before
from veilflow.models.starting import Started, begin
from veilflow.privacy.budget import Budget
from veilflow.privacy.ledger import Ledger

_EMA_DECAY = 0.99


@dataclass(frozen=True, kw_only=True)
class DensityFlow:
    """A density model to be fitted privately to rows of numbers.

    Guarantee:
        Everything `fit` returns is (epsilon, delta)-differentially private as `budget` says, for
        adding or removing one row, by the PLD accountant. Bounds, and the number of records if
        given, count as declared public facts; nothing else is read from the rows without being paid.

    Only the budget and the bounds have to be given. What is left at None or "auto" is set by
    `models/planner.py`, from public facts alone. A setting that the fit would not look at, such as
    `clip_norm` where a grid is all of it, is refused.

    Args:
        budget: What the whole fit may spend. An infinite epsilon fits without privacy, for reference.
        bounds: `(low, high)`, numbers or one per column, from knowledge of the domain and not from
            the rows. Rows outside are clamped.
        row_norm: Instead of bounds: the largest Euclidean norm of a row.
        num_records: How many records there are, if that may be known. Otherwise a private count is
            paid for with 2 % of epsilon.
        flow: The flow to train, as `vf.maf(...)`, `vf.nsf(...)` or `vf.realnvp(...)`.
        base: What the flow starts from: "normal", or "mixture" for a paid one (a grid in up to three
            dimensions of a box, private EM in more).
        num_components: Normals of a base by private EM.
        start: What is released before training: "whitening" (mean and covariance), "columns" (every
            column made normal, then whitening), "grid" (a density on a grid), "actnorm" (scales and
            shifts inside the flow), or "none".
        steps: Noisy steps; 0 where the start shall be all.
        batch_size: Expected records in a step, where `num_records` is declared.
        sampling_rate: Instead of `batch_size`: the probability that a record enters a step.
        clip_norm: Bound on one record's gradient.
        learning_rate: Of Adam, with cosine decay.
        weight_decay: Pull of the weights to zero.
        ema_decay: Decay of the parameter average that is returned.
        count_clamped: Also release, for 2 % of epsilon, how many rows lay outside the bounds.
        hardened: Noise from operating-system entropy on an integer grid.
        seed: For repeatable research, and for one fit only: two fits with one seed have the same
            noise. The guarantee then says that the seed was chosen. Paid counts and grids stay
            random: declare `num_records` for runs that repeat exactly.

    Example:
        >>> import numpy as np, veilflow as vf
        >>> rows = np.random.default_rng(0).uniform(size=(1000, 2))
        >>> estimator = vf.DensityFlow(budget=vf.Budget(epsilon=1.0, delta=1e-6), bounds=(0, 1))
        >>> model = estimator.fit(rows)  # doctest: +SKIP
    """

    budget: Budget
    bounds: Any = None
    row_norm: float | None = None
    num_records: int | None = None
    flow: Architecture | None = None
    base: str = "auto"
    start: str = "auto"
    num_components: int | None = None
    steps: int | None = None
    batch_size: int | None = None
    sampling_rate: float | None = None
    clip_norm: float | None = None
    learning_rate: float | None = None
    weight_decay: float | None = None
    ema_decay: float | None = _EMA_DECAY
    count_clamped: bool = False
    hardened: bool = False
    seed: int | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        check_budget(self.budget, hardened=self.hardened)
        if self.flow is not None and not isinstance(self.flow, Architecture):
            raise TypeError(
                f"flow must be vf.maf(...), vf.nsf(...) or vf.realnvp(...), got {self.flow!r}."
            )
        domain = self._domain()
        check.one_of(("auto", "normal", "mixture"), base=self.base)
        check.one_of(("auto", *planner.STARTS), start=self.start)
        if self.start == "grid" and not isinstance(domain, Box):
            raise ValueError("start='grid' needs bounds: a ball has no axes to cut along.")
        if self.start == "grid" and self.base == "normal":
            raise ValueError("start='grid' makes the base. Leave base out, or give another start.")
        if self.start == "actnorm" and self.base == "mixture":
            raise ValueError("start='actnorm' leads to a normal base. Give another start or base.")
        if self.start == "columns" and not isinstance(domain, Box):
            raise ValueError("start='columns' needs bounds for every column. Give bounds.")
        make_whole(self, "num_records", "batch_size", "num_components", optional=True)
        make_whole(self, "steps", at_least=0, optional=True)
        self._rate()
        for name in ("clip_norm", "learning_rate", "weight_decay", "ema_decay"):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, float(value))
        given = {
            n: v for n in ("clip_norm", "learning_rate") if (v := getattr(self, n)) is not None
        }
        check.positive(**given)
        if self.weight_decay is not None:
            check.nonnegative(weight_decay=self.weight_decay)
        if self.ema_decay is not None:
            check.fraction(ema_decay=self.ema_decay)
        Secret.from_seed(self.seed)

    def fit(
        self,
        rows: Any,
        *,
        progress: bool = True,
        checkpoint: str | os.PathLike[str] | None = None,
        save_as: str | os.PathLike[str] | None = None,
    ) -> FittedDensityFlow:
        """Fit the density. A second call is a second spend.

        Args:
            rows: A two-dimensional array, a frame, or the path of a CSV, Parquet, Arrow or NumPy
                file. Every cell a finite number.
            progress: Show a progress bar on standard error.
            checkpoint: A file to leave the run's state in. If it is there already, the run it
                belongs to goes on, with the same secret, noise and counts and without new spending.
                Keep it secret; it is removed when the fit is done. Not for hardened fits or grids.
            save_as: A file to save the model in before the checkpoint is removed, so that a full
                disk does not lose what was paid for.

        Returns:
            The fitted model, which may be published.

        Raises:
            BudgetError: The settings cost more than the budget. Nothing was spent.
            ValueError: Rows are not a table of finite numbers or do not fit the bounds.
            PrivacyError: The checkpoint belongs to other rows or settings.
        """
        warn_before(self.budget, self.num_records)
        domain = self._domain()
        table, sensitive = opened(rows, domain)

        # Everything that decides the price is settled here, before a record is looked at and whatever
        # will be released: composition is proved for parameters that do not depend on the data.
        dim = table.values.shape[1]
        recipe = self.recipe(dim)
        counts = self._counts()
        prices = settle(recipe, dim, self.budget, counts=counts, hardened=self.hardened)
        file = None if checkpoint is None else Checkpoint(checkpoint)
        if file is not None:
            file.check_replayable(hardened=self.hardened)
            if recipe.start == "grid" or not recipe.steps:
                raise ValueError(
                    "a fit that starts from a grid or has no steps keeps no checkpoint: its counts "
                    "would be drawn and paid for again. Leave checkpoint out; it takes seconds."
                )

        coordinates = sensitive.map(lambda x: domain.encode(domain.clamp(x)).astype(np.float32))
        saved = None if file is None else file.read()
        if saved is None:
            secret = Secret.from_seed(self.seed)
            facts = learn_facts(
                sensitive, domain, self.budget, num_records=self.num_records, counts=counts
            )
            if file is not None:
                context = {"facts": facts, "for": self._fingerprint()}
                file.begin(secret, context, records=coordinates)
        else:
            if saved.context.get("for") != self._fingerprint():
                raise PrivacyError(
                    "the checkpoint belongs to other settings. Going on would reuse its noise. "
                    "Use the settings of the interrupted run, or another checkpoint path."
                )
            assert file is not None
            file.check_records(saved, coordinates)
            secret, facts = saved.secret, saved.context["facts"]

        started = begin(
            recipe,
            coordinates,
            border=domain.border,
            radius=domain.radius(dim),
            num_records=facts["num_records"],
            grid_epsilon=prices.grid_epsilon,
            secret=secret,
            hardened=self.hardened,
        )
        ledger, plan = prices.ledger, None
        # ActNorms are inside the flow: it is kept even where nothing more is trained
        trained = started.flow.bijection if recipe.start == "actnorm" else None
        if recipe.steps:
            plan = training_plan(
                recipe,
                prices,
                self.budget,
                num_records=facts["num_records"],
                ema_decay=self.ema_decay,
                hardened=self.hardened,
            )
            trained = self._train(plan, ledger, started, secret, file, progress)
            ledger = ledger.spend(plan.event, purpose="training")
        ledger = self._assuming(ledger, recipe, seeded=secret.chosen)
        assembly = Assembly(
            dim=dim,
            architecture=recipe.architecture if trained is not None else None,
            linear=recipe.start in ("columns", "whitening"),
            pieces=2**planner.MARGINAL_BITS if recipe.start == "columns" else None,
            border=domain.border,
        ).with_base(started.base)
        model = FittedDensityFlow(
            flow=join(started.base, trained, started.maps),
            domain=domain,
            columns=table.columns,
            ledger=ledger,
            guarantee=ledger.guarantee(delta=self.budget.delta),
            settings={
                "assembly": assembly.to_json(),
                "recipe": recipe.to_json(),
                "plan": None if plan is None else plan.to_json(),
                "facts": facts,
            },
        )
        if not _is_sound(model.flow):
            warnings.warn(
                "training diverged: the density is not finite at the flow's own samples. "
                "Lower learning_rate or raise batch_size; a new fit is a new spend.",
                stacklevel=2,
            )
        if save_as is not None:
            model.save(save_as)
        if file is not None:
            file.delete()
        return model

    def recipe(self, dim: int) -> Recipe:
        """What a fit of `dim` columns will do: public, and known before the rows are."""
        domain = self._domain()
        domain.check_dim(dim)
        recipe = planner.plan(
            dim=dim,
            box=isinstance(domain, Box),
            num_records=self.num_records,
            budget=self.budget,
            base=self.base,
            start=self.start,
            num_components=self.num_components,
            sampling_rate=self._rate(),
            chosen={
                "architecture": self.flow,
                "steps": self.steps,
                "clip_norm": self.clip_norm,
                "learning_rate": self.learning_rate,
                "weight_decay": self.weight_decay,
            },
        )
        names = ("batch_size", "sampling_rate", "clip_norm", "learning_rate", "weight_decay")
        given = {name: getattr(self, name) for name in (*names, "flow", "num_components")}
        # None is a choice here, so that only another value than the default shows one
        given["ema_decay"] = None if self.ema_decay == _EMA_DECAY else "given"
        check_used(recipe, dim, given)
        return recipe

    def ledger(self, dim: int) -> Ledger:
        """All that a fit of `dim` columns will spend: public, and known before the rows are.

        Raises:
            BudgetError: The settings cost more than the budget.
        """
        recipe = self.recipe(dim)
        prices = settle(recipe, dim, self.budget, counts=self._counts(), hardened=self.hardened)
        ledger = prices.ledger
        if recipe.steps:
            ledger = ledger.spend(training_price(recipe, prices, self.budget), purpose="training")
        return self._assuming(ledger, recipe, seeded=self.seed is not None)

    def _counts(self) -> Counts:
        return Counts(records=self.num_records is None, clamped=self.count_clamped)

    def _assuming(self, ledger: Ledger, recipe: Recipe, *, seeded: bool) -> Ledger:
        ledger = ledger.assuming(declared(self._domain(), num_records=self.num_records))
        if not recipe.steps and recipe.start == "grid":  # which draws exact noise on integers
            return ledger
        return assuming(ledger, hardened=self.hardened, generator=True, seeded=seeded)

    def _train(
        self,
        plan: TrainingPlan,
        ledger: Ledger,
        started: Started,
        secret: Secret,
        file: Checkpoint | None,
        progress: bool,
    ) -> Any:
        """The trained bijection."""
        flow = started.flow
        if not isinstance(started.base, StandardNormal):
            flow = Flow(started.base, in_order(flow.bijection))
        with progress_bar(
            plan,
            ledger,
            delta=self.budget.delta,
            total_epsilon=self.budget.epsilon,
            show=progress,
        ) as monitor:
            trained = train(
                plan,
                _loss,
                flow,
                started.coordinates,
                secret=secret,
                public_loss_fn=_public_loss,
                checkpoint=file,
                monitor=monitor,
            )
        return trained.value.bijection

    def _domain(self) -> Domain:
        return domains.declared(bounds=self.bounds, row_norm=self.row_norm)

    def _rate(self) -> float | None:
        """The sampling rate the user chose, if any; from declared facts alone."""
        if self.sampling_rate is not None:
            if self.batch_size is not None:
                raise ValueError("give batch_size or sampling_rate, not both.")
            check.rate(sampling_rate=self.sampling_rate)
            return float(self.sampling_rate)
        if self.batch_size is None:
            return None
        if self.num_records is None:
            raise ValueError(
                f"batch_size={self.batch_size} needs num_records: a rate made from a private "
                "count would be private. Declare num_records, or give sampling_rate instead."
            )
        return min(1.0, self.batch_size / self.num_records)

    def _fingerprint(self) -> str:
        # a long array of bounds is shortened in the first part, whole in the second
        return repr((self, self._domain().to_json()))


def _is_sound(flow: Flow) -> bool:
    """Whether the flow has a density at its own samples; it reads released parameters only."""
    keys = jax.random.split(jax.random.key(0), 64)
    samples = jax.jit(jax.vmap(flow.sample))(keys)
    return bool(np.isfinite(jax.jit(jax.vmap(flow.log_prob))(samples)).all())


def _loss(flow: Flow, row: Float[jax.Array, " dim"], key: Any) -> Float[jax.Array, ""]:
    return -flow.private_log_prob(row)


def _public_loss(flow: Flow) -> Float[jax.Array, ""]:
    return -flow.public_log_prob()
