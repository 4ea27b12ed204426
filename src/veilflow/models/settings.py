"""Rules for the settings that estimators have in common; see `_core/fields.py`."""

from collections.abc import Sequence
from typing import Any

from veilflow._core import check
from veilflow._core.fields import instance
from veilflow._core.keys import Secret
from veilflow.engine.training import Training
from veilflow.models.domain import Domain
from veilflow.privacy.budget import Budget
from veilflow.tabular.io import Rows, read_rows

INVALID = ("error", "replace")
"""What a fit may do about cells that are not as declared."""

is_budget = instance(Budget, "a Budget such as vf.Budget(epsilon=1.0, delta=1e-6)")
is_training = instance(Training, "vf.Training(...)")


def check_budget(budget: Any) -> None:
    """Raise unless `budget` is a budget that Gaussian noise can satisfy."""
    is_budget("budget", budget)
    if budget.delta == 0 and budget.private:
        raise ValueError("delta must be positive: Gaussian noise has no guarantee at delta=0.")


def seed(name: str, value: Any) -> int | None:
    """A seed, or None for a fresh secret."""
    Secret.from_seed(value)
    return None if value is None else int(value)


def read_for(
    domain: Domain, rows: Any, *, columns: Sequence[str] | None = None, invalid: str = "error"
) -> Rows:
    """Read rows of finite numbers for a model of `domain`.

    Args:
        domain: The declared domain of the rows.
        rows: An array, a frame or the path of a file, as for `read_rows`.
        columns: The names that the columns must have, as for `read_rows`.
        invalid: How to treat a cell that is not a finite number: "error" raises, and "replace"
            substitutes `Domain.finite`, which depends on declared facts and on the cell alone.
    """
    check.one_of(INVALID, invalid=invalid)
    if invalid == "error":
        return read_rows(rows, columns=columns)
    table = read_rows(rows, columns=columns, invalid="keep")
    domain.check_dim(table.values.shape[1])
    return Rows(domain.finite(table.values), table.columns)
