"""DP-HFlow: a private density over tables of numbers, categories, dates and gaps.

After Lee, Kim, Jeong, Ro, "Differentially private normalizing flows for synthetic tabular data
generation" (2022), made sound (everything declared or paid, Poisson sampling, the PLD accountant) and
taken further: columns are cut by a released histogram, so that spikes and tails keep their shape; the
flow starts from a few noisy marginals, which cost little; then it is trained on the records.
"""

import os
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Array, Int, Key

from veilflow._core import check
from veilflow._core.errors import PrivacyError
from veilflow._core.keys import Secret
from veilflow.engine import Flat, Optimizer, TrainingPlan, counting_bar, progress_bar, train
from veilflow.flows.code_flow import CodeFlow
from veilflow.models.assumptions import assuming
from veilflow.models.marginals import MarginalPlan, private_marginal_model
from veilflow.models.settings import check_budget, make_whole, warn_before
from veilflow.models.table.balance import balanced
from veilflow.models.table.coder import Coder
from veilflow.models.table.discovery import discover, open_columns
from veilflow.models.table.files import codebook_of
from veilflow.models.table.fitted_table import FittedTableFlow
from veilflow.models.table.histograms import private_coder
from veilflow.models.table.pretraining import pretrain
from veilflow.models.table.recipe import (
    WARM_STARTS,
    TablePrices,
    TableRecipe,
    count_epsilon,
    plan_table,
    settle_table,
)
from veilflow.privacy.budget import Budget
from veilflow.privacy.guarantees import Sensitive
from veilflow.privacy.ledger import Ledger
from veilflow.privacy.mechanisms import count_records
from veilflow.tabular.codec import EncodedRows, encode
from veilflow.tabular.schema import Schema

_WARM_ROWS = 2**19
"""Rows of the marginal model that a warm start trains on."""
_WARM_STEPS, _WARM_BATCH, _WARM_RATE = 4000, 1024, 4e-3
_BALANCE_ROWS = 100_000
_OWN_PART = 0.3
"""Weight of the histograms of columns in shares of codes, beside the marginals."""


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
        warm_share: What a warm start takes of the squared privacy parameter.
        pay_for_discovery: Fit a schema with unconfirmed facts: they are forgotten, and discovered
            for a share of the budget.
        hidden: Sizes of the hidden layers.
        most_bins: About how many bins a number is cut into.
        steps: Noisy steps; 0 where the start shall be all.
        batch_size: Expected records in a step, where `num_records` is declared.
        sampling_rate: Instead of `batch_size`: the probability that a record enters a step.
        clip_norm: Bound on one record's gradient.
        learning_rate: Of Adam, with cosine decay.
        weight_decay: Pull of the weights to zero.
        ema_decay: Decay of the parameter average that is returned.
        seed: For repeatable research. The guarantee then says that the seed was chosen. Counts,
            discoveries and choices of marginals stay random.

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
    hidden: tuple[int, ...] | None = None
    most_bins: int | None = None
    steps: int | None = None
    batch_size: int | None = None
    sampling_rate: float | None = None
    clip_norm: float | None = None
    learning_rate: float | None = None
    weight_decay: float | None = None
    ema_decay: float | None = 0.99
    seed: int | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.schema, Schema):
            raise TypeError(
                f"schema must be a vf.Schema, got {type(self.schema).__name__}. Write it in Python, "
                "read it by vf.Schema.from_file, or draft it by `veilflow schema`."
            )
        check_budget(self.budget, hardened=False)
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
        for name in ("clip_norm", "learning_rate"):
            if getattr(self, name) is not None:
                check.positive(**{name: getattr(self, name)})
        if self.weight_decay is not None:
            check.nonnegative(weight_decay=self.weight_decay)
        if self.ema_decay is not None:
            check.fraction(ema_decay=self.ema_decay)
        if self.hidden is not None:
            for size in self.hidden:
                check.count(hidden=size)
            object.__setattr__(self, "hidden", tuple(int(size) for size in self.hidden))
        Secret.from_seed(self.seed)

    def fit(
        self,
        rows: Any,
        *,
        progress: bool = True,
        extra: str = "error",
        save_as: str | os.PathLike[str] | None = None,
    ) -> FittedTableFlow:
        """Fit the model. A second call is a second spend.

        Args:
            rows: A pandas, polars or pyarrow frame, or the path of a CSV, Parquet or Arrow file.
            progress: Show progress bars on standard error.
            extra: What to do about columns that are not in the schema: "error", or "ignore" them.
            save_as: A file to save the model in.

        Returns:
            The fitted model, which may be published.

        Raises:
            PrivacyError: The schema has facts that nobody has confirmed.
            BudgetError: The settings cost more than the budget. Nothing was spent.
            ValueError: The table does not fit the schema.
        """
        warn_before(self.budget, self.num_records)
        # everything that decides the price is settled here, before a record is looked at
        declared, recipe = self._declared(), self.recipe()
        prices = self._prices(recipe)
        secret = Secret.from_seed(self.seed)

        schema, vocabularies = discover(rows, declared, recipe, private=self.budget.private)
        encoded = encode(rows, schema, vocabularies=vocabularies, extra=extra)
        if not len(encoded):
            raise ValueError("the table has no rows.")
        sensitive = Sensitive(encoded, description=f"{len(schema.columns)} columns")
        num_records = self._count(sensitive)
        sizes = [column.num_codes(vocabularies.get(n)) for n, column in schema.columns.items()]
        coder = private_coder(
            sensitive,
            tuple(schema.columns.values()),
            sizes=sizes,
            noise_multiplier=recipe.columns_noise,
            most_bins=recipe.most_bins,
            num_records=num_records,
            secret=secret,
        ).value
        codes = sensitive.map(coder.codes)
        label = None if schema.label is None else schema.names.index(schema.label)
        coder, flow = self._started(recipe, coder, codes, label, num_records, secret, progress)
        ledger = prices.ledger
        plan = None
        if recipe.steps:
            plan = self._plan(recipe, prices, num_records)
            with progress_bar(
                plan,
                ledger,
                delta=self.budget.delta,
                total_epsilon=self.budget.epsilon,
                show=progress,
            ) as monitor:
                flow = train(plan, _loss, flow, codes, secret=secret, monitor=monitor).value
            ledger = ledger.spend(plan.event, purpose="training")
        if self.budget.private:
            masses = [column.mass for column in coder.columns]
            flow = balanced(flow, masses, num_rows=_BALANCE_ROWS, key=secret.key("balance"))
        ledger = self._assuming(ledger, seeded=secret.chosen)
        model = FittedTableFlow(
            flow=flow,
            coder=coder,
            schema=schema,
            vocabularies=vocabularies,
            ledger=ledger,
            guarantee=ledger.guarantee(delta=self.budget.delta),
            settings={
                "recipe": recipe.to_json(),
                "plan": None if plan is None else plan.to_json(),
                "facts": {
                    "num_records": num_records,
                    "declared": ["num_records"] if self.num_records is not None else [],
                },
            },
        )
        if save_as is not None:
            model.save(save_as)
        return model

    def recipe(self) -> TableRecipe:
        """What a fit will do: public, and known before the rows are."""
        rate = self.sampling_rate
        if self.batch_size is not None and self.num_records is not None:
            rate = min(1.0, self.batch_size / self.num_records)
        return plan_table(
            num_records=self.num_records,
            num_open=len(self._declared().open),
            budget=self.budget,
            warm_start=self.warm_start,
            warm_share=self.warm_share,
            sampling_rate=rate,
            chosen={
                name: getattr(self, name)
                for name in (
                    "hidden",
                    "most_bins",
                    "steps",
                    "clip_norm",
                    "learning_rate",
                    "weight_decay",
                )
            },
        )

    def preview(self) -> Ledger:
        """All that a fit will spend: public, and known before the rows are.

        Raises:
            BudgetError: The settings cost more than the budget.
        """
        recipe = self.recipe()
        prices = self._prices(recipe)
        ledger = prices.ledger
        if recipe.steps:
            ledger = ledger.spend(prices.training(recipe, self.budget), purpose="training")
        return self._assuming(ledger, seeded=self.seed is not None)

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
                "pay_for_discovery=True to forget the rest and discover it for a share of the budget."
            )
        return self.schema.forget_unconfirmed()

    def _prices(self, recipe: TableRecipe) -> TablePrices:
        schema = self._declared()
        lists, ranges = open_columns(schema)
        return settle_table(
            recipe,
            self.budget,
            num_columns=len(schema.columns),
            label=None if schema.label is None else schema.names.index(schema.label),
            open_lists=lists,
            open_bounds=ranges,
            count=self.num_records is None,
        )

    def _count(self, rows: Sensitive[EncodedRows]) -> int:
        if self.num_records is not None:
            return self.num_records
        if not self.budget.private:
            return len(rows.open())
        counted = count_records(rows.map(lambda x: x.codes), epsilon=count_epsilon(self.budget))
        found = max(1, int(counted.value))
        self.budget.warn_if_weak(found)
        return found

    def _started(
        self,
        recipe: TableRecipe,
        coder: Coder,
        codes: Sensitive[Any],
        label: int | None,
        num_records: int,
        secret: Secret,
        progress: bool,
    ) -> tuple[Coder, CodeFlow]:
        """The flow before private training, and the coder with the best shares there are."""
        drawn = None
        if recipe.warm_mu:
            plan = MarginalPlan.of(
                [column.num_codes for column in coder.columns],
                mu=recipe.warm_mu,
                ordered=[column.ordered for column in coder.columns],
                label=label,
                num_records=num_records,
            )
            with counting_bar("marginals", len(plan.rounds), show=progress) as monitor:
                marginals = private_marginal_model(
                    codes, plan=plan, secret=secret, monitor=monitor
                ).value
            drawn = marginals.sample(_WARM_ROWS, secret.key("warm rows"))
            # two releases say how large a code's share is: together they are better than either
            coder = coder.with_masses(
                [
                    _OWN_PART * column.mass + (1 - _OWN_PART) * marginals.marginal((j,))
                    for j, column in enumerate(coder.columns)
                ]
            )
        dim = len(coder.columns)
        # the label last: its shares given all other columns are what records say most about
        order = [j for j in range(dim) if j != label] + ([] if label is None else [label])
        flow = CodeFlow.create(
            codebook_of(coder, num_waves=recipe.num_waves),
            key=secret.key("weights"),
            order=order,
            hidden=recipe.hidden,
        )
        if drawn is not None:
            flow = pretrain(
                flow,
                drawn.astype(np.int32),
                steps=_WARM_STEPS,
                batch_size=_WARM_BATCH,
                learning_rate=_WARM_RATE,
                key=secret.key("warm start"),
            )
        return coder, flow

    def _plan(self, recipe: TableRecipe, prices: TablePrices, num_records: int) -> TrainingPlan:
        plan = TrainingPlan(
            clipping=Flat(recipe.clip_norm),
            noise_multiplier=prices.noise_multiplier,
            sampling_rate=recipe.sampling_rate,
            expected_batch_size=recipe.sampling_rate * num_records,
            steps=recipe.steps,
            optimizer=Optimizer(
                learning_rate=recipe.learning_rate, weight_decay=recipe.weight_decay
            ),
            ema_decay=self.ema_decay,
            private=self.budget.private,
        )
        if plan.private:
            self.budget.check(prices.ledger, plan.event, purpose="training")
        return plan

    def _assuming(self, ledger: Ledger, *, seeded: bool) -> Ledger:
        what = "the schema"
        if self.num_records is not None:
            what += " and the number of records"
        verb = "were" if self.num_records is not None else "was"
        ledger = ledger.assuming(f"{what} {verb} declared, not read from the records")
        if not self.budget.private:
            return ledger
        return assuming(ledger, hardened=False, generator=True, seeded=seeded)


def _loss(flow: CodeFlow, codes: Int[Array, " columns"], key: Key[Array, ""]) -> Array:
    return -flow.log_prob(codes)
