"""DP-MoG: a private mixture of normals over rows of numbers, by expectation-maximization.

After Park, Foulds, Choudhary and Welling, "DP-EM: differentially private expectation maximization"
(2017), made sound: see `models/start/mixture.py` for the mechanism and `models/em.py` for what makes it
accurate.
"""

from dataclasses import dataclass, field
from typing import Any

from veilflow._core.keys import Secret
from veilflow.engine.progress import counting_bar
from veilflow.models import domain as domains
from veilflow.models.assumptions import assuming, declared
from veilflow.models.domain import Domain
from veilflow.models.fitted_mixture import FittedMixtureDensity
from veilflow.models.pricing import spend_slack
from veilflow.models.settings import check_budget, make_whole, opened, warn_before
from veilflow.models.start.mixture import (
    event_of,
    noise_multipliers,
    num_draws,
    private_mixture,
)
from veilflow.privacy import calibration
from veilflow.privacy.budget import Budget
from veilflow.privacy.ledger import Ledger

_NOISE = (1e-2, 1e6)
"""Where the noise multiplier is looked for."""


@dataclass(frozen=True, kw_only=True)
class MixtureDensity:
    """A mixture of normals to be fitted privately to rows of numbers.

    Guarantee:
        Everything `fit` returns is (epsilon, delta)-differentially private as `budget` says, for
        adding or removing one row, by the PLD accountant. Bounds, and the number of records if
        given, count as declared public facts; nothing else is read from the rows without being paid.

    Args:
        budget: What the whole fit may spend. An infinite epsilon fits without noise, for reference.
        bounds: `(low, high)`, numbers or one per column, from knowledge of the domain and not from
            the rows. Rows outside are clamped.
        row_norm: Instead of bounds: the largest Euclidean norm of a row.
        num_components: Normals in the mixture.
        num_records: How many records there are, if that may be known: a delta that is too large for
            them is then warned of before anything is spent. It is not needed otherwise, since the
            counts of the components are among what is released.
        iterations: Steps of expectation-maximization; each is one release. What other models call
            `steps`, by the name that EM has for it.
        hardened: Noise from operating-system entropy on an integer grid.
        seed: For repeatable research, and for one fit only: two fits with one seed have the same
            noise. The guarantee then says that the seed was chosen. Hardened noise has no seed.

    Example:
        >>> import numpy as np, veilflow as vf
        >>> rows = np.random.default_rng(0).normal(size=(5000, 2))
        >>> budget = vf.Budget(epsilon=1.0, delta=1e-6)
        >>> estimator = vf.MixtureDensity(budget=budget, bounds=(-4, 4), num_components=3)
        >>> model = estimator.fit(rows)  # doctest: +SKIP
    """

    budget: Budget
    bounds: Any = None
    row_norm: float | None = None
    num_components: int = 8
    num_records: int | None = None
    iterations: int = 24
    hardened: bool = False
    seed: int | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        check_budget(self.budget, hardened=self.hardened)
        self._domain()
        make_whole(self, "num_components", "iterations")
        make_whole(self, "num_records", optional=True)
        Secret.from_seed(self.seed)

    def fit(self, rows: Any, *, progress: bool = True) -> FittedMixtureDensity:
        """Fit the mixture. A second call is a second spend.

        Args:
            rows: A two-dimensional array, a frame, or the path of a CSV, Parquet, Arrow or NumPy
                file. Every cell a finite number.
            progress: Show a progress bar on standard error.

        Returns:
            The fitted model, which may be published.

        Raises:
            BudgetError: The settings cost more than the budget. Nothing was spent.
            ValueError: Rows are not a table of finite numbers or do not fit the bounds.
        """
        warn_before(self.budget, self.num_records)
        domain = self._domain()
        table, sensitive = opened(rows, domain)
        dim = table.values.shape[1]

        # settled before a record is looked at: composition is proved for noise fixed beforehand
        ledger = self._slack(dim)
        noises = self._noises(ledger)
        ledger = ledger.spend(event_of(noises), purpose="training")
        secret = Secret.from_seed(self.seed)
        with counting_bar("fitting", self.iterations, show=progress) as monitor:
            released = private_mixture(
                sensitive.map(lambda x: domain.encode(domain.clamp(x))),
                # rows spread evenly over the ball around the domain have this deviation
                spread=domain.radius(dim) / (dim + 2) ** 0.5,
                num_components=self.num_components,
                noise_multipliers=noises,
                secret=secret,
                hardened=self.hardened,
                monitor=monitor,
            )
        found = released.value.mixture
        # the mean of rows in a convex domain is in it
        means = domain.encode(domain.clamp(domain.decode(found.means)))
        facts: dict[str, Any] = {"num_records": self.num_records, "declared": ["num_records"]}
        if self.num_records is None:
            facts = {"num_records": max(1, round(released.value.num_records)), "declared": []}
            self.budget.warn_if_weak(facts["num_records"])
        ledger = ledger.assuming(declared(domain, num_records=self.num_records))
        if self.budget.private:
            ledger = assuming(
                ledger,
                hardened=self.hardened,
                generator=not self.hardened,
                seeded=secret.chosen,
            )
        return FittedMixtureDensity(
            mixture=found._replace(means=means),
            domain=domain,
            columns=table.columns,
            ledger=ledger,
            guarantee=ledger.guarantee(delta=self.budget.delta),
            settings={
                "dim": dim,
                "num_components": self.num_components,
                "noise_multipliers": list(noises),
                "facts": facts,
            },
        )

    def _slack(self, dim: int) -> Ledger:
        """What hardened noise costs for not being Gaussian; nothing without it."""
        if not self.hardened:
            return Ledger()
        draws = num_draws(dim, self.num_components, self.iterations)
        return spend_slack(Ledger(), self.budget, (), steps=0, others=draws)

    def _noises(self, ledger: Ledger) -> tuple[float, ...]:
        """The noise multiplier of each step, from public facts alone."""

        def noises(noise_multiplier: float) -> tuple[float, ...]:
            return noise_multipliers(noise_multiplier, self.num_components, self.iterations)

        if not self.budget.private:
            return noises(0.0)
        return noises(
            calibration.calibrate(
                lambda noise: event_of(noises(noise)),
                self.budget,
                bracket=_NOISE,
                increasing=False,
                ledger=ledger,
                what="noise_multiplier",
            )
        )

    def _domain(self) -> Domain:
        return domains.declared(bounds=self.bounds, row_norm=self.row_norm)
