"""What estimators of densities have in common before a record is looked at: checks, each said once."""

import warnings
from typing import Any

from veilflow._core import check
from veilflow._core.errors import NotPrivateWarning
from veilflow.models.domain import Domain
from veilflow.models.planner import Recipe
from veilflow.privacy.budget import Budget
from veilflow.privacy.guarantees import Sensitive
from veilflow.tabular.io import Rows, read_rows


def check_budget(budget: object, *, hardened: bool) -> None:
    """Raise unless Gaussian noise can keep to `budget`."""
    if not isinstance(budget, Budget):
        raise TypeError(
            f"budget must be a Budget, got {type(budget).__name__}. "
            "Write budget=vf.Budget(epsilon=1.0, delta=1e-6)."
        )
    if budget.delta == 0 and budget.private:
        raise ValueError("delta must be positive: Gaussian noise has no guarantee at delta=0.")
    if hardened and not budget.private:
        raise ValueError("hardened=True needs a finite epsilon: there is no noise to harden.")


def make_whole(estimator: Any, *names: str, at_least: int = 1, optional: bool = False) -> None:
    """Check counts of a frozen estimator, and make them plain: NumPy's would not go into a file.

    Args:
        estimator: Whose fields they are.
        *names: Of the fields.
        at_least: The smallest that is allowed.
        optional: Whether None may stand for no choice.
    """
    for name in names:
        value = getattr(estimator, name)
        if not (optional and value is None):
            check.count(at_least=at_least, **{name: value})
            object.__setattr__(estimator, name, int(value))


def check_used(recipe: Recipe, dim: int, given: dict[str, Any]) -> None:
    """Raise where a setting was given that a fit by `recipe` would not look at.

    Args:
        recipe: Of the fit.
        dim: Number of columns.
        given: Settings of training and of a base by private EM; None where none was given.
    """
    names = {name for name, value in given.items() if value is not None}
    if "num_components" in names and not recipe.components:
        raise ValueError(
            f"num_components is for a base by private EM, which a fit of {dim} columns with "
            f"start={recipe.start!r} does not have here. Leave it out, or give base='mixture' and "
            "start='columns' or 'whitening'."
        )
    used = {"num_components"} | ({"flow"} if recipe.start == "actnorm" else set())
    unused = sorted(names - used)
    if unused and not recipe.steps:
        why = "a grid is all of it" if recipe.start == "grid" else "steps=0"
        raise ValueError(
            f"{', '.join(unused)}: for training, and a fit of {dim} columns with these settings "
            f"has none ({why}). Leave out what is for training, or give steps above 0 to train."
        )


def warn_before(budget: Budget, num_records: int | None) -> None:
    """Warn of a budget that promises nothing, or too little for a declared number of records."""
    if not budget.private:
        warnings.warn(
            "epsilon is infinite: nothing is added to hide a record, and the result is not private. "
            "Give a finite epsilon for whatever is to be released.",
            NotPrivateWarning,
            stacklevel=3,
        )
    if num_records is not None:
        budget.warn_if_weak(num_records)


def opened(rows: Any, domain: Domain) -> tuple[Rows, Sensitive[Any]]:
    """The table in `rows`, and its values behind the door, if they fit the domain."""
    table = read_rows(rows)
    if 0 in table.values.shape:
        raise ValueError("rows must have at least one record and one column.")
    dim = table.values.shape[1]
    domain.check_dim(dim)
    return table, Sensitive(table.values, description=f"{dim} columns")
