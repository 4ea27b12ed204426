"""DP-NF: a private density over rows of numbers, by a masked autoregressive flow.

After Waites and Cummings, "Differentially private normalizing flows for privacy-preserving density
estimation" (2021), made sound: Poisson sampling, add/remove adjacency, a public divisor, declared
bounds instead of scaling by the data, a fixed number of steps, and the PLD accountant.
"""

import os
import warnings
from dataclasses import dataclass, field
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float

from veilflow._core import check
from veilflow._core.errors import PrivacyError
from veilflow._core.keys import Secret
from veilflow.engine import Checkpoint, Flat, Optimizer, TrainingPlan, progress_bar, train
from veilflow.engine.loop import hardened_slack
from veilflow.flows import Flow, maf
from veilflow.models.domain import Ball, Box, Domain
from veilflow.models.fitted_density import FittedDensityFlow
from veilflow.privacy import calibration
from veilflow.privacy.budget import Budget
from veilflow.privacy.events import PureDP
from veilflow.privacy.guarantees import Sensitive
from veilflow.privacy.ledger import Ledger
from veilflow.privacy.mechanisms import count_records
from veilflow.tabular.io import read_rows

_DEFAULT_RATE = 0.02
"""Sampling rate where the number of records is not declared."""
_COUNT_SHARE = 0.02
"""Part of epsilon that each paid count takes."""

SEED_ASSUMPTION = "the seed was chosen by the user"
FLOAT_ASSUMPTION = "noise and sums in float32 count as exact"
SUM_ASSUMPTION = "sums in float32 count as exact"
GENERATOR_ASSUMPTION = "numbers from the Threefry generator count as random"


@dataclass(frozen=True, kw_only=True)
class DensityFlow:
    """A density model to be fitted privately to rows of numbers.

    Guarantee:
        Everything `fit` returns is (epsilon, delta)-differentially private as `budget` says, for
        adding or removing one row, by the PLD accountant. Bounds, and the number of records if
        given, count as declared public facts; nothing else is read from the rows without being paid.

    Args:
        budget: What the whole fit may spend.
        bounds: `(low, high)`, numbers or one per column, from knowledge of the domain and not from
            the rows. Rows outside are clamped.
        row_norm: Instead of bounds: the largest Euclidean norm of a row.
        num_records: How many records there are, if that may be known. Otherwise a private count is
            paid for with 2 % of epsilon.
        steps: Noisy steps.
        batch_size: Expected records in a step, where `num_records` is declared; None picks one.
        sampling_rate: Instead of `batch_size`: the probability that a record enters a step.
        clip_norm: Bound on one record's gradient.
        learning_rate: Of Adam, with cosine decay.
        blocks: Blocks of the flow.
        hidden: Sizes of the hidden layers in each block's masked network.
        ema_decay: Decay of the parameter average that is returned.
        count_clamped: Also release, for 2 % of epsilon, how many rows lay outside the bounds.
        hardened: Noise from operating-system entropy on an integer grid.
        seed: For repeatable research. The guarantee then says that the seed was chosen. Paid counts
            stay random: declare `num_records` for runs that repeat exactly.

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
    steps: int = 2000
    batch_size: int | None = None
    sampling_rate: float | None = None
    clip_norm: float = 3.0
    learning_rate: float = 3e-3
    blocks: int = 5
    hidden: tuple[int, ...] = (100, 100)
    ema_decay: float | None = 0.99
    count_clamped: bool = False
    hardened: bool = False
    seed: int | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.budget, Budget):
            raise TypeError(
                f"budget must be a Budget, got {type(self.budget).__name__}. "
                "Write budget=vf.Budget(epsilon=1.0, delta=1e-6)."
            )
        if self.budget.delta == 0:
            raise ValueError("delta must be positive: Gaussian noise has no guarantee at delta=0.")
        self._domain()
        if not isinstance(self.hidden, list | tuple):
            raise TypeError(
                f"hidden must be a tuple of sizes such as (100, 100), got {self.hidden!r}."
            )
        for size in self.hidden:
            check.count(hidden=size)
        counts = {name: getattr(self, name) for name in ("steps", "blocks")}
        for name in ("num_records", "batch_size"):
            if getattr(self, name) is not None:
                counts[name] = getattr(self, name)
        check.count(**counts)
        for name, value in counts.items():  # NumPy's numbers would not go into a file
            object.__setattr__(self, name, int(value))
        self._rate()
        check.positive(clip_norm=self.clip_norm, learning_rate=self.learning_rate)
        if self.ema_decay is not None:
            check.fraction(ema_decay=self.ema_decay)
            object.__setattr__(self, "ema_decay", float(self.ema_decay))
        for name in ("clip_norm", "learning_rate"):
            object.__setattr__(self, name, float(getattr(self, name)))
        object.__setattr__(self, "hidden", tuple(int(size) for size in self.hidden))
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
                Keep it secret; it is removed when the fit is done. Not for hardened fits.
            save_as: A file to save the model in before the checkpoint is removed, so that a full
                disk does not lose what was paid for.

        Returns:
            The fitted model, which may be published.

        Raises:
            BudgetError: The settings cost more than the budget. Nothing was spent.
            ValueError: Rows are not a table of finite numbers or do not fit the bounds.
            PrivacyError: The checkpoint belongs to other rows or settings.
        """
        if self.num_records is not None:
            self.budget.warn_if_weak(self.num_records)
        table = read_rows(rows)
        domain, columns = self._domain(), table.columns
        if 0 in table.values.shape:
            raise ValueError("rows must have at least one record and one column.")
        domain.check_dim(table.values.shape[1])
        sensitive = Sensitive(table.values, description=f"{table.values.shape[1]} columns")

        # Everything that decides the price is settled here, before a record is looked at and whatever
        # will be released: composition is proved for parameters that do not depend on the data.
        dim, rate = table.values.shape[1], self._rate()
        skeleton = eqx.filter_eval_shape(lambda: self._flow(dim, Secret.from_seed(0)))
        ledger = self._prices(skeleton)
        noise_multiplier = calibration.noise_multiplier(
            self.budget, sampling_rate=rate, steps=self.steps, ledger=ledger
        )

        coordinates = sensitive.map(lambda x: np.float32(domain.encode(domain.clamp(x))))
        file = None if checkpoint is None else Checkpoint(checkpoint)
        if file is not None:
            file.check_replayable(hardened=self.hardened)
        saved = None if file is None else file.read()
        if saved is None:
            secret, facts = Secret.from_seed(self.seed), self._facts(sensitive, domain)
            if file is not None:
                context = {"facts": facts, "for": self._fingerprint()}
                file.begin(secret, context, records=coordinates)
        else:
            if saved.context.get("for") != self._fingerprint():
                raise PrivacyError(
                    "the checkpoint belongs to other settings. Going on would reuse its noise. "
                    "Use the settings of the interrupted run, or another checkpoint path."
                )
            secret, facts = saved.secret, saved.context["facts"]

        plan = TrainingPlan(
            clipping=Flat(self.clip_norm),
            noise_multiplier=noise_multiplier,
            sampling_rate=rate,
            expected_batch_size=rate * facts["num_records"],
            steps=self.steps,
            optimizer=Optimizer(learning_rate=self.learning_rate),
            ema_decay=self.ema_decay,
            hardened=self.hardened,
        )
        self.budget.check(ledger, plan.event, purpose="training")
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
                self._flow(dim, secret),
                coordinates,
                secret=secret,
                public_loss_fn=_public_loss,
                checkpoint=file,
                monitor=monitor,
            )
        ledger = ledger.spend(trained.event, purpose="training")
        ledger = ledger.assuming(SUM_ASSUMPTION if self.hardened else FLOAT_ASSUMPTION)
        ledger = ledger.assuming(GENERATOR_ASSUMPTION)
        if secret.chosen:
            ledger = ledger.assuming(SEED_ASSUMPTION)
        model = FittedDensityFlow(
            flow=trained.value,
            domain=domain,
            columns=columns,
            ledger=ledger,
            guarantee=ledger.guarantee(delta=self.budget.delta),
            settings={
                "dim": dim,
                "blocks": self.blocks,
                "hidden": list(self.hidden),
                "plan": plan.to_json(),
                "facts": facts,
            },
        )
        if not np.isfinite(model.log_prob(model.sample(64))).all():
            # looks at the model's own samples only, so it tells nothing about the rows
            warnings.warn(
                "training diverged: the density is not finite at the model's own samples. "
                "Lower learning_rate or raise batch_size; a new fit is a new spend.",
                stacklevel=2,
            )
        if save_as is not None:
            model.save(save_as)
        if file is not None:
            file.delete()
        return model

    def _domain(self) -> Domain:
        if (self.bounds is None) == (self.row_norm is None):
            given = "neither" if self.bounds is None else "both"
            raise ValueError(
                f"declare bounds=(low, high) or row_norm=..., got {given}. They come from knowledge "
                "of the domain and are never read from the rows."
            )
        if self.bounds is not None:
            return Box.declared(self.bounds)
        check.positive(row_norm=self.row_norm)
        return Ball(float(self.row_norm))  # type: ignore[arg-type]

    def _rate(self) -> float:
        """The sampling rate, from declared facts alone."""
        if self.sampling_rate is not None:
            if self.batch_size is not None:
                raise ValueError("give batch_size or sampling_rate, not both.")
            check.rate(sampling_rate=self.sampling_rate)
            return float(self.sampling_rate)
        if self.num_records is None:
            if self.batch_size is not None:
                raise ValueError(
                    f"batch_size={self.batch_size} needs num_records: a rate made from a private "
                    "count would be private. Declare num_records, or give sampling_rate instead."
                )
            return _DEFAULT_RATE
        batch_size = self.batch_size or max(64, min(1024, self.num_records // 20))
        return min(1.0, batch_size / self.num_records)

    def _prices(self, flow: Flow) -> Ledger:
        """What will be paid beside training, known before it is released."""
        ledger, count = Ledger(), PureDP(_COUNT_SHARE * self.budget.epsilon)
        if self.num_records is None:
            ledger = ledger.spend(count, purpose="number of records")
        if self.count_clamped:
            ledger = ledger.spend(count, purpose="number of rows outside the bounds")
        if self.hardened:
            slack = hardened_slack(flow, steps=self.steps, epsilon=self.budget.epsilon)
            ledger = ledger.spend(slack, purpose="distance of grid noise from Gaussian")
        return ledger

    def _facts(self, rows: Sensitive[Any], domain: Domain) -> dict[str, Any]:
        """Facts about the rows that are needed or asked for: declared, or paid for as `_prices`."""
        share = _COUNT_SHARE * self.budget.epsilon
        facts: dict[str, Any] = {"num_records": self.num_records, "declared": ["num_records"]}
        if self.num_records is None:
            count = count_records(rows, epsilon=share)
            facts = {"num_records": max(1, int(count.value)), "declared": []}
            self.budget.warn_if_weak(facts["num_records"])
        if self.count_clamped:
            outside = rows.map(
                lambda x: x[domain.outside(x)], description="rows outside the bounds"
            )
            count = count_records(outside, epsilon=share)
            facts["clamped_rows"] = max(0, int(count.value))
        return facts

    def _flow(self, dim: int, secret: Secret) -> Flow:
        key = secret.key("weights")
        return maf(dim, key=key, blocks=self.blocks, hidden=self.hidden)

    def _fingerprint(self) -> str:
        # a long array of bounds is shortened in the first part, whole in the second
        return repr((self, self._domain().to_json()))


def _loss(flow: Flow, row: Float[jax.Array, " dim"], key: Any) -> Float[jax.Array, ""]:
    return -flow.private_log_prob(row)


def _public_loss(flow: Flow) -> Float[jax.Array, ""]:
    return -flow.public_log_prob()
