"""DP-HFlow: a private density over tables of numbers, categories, dates and gaps.

After Lee, Kim, Jeong, Ro, "Differentially private normalizing flows for synthetic tabular data
generation" (2022), made sound (everything declared or paid, Poisson sampling, the PLD accountant) and
taken further: columns are cut by a released histogram, so that spikes and tails keep their shape; the
flow starts from a few noisy marginals, which cost little; then it is trained on the records.
"""

import hashlib
import json
import os
from dataclasses import dataclass, field
from typing import Any

from veilflow._core import check
from veilflow._core.errors import PrivacyError
from veilflow._core.keys import Secret
from veilflow.engine import Checkpoint, Optimizer, TrainingPlan, progress_bar, train
from veilflow.models.assumptions import assuming
from veilflow.models.settings import check_budget, make_whole, warn_before
from veilflow.models.table import resuming
from veilflow.models.table.architecture import HFlowArchitecture
from veilflow.models.table.fitted_table import FittedTableFlow
from veilflow.models.table.pricing import TablePrices, settle_table, spend_on_start
from veilflow.models.table.recipe import WARM_STARTS, TableFacts, TableRecipe, plan_table
from veilflow.models.table.starting import Reading, Started, begin
from veilflow.models.table.training import CLIPPINGS, clipping_of, training_plan
from veilflow.privacy.budget import Budget
from veilflow.privacy.guarantees import Sensitive
from veilflow.privacy.ledger import Ledger
from veilflow.tabular.codec import EncodedRows
from veilflow.tabular.schema import Schema


@dataclass(frozen=True, kw_only=True)
class TableFlow:
    """A model of a table to be fitted privately.

    Guarantee:
        Everything `fit` returns is (epsilon, delta)-differentially private as `budget` says, for
        adding or removing one row, by the PLD accountant. What the schema says, and the number of
        records if given, count as declared public facts; nothing else is read from the rows without
        being paid for.

    Args:
        schema: The declared columns.
        budget: What the whole fit may spend. An infinite epsilon fits without privacy, for reference.
        num_records: How many records there are, if that may be known. Otherwise a private count is
            paid for with 2 % of epsilon.
        warm_start: "marginals" to start from noisy marginals of a few columns each, which are paid
            for, or "none" to train from single columns.
        warm_share: What a warm start takes of the squared privacy parameter. With `steps=0` and no
            share given, it takes all that is left.
        pay_for_discovery: Fit a schema with unconfirmed facts: they are forgotten, and discovered
            for a share of the budget.
        flow: `vf.hflow()` for the flow of the paper; None for the flow of codes, which is exact,
            fills gaps and takes given cells.
        hidden: Sizes of the hidden layers of the flow of codes.
        label_weight: How often the label counts in the loss of the flow of codes: more than once
            brings out what predicts it, at a small cost in likelihood.
        most_bins: About how many bins a number is cut into.
        steps: Noisy steps; 0 where the start shall be all.
        batch_size: Expected records in a step, where `num_records` is declared.
        sampling_rate: Instead of `batch_size`: the probability that a record enters a step.
        clip_norm: Bound on one record's gradient.
        clipping: How gradients are held to it: "flat", "per-layer", "per-unit" or "sparsified".
        sparsity: Of "sparsified": the part of a layer's entries that are below the threshold.
        optimizer: "adam", "adabelief", "rmsprop" or "sgd"; None for Adam, or for AdaBelief with the
            flow of the paper.
        learning_rate: Of the optimizer, with cosine decay.
        weight_decay: Pull of the weights to zero.
        ema_decay: Decay of the parameter average that is returned.
        hardened: Noise from operating-system entropy on an integer grid.
        seed: For repeatable research. The guarantee then says that the seed was chosen. Counts,
            discoveries and choices of marginals stay random, and so does hardened noise.

    Example:
        >>> import veilflow as vf
        >>> schema = vf.Schema(age=vf.Numeric(17, 90, integer=True), sex=vf.Categorical("F", "M"))
        >>> estimator = vf.TableFlow(schema=schema, budget=vf.Budget(epsilon=1.0, delta=1e-5))
        >>> model = estimator.fit("people.csv")  # doctest: +SKIP
    """

    schema: Schema
    budget: Budget
    num_records: int | None = None
    warm_start: str = "marginals"
    warm_share: float | None = None
    pay_for_discovery: bool = False
    flow: HFlowArchitecture | None = None
    hidden: tuple[int, ...] | None = None
    label_weight: float | None = None
    most_bins: int | None = None
    steps: int | None = None
    batch_size: int | None = None
    sampling_rate: float | None = None
    clip_norm: float | None = None
    clipping: str = "flat"
    sparsity: float = 0.5
    optimizer: str | None = None
    learning_rate: float | None = None
    weight_decay: float | None = None
    ema_decay: float | None = 0.99
    hardened: bool = False
    seed: int | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.schema, Schema):
            raise TypeError(
                f"schema must be a vf.Schema, got {type(self.schema).__name__}. Write it in Python, "
                "read it by vf.Schema.from_file, or draft it by `veilflow schema`."
            )
        check_budget(self.budget, hardened=self.hardened)
        check.one_of(WARM_STARTS, warm_start=self.warm_start)
        if self.warm_share is not None:
            check.fraction(warm_share=self.warm_share)
            if self.warm_start == "none":
                raise ValueError("warm_share is for warm_start='marginals'. Leave one of them out.")
        make_whole(self, "num_records", "batch_size", "most_bins", optional=True)
        make_whole(self, "steps", at_least=0, optional=True)
        if self.batch_size is not None and self.sampling_rate is not None:
            raise ValueError("give batch_size or sampling_rate, not both.")
        if self.batch_size is not None and self.num_records is None:
            raise ValueError(
                "batch_size needs num_records: the rate must not depend on a release. Declare the "
                "number of records, or give sampling_rate."
            )
        if self.sampling_rate is not None:
            check.fraction(sampling_rate=self.sampling_rate)
        for name in ("clip_norm", "learning_rate", "label_weight"):
            if getattr(self, name) is not None:
                check.positive(**{name: getattr(self, name)})
        if self.weight_decay is not None:
            check.nonnegative(weight_decay=self.weight_decay)
        if self.ema_decay is not None:
            check.fraction(ema_decay=self.ema_decay)
        check.one_of(CLIPPINGS, clipping=self.clipping)
        clipping_of("sparsified", 1.0, sparsity=self.sparsity)
        if self.optimizer is not None:
            Optimizer(name=self.optimizer)
        self._check_flow()
        if self.hidden is not None:
            for size in self.hidden:
                check.count(hidden=size)
            object.__setattr__(self, "hidden", tuple(int(size) for size in self.hidden))
        Secret.from_seed(self.seed)

    def _check_flow(self) -> None:
        if self.flow is None:
            return
        if not isinstance(self.flow, HFlowArchitecture):
            raise TypeError(
                f"flow must be made by vf.hflow, or None for the flow of codes, got "
                f"{type(self.flow).__name__}."
            )
        if self.hidden is not None:
            raise ValueError("hidden is for the flow of codes. Write flow=vf.hflow(hidden=...).")
        if self.label_weight is not None:
            raise ValueError("label_weight is for the flow of codes. Leave it or the flow out.")
        columns = self.schema.columns.values()
        # a number that may be missing is two variables
        self.flow.check_fits(sum(1 + (c.has_position and c.nullable) for c in columns))

    def fit(
        self,
        rows: Any,
        *,
        progress: bool = True,
        extra: str = "error",
        invalid: str = "error",
        checkpoint: str | os.PathLike[str] | None = None,
        save_as: str | os.PathLike[str] | None = None,
    ) -> FittedTableFlow:
        """Fit the model. A second call is a second spend.

        Args:
            rows: A pandas, polars or pyarrow frame, or the path of a CSV, Parquet or Arrow file.
            progress: Show progress bars on standard error.
            extra: What to do about columns that are not in the schema: "error", or "ignore" them.
            invalid: What to do about cells that are not as declared: "error", or "replace" each by a
                missing cell where there may be one, else by the first value or the lower bound. A
                row is read by itself: what it holds replaces nothing in another.
            checkpoint: A file to leave the run's state in, from the end of the start on. If it is
                there already, the run it belongs to goes on, with the same secret, noise and releases
                and without new spending. Keep it secret; it is removed when the fit is done. Not for
                hardened fits or without steps.
            save_as: A file to save the model in before the checkpoint is removed, so that a full
                disk does not lose what was paid for.

        Returns:
            The fitted model, which may be published.

        Raises:
            PrivacyError: The schema has facts that nobody has confirmed, or the checkpoint belongs
                to other rows or settings.
            BudgetError: The settings cost more than the budget. Nothing was spent.
            ValueError: The table does not fit the schema.
        """
        warn_before(self.budget, self.num_records)
        check.one_of(("error", "ignore"), extra=extra)
        check.one_of(("error", "replace"), invalid=invalid)
        # everything that decides the price is settled here, before a record is looked at
        recipe = self.recipe()
        prices = settle_table(recipe, self.budget, self._facts())
        reading, file = Reading(extra, invalid), None
        if checkpoint is not None:
            file = resuming.opened(checkpoint, steps=recipe.steps, hardened=self.hardened)
        started, sensitive, secret = self._start(rows, reading, recipe, prices, file, progress)

        ledger, density, plan = prices.ledger, started.density, None
        if recipe.steps:
            plan = self._plan(recipe, prices, started.num_records)
            with progress_bar(
                plan,
                ledger,
                delta=self.budget.delta,
                total_epsilon=self.budget.epsilon,
                show=progress,
            ) as monitor:
                released = train(
                    plan,
                    density.loss,
                    density.flow,
                    sensitive.map(density.records),
                    public_loss_fn=density.public_loss,
                    secret=secret,
                    checkpoint=file,
                    monitor=monitor,
                )
            density = density.with_flow(released.value)
            ledger = ledger.spend(plan.event, purpose="training")
        if self.budget.private:
            density = density.adjusted(secret.key("balance"))
        ledger = self._assuming(ledger, recipe, seeded=secret.chosen)
        model = FittedTableFlow(
            density=density,
            schema=started.schema,
            vocabularies=started.vocabularies,
            ledger=ledger,
            guarantee=ledger.guarantee(delta=self.budget.delta),
            settings={
                "recipe": recipe.to_json(),
                "plan": None if plan is None else plan.to_json(),
                "facts": {
                    "num_records": started.num_records,
                    "declared": ["num_records"] if self.num_records is not None else [],
                },
            },
        )
        if save_as is not None:
            model.save(save_as)
        if file is not None:
            file.delete()
        return model

    def recipe(self) -> TableRecipe:
        """What a fit will do: public, and known before the rows are."""
        rate = self.sampling_rate
        if self.batch_size is not None and self.num_records is not None:
            rate = min(1.0, self.batch_size / self.num_records)
        recipe = plan_table(
            num_records=self.num_records,
            num_open=len(self._declared().open),
            budget=self.budget,
            warm_start=self.warm_start,
            warm_share=self.warm_share,
            sampling_rate=rate,
            flow=self.flow,
            chosen={
                name: getattr(self, name)
                for name in (
                    "hidden",
                    "label_weight",
                    "most_bins",
                    "steps",
                    "clip_norm",
                    "clipping",
                    "sparsity",
                    "optimizer",
                    "learning_rate",
                    "weight_decay",
                )
            },
        )
        if self.warm_share is not None:
            return recipe
        return spend_on_start(recipe, self.budget, self._facts())

    def preview(self) -> Ledger:
        """All that a fit will spend: public, and known before the rows are.

        Raises:
            BudgetError: The settings cost more than the budget.
        """
        recipe = self.recipe()
        prices = settle_table(recipe, self.budget, self._facts())
        ledger = prices.ledger
        if recipe.steps:
            ledger = ledger.spend(prices.training(recipe, self.budget), purpose="training")
        return self._assuming(ledger, recipe, seeded=self.seed is not None)

    def _declared(self) -> Schema:
        """The schema without what nobody has confirmed."""
        unconfirmed = self.schema.unconfirmed
        if not unconfirmed:
            return self.schema
        if not self.pay_for_discovery:
            names = ", ".join(unconfirmed)
            raise PrivacyError(
                f"the schema has facts that were read from data and that nobody has confirmed, in "
                f"the columns {names}. Confirm what is public (schema.confirm, or the file), or set "
                "pay_for_discovery=True (--pay-for-discovery) to forget the rest and discover it for "
                "a share of the budget."
            )
        return self.schema.forget_unconfirmed()

    def _facts(self) -> TableFacts:
        return TableFacts(
            schema=self._declared(),
            count=self.num_records is None,
            flow=self.flow,
            hardened=self.hardened,
        )

    def _start(
        self,
        rows: Any,
        reading: Reading,
        recipe: TableRecipe,
        prices: TablePrices,
        file: Checkpoint | None,
        progress: bool,
    ) -> tuple[Started, Sensitive[EncodedRows], Secret]:
        """The start, drawn now or by the run that is to go on; its rows; the secret of the rest."""
        settings = self._fingerprint(recipe, prices)
        saved = None if file is None else file.read()
        if file is not None and saved is not None:
            started = resuming.resumed(saved, settings=settings, declared=self._declared())
            opened = reading.rows(rows, started.schema, started.vocabularies)
            resuming.check_rows(file, saved, opened)
            return started, opened, saved.secret
        secret = Secret.from_seed(self.seed)
        started, opened = begin(
            rows,
            reading,
            recipe,
            self._facts(),
            self.budget,
            num_records=self.num_records,
            secret=secret,
            progress=progress,
        )
        if file is not None:
            resuming.keep(file, started, secret, settings=settings, rows=opened)
        return started, opened, secret

    def _plan(self, recipe: TableRecipe, prices: TablePrices, num_records: int) -> TrainingPlan:
        plan = training_plan(
            recipe,
            noise_multiplier=prices.noise_multiplier,
            num_records=num_records,
            ema_decay=self.ema_decay,
            hardened=self.hardened,
            private=self.budget.private,
        )
        if plan.private:
            self.budget.check(prices.ledger, plan.event, purpose="training")
        return plan

    def _fingerprint(self, recipe: TableRecipe, prices: TablePrices) -> str:
        """What a start was released for: with another recipe or price it would be another one."""
        named = [repr(self), self.schema.to_json(), recipe.to_json(), prices.ledger.to_json()]
        text = json.dumps([*named, prices.noise_multiplier])
        return hashlib.blake2b(text.encode(), digest_size=32).hexdigest()

    def _assuming(self, ledger: Ledger, recipe: TableRecipe, *, seeded: bool) -> Ledger:
        # the facts of a draft are discovered anew, for a price; names and kinds of columns are not
        what = ["names and kinds of columns" if self.schema.unconfirmed else "the schema"]
        if self.num_records is not None:
            what.append("the number of records")
        verb = "was" if what == ["the schema"] else "were"
        ledger = ledger.assuming(f"{' and '.join(what)} {verb} declared, not read from the records")
        if not self.budget.private:
            return ledger
        # hardened noise leaves to the generator who is in a batch, and draws from what is released
        generator = not self.hardened or recipe.steps > 0
        return assuming(ledger, hardened=self.hardened, generator=generator, seeded=seeded)
