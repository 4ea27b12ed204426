"""The plan of a fit: every question to the records, and what all of them cost together.

Composition is proved for mechanisms that are fixed before the data are seen. So a plan is made from
declared facts alone. A fit executes it, and cannot release anything that is not in it.
"""

import hashlib
import json
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

from veilflow._core.codec import Tagged, plain
from veilflow._core.errors import BudgetError
from veilflow.privacy.assumptions import Assumption, Conditional, Declared, Seeded
from veilflow.privacy.budget import Budget
from veilflow.privacy.events import ApproximateDP
from veilflow.privacy.grid_noise import closeness, grid_for
from veilflow.privacy.guarantees import Guarantee
from veilflow.privacy.ledger import Ledger
from veilflow.privacy.unit import Unit
from veilflow.releases.release import Release

SLACK = "distance of grid noise from Gaussian"
"""Purpose of the entry that pays for noise that is Gaussian only up to a tiny distance."""


@dataclass(frozen=True, kw_only=True, repr=False)
class FitPlan(Tagged):
    """What a fit will do. A plan is public: it is the same whatever the records are.

    Attributes:
        model: The name of the estimator.
        budget: What the whole fit may spend.
        releases: In the order of their execution.
        declared: Facts that were declared and that the fit treats as public, each in a few words.
        num_records: The number of records, if it was declared.
        seeded: Whether a person chose the seed of the noise.
        unit: What one record is.
        conditions: What else the guarantee rests on, one sentence each; for example, that rows
            provided by the user are public.
    """

    model: str
    budget: Budget
    releases: tuple[Release, ...]
    declared: tuple[str, ...]
    num_records: int | None = None
    seeded: bool = False
    unit: Unit = Unit.ROW
    conditions: tuple[str, ...] = ()

    @cached_property
    def ledger(self) -> Ledger:
        """Everything that a fit will spend, with the assumptions of its guarantee."""
        ledger = spent_on(self.releases, self.budget, unit=self.unit)
        for assumption in self.assumptions:
            ledger = ledger.assuming(assumption)
        return ledger

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """What the guarantee rests on, without duplicates."""
        facts = self.declared
        if self.num_records is not None:
            facts = (*facts, "the number of records")
        rest = dict.fromkeys(a for release in self.releases for a in release.assumptions)
        if self.seeded and any(release.from_secret for release in self.releases):
            rest[Seeded()] = None
        rest |= dict.fromkeys(map(Conditional, self.conditions))
        if not self.budget.private:  # there is no guarantee that could rest on them
            rest = {}
        return (*((Declared(facts),) if facts else ()), *rest)

    @cached_property
    def guarantee(self) -> Guarantee:
        """The total of the ledger."""
        return self.ledger.guarantee(delta=self.budget.delta)

    @property
    def identity(self) -> str:
        """A hash that binds a checkpoint to the plan; it ignores who chose the seed."""
        text = json.dumps(plain(replace(self, seeded=False)), sort_keys=True)
        return hashlib.blake2b(text.encode(), digest_size=32).hexdigest()

    def release(self, kind: type[Release]) -> Any:
        """The release of a kind, or None if the plan has none."""
        return next((one for one in self.releases if isinstance(one, kind)), None)

    def checked(self) -> Self:
        """This plan, if its budget suffices and its noise can be drawn.

        Raises:
            BudgetError: If the budget does not suffice. Nothing was spent.
            ValueError: If two releases have the same purpose, so that a run would confuse their values.
        """
        if len({one.purpose for one in self.releases}) < len(self.releases):
            raise ValueError("two releases of the plan have the same purpose.")
        for one in self.releases:
            _check_grids(one)
        self.budget.admit(self.ledger)
        return self

    def concerns(self, num_records: int) -> tuple[str, ...]:
        """What a person should know before paying, by public facts, each in a sentence.

        Args:
            num_records: The number of records, declared or released.
        """
        return ()

    def takes(self) -> tuple[float, float] | None:
        """About how many seconds and gigabytes a fit takes, by public facts; None if unknown."""
        return None

    def __repr__(self) -> str:
        return str(self)  # the fields make pages; `plain(plan)` has them all

    def __str__(self) -> str:
        shares = {purpose: share for purpose, *share in self.ledger.shares(self.budget.delta)}
        width = max(map(len, shares), default=0)
        lines = [
            f"  {purpose:{width}}  epsilon {epsilon:<8.3g} {part:4.0%}"
            for purpose, (epsilon, part) in shares.items()
        ]
        free = [one.purpose for one in self.releases if one.event is None]
        lines += [f"  {purpose:{width}}  from released values" for purpose in free]
        return "\n".join([f"plan of {self.model}: {self.guarantee}", *lines])


def spending(
    budget: Budget, releases: tuple[Release, ...], rest: int = -1, *, unit: Unit = Unit.ROW
) -> tuple[Release, ...]:
    """The releases, with the one at `rest` spending all of the budget that the others leave.

    Raises:
        BudgetError: If they leave nothing.
    """
    if not budget.private or not releases:
        return releases
    rest %= len(releases)
    others = spent_on(releases, budget, leave_out=rest, unit=unit)
    priced = releases[rest].priced(budget, others)
    return (*releases[:rest], priced, *releases[rest + 1 :])


def spent_on(
    releases: tuple[Release, ...],
    budget: Budget,
    *,
    leave_out: int | None = None,
    unit: Unit = Unit.ROW,
) -> Ledger:
    """The ledger of releases, including the price of noise that is not exactly Gaussian.

    Args:
        releases: Each is one entry, except steps that are derived from others.
        budget: The budget of the whole fit.
        leave_out: The index of a release whose price is not known yet. The ledger includes the price
            of its noise not being Gaussian, which does not depend on the size of the noise.
        unit: What one record is.

    Raises:
        BudgetError: If that price exceeds the delta of the budget.
    """
    ledger = Ledger(unit=unit)
    for place, release in enumerate(releases):
        if place != leave_out and release.event is not None:
            ledger = ledger.spend(release.event, purpose=release.purpose)
    draws = sum(release.num_draws for release in releases)
    if not draws or not budget.private:
        return ledger
    slack = ApproximateDP(0.0, closeness(draws))
    delta = Ledger().spend(slack, purpose=SLACK).delta(epsilon=budget.epsilon)
    if delta >= budget.delta:
        raise BudgetError(
            f"the noise alone, which is Gaussian up to a tiny distance, needs a delta of {delta:.2g} "
            f"at epsilon={budget.epsilon:.4g}; the budget has {budget.delta:.2g}. Lower epsilon or "
            "the number of steps, or train a smaller flow."
        )
    return ledger.spend(slack, purpose=SLACK)


def _check_grids(release: Release) -> None:
    """Raise unless all noise of a release can be drawn, before any of it is paid for."""
    for noise, numbers in release.grids:
        try:
            if noise:
                # with a sensitivity of 1: whether there is a grid depends on the multiplier alone
                grid_for(1.0, noise_multiplier=noise, num_coordinates=max(1, numbers))
        except ValueError:
            raise BudgetError(
                f"the release of {release.purpose} would need a noise multiplier of {noise:.4g}, for "
                "which there is no grid of whole numbers. Raise epsilon."
            ) from None
