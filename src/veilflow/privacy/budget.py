"""The budget: what may be spent, checked before a record is touched."""

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass

from veilflow._core import check
from veilflow._core.errors import BudgetError
from veilflow.privacy.events import Event
from veilflow.privacy.ledger import Ledger

_ROUNDING = 1 + 1e-9
"""The factor by which a ledger may exceed the budget because of floating-point rounding."""


@dataclass(frozen=True)
class Budget:
    """The most that may be spent: `epsilon` at `delta`. A delta of 0 allows pure releases only.

    An infinite epsilon asks for no privacy at all: models then add no noise, and their guarantee says
    so.
    """

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        if self.epsilon != math.inf:
            check.positive(epsilon=self.epsilon, hint="Nothing can be released for free.")
        if isinstance(self.delta, bool) or self.delta != 0:
            check.fraction(delta=self.delta, hint="Use 0 only if every release is pure.")
        object.__setattr__(self, "epsilon", float(self.epsilon))
        object.__setattr__(self, "delta", float(self.delta))

    @property
    def private(self) -> bool:
        """Whether epsilon is finite."""
        return self.epsilon != math.inf

    def admits(self, ledger: Ledger, *, accountant: str = "pld") -> bool:
        """Whether the whole ledger fits the budget."""
        spent = ledger.epsilon(delta=self.delta, accountant=accountant)
        return spent <= self.epsilon * _ROUNDING

    def check(self, ledger: Ledger, event: Event, *, purpose: str, accountant: str = "pld") -> None:
        """Raise unless `event` still fits the budget. Reads no records.

        Args:
            ledger: What was spent so far.
            event: What is about to be released.
            purpose: What the event is for; the message starts with it.
            accountant: The accountant that computes epsilon.

        Raises:
            BudgetError: The message says what the event would cost, what is left and what would fit.
        """
        after = ledger.spend(event, purpose=purpose)
        if self.admits(after, accountant=accountant):
            return
        spent = after.epsilon(delta=self.delta, accountant=accountant)
        left = self.remaining(ledger, accountant=accountant)
        from veilflow.privacy import calibration  # it is built on budgets

        raise BudgetError(
            f"{purpose} would bring the total to epsilon={spent:.4g} at delta={self.delta:.3g}, "
            f"but {left:.4g} of {self.epsilon:.4g} is left. "
            + calibration.advice(self, event, ledger=ledger, accountant=accountant)
        )

    def admit(self, ledger: Ledger, *, accountant: str = "pld") -> None:
        """Raise unless the whole ledger, planned or spent, fits the budget. Reads no records.

        Raises:
            BudgetError: The message says what the ledger would cost, what the budget is and what to do.
        """
        if self.admits(ledger, accountant=accountant):
            return
        spent = ledger.epsilon(delta=self.delta, accountant=accountant)
        hint = "Ask for less (fewer models, steps or releases, or more noise), or raise the budget."
        if self.delta == 0 and math.isinf(spent):
            hint = (
                "At delta=0 every release must be pure, and not all of these are. Give a delta above "
                "0, or choose settings whose releases are all pure."
            )
        raise BudgetError(
            f"all releases together would cost epsilon={spent:.4g} at delta={self.delta:.3g}, and the "
            f"budget is {self.epsilon:.4g}. Nothing was spent. {hint}"
        )

    def remaining(self, ledger: Ledger, *, accountant: str = "pld") -> float:
        """The epsilon that is left at the budget's delta; at least 0."""
        return max(0.0, self.epsilon - ledger.epsilon(delta=self.delta, accountant=accountant))

    def split(self, shares: Mapping[str, float]) -> "dict[str, Budget]":
        """Parts of this budget, which they do not exceed together (basic composition).

        Args:
            shares: A fraction for each part, such as {"count": 0.02, "train": 0.98}.

        Raises:
            ValueError: A share is not positive, or the shares sum to more than 1.
        """
        for name, share in shares.items():
            if not 0 < share <= 1:
                raise ValueError(f"the share of {name} must be in (0, 1], got {share}.")
        total = sum(shares.values())
        if total > _ROUNDING:
            raise ValueError(f"shares must sum to at most 1, got {total:.6g}.")
        return {name: Budget(self.epsilon * s, self.delta * s) for name, s in shares.items()}

    def warn_if_weak(self, num_records: float) -> None:
        """Warn if delta is so large that releasing one whole record would satisfy it.

        Args:
            num_records: The number of records, declared or released by a private count.
        """
        check.positive(num_records=num_records)
        if self.private and self.delta >= 1 / num_records:
            warnings.warn(
                f"delta={self.delta:.3g} is not below 1/{num_records:.6g}: releasing a random "
                f"record would satisfy it. Use at most {0.1 / num_records:.1g}.",
                stacklevel=2,
            )
