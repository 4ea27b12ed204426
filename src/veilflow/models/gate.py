"""The gate that every fit passes: before a record is opened, and when its guarantee is stated.

Prices are settled in a file for each model. What they come to is compared with the budget here, so that
no way of pricing can promise what the budget does not allow, and no fit can spend what it did not plan.
"""

from veilflow._core.errors import PrivacyError
from veilflow.privacy.budget import Budget
from veilflow.privacy.guarantees import Guarantee
from veilflow.privacy.ledger import Ledger


def admitted(planned: Ledger, budget: Budget) -> Ledger:
    """`planned`, all that a fit will spend, if the budget has room for it.

    Every `fit` calls this before it opens a record.

    Raises:
        BudgetError: The plan costs more than the budget. Nothing was spent.
    """
    budget.admit(planned)
    return planned


def promised(spent: Ledger, *, planned: Ledger, budget: Budget) -> Guarantee:
    """The guarantee of a fit that has spent what it planned, to the last digit.

    Args:
        spent: What the fit wrote down, with what that rests on.
        planned: What `admitted` let through.
        budget: Of the fit.

    Raises:
        PrivacyError: They differ.
    """
    if (spent.entries, spent.unit, spent.adjacency) != (
        planned.entries,
        planned.unit,
        planned.adjacency,
    ):
        raise PrivacyError(
            "the fit did not spend what it planned, so nothing is released. This is a mistake in "
            "veilflow: please report it with the settings of the fit."
        )
    return spent.guarantee(delta=budget.delta)
