"""Prices of models that are no plans yet: what noise on a grid owes, and whether there is one."""

from veilflow._core.errors import BudgetError
from veilflow.engine.loop import noise_slack
from veilflow.privacy.budget import Budget
from veilflow.privacy.grid_noise import grid_for
from veilflow.privacy.ledger import Ledger


def spend_slack(
    ledger: Ledger, budget: Budget, num_parameters: int, *, steps: int, others: int = 0
) -> Ledger:
    """`ledger` with what noise on a grid owes for not being Gaussian.

    Args:
        ledger: Of the fit.
        budget: Of the whole fit.
        num_parameters: Numbers that are trained, at most.
        steps: Of the training.
        others: Numbers that get noise outside of it, at most.

    Raises:
        BudgetError: That alone is more than the budget's delta.
    """
    slack = noise_slack(num_parameters, steps=steps, others=others)
    delta = Ledger().spend(slack, purpose="slack").delta(epsilon=budget.epsilon)
    if delta >= budget.delta:
        raise BudgetError(
            f"the noise alone, which is Gaussian up to a tiny distance, needs a delta of {delta:.2g} "
            f"at epsilon={budget.epsilon:.4g}; the budget has {budget.delta:.2g}. Lower epsilon or "
            "the number of steps, or train a smaller flow."
        )
    return ledger.spend(slack, purpose="distance of grid noise from Gaussian")


def check_grids(*releases: tuple[str, float, int]) -> None:
    """Raise unless there is a grid for the noise of every release of a fit, before any of them is paid.

    Args:
        releases: What it is, its noise multiplier (0 for none), and how many numbers a record changes.

    Raises:
        BudgetError: The noise is so large that a grid would not fit its integers.
    """
    for what, noise, numbers in releases:
        try:
            if noise:
                # with a sensitivity of 1: whether there is a grid depends on the noise over it
                grid_for(1.0, noise_multiplier=noise, num_coordinates=max(1, numbers))
        except ValueError:
            raise BudgetError(
                f"{what} would need a noise multiplier of {noise:.4g}, for which there is no grid of "
                "whole numbers. Raise epsilon."
            ) from None
