"""What estimators have in common before a record is looked at: checks, each said once."""

import warnings
from collections.abc import Sequence
from typing import Any

from veilflow._core import check
from veilflow._core.errors import NotPrivateWarning
from veilflow._core.keys import Secret
from veilflow.engine.clipping.clipping import check_bound
from veilflow.engine.sampling import threshold
from veilflow.engine.training import Training
from veilflow.models.domain import Domain
from veilflow.privacy.budget import Budget
from veilflow.privacy.guarantees import Sensitive
from veilflow.tabular.io import Rows, read_rows

INVALID = ("error", "replace")
"""What a fit may do about cells that are not as declared."""


def check_budget(budget: object) -> None:
    """Raise unless Gaussian noise can keep to `budget`."""
    budget = is_budget("budget", budget)
    if budget.delta == 0 and budget.private:
        raise ValueError("delta must be positive: Gaussian noise has no guarantee at delta=0.")


def is_budget(name: str, value: Any) -> Budget:
    """A rule for fields: a budget."""
    if not isinstance(value, Budget):
        raise TypeError(
            f"{name} must be a Budget, got {type(value).__name__}. "
            "Write budget=vf.Budget(epsilon=1.0, delta=1e-6)."
        )
    return value


def is_training(name: str, value: Any) -> Training:
    """A rule for fields: settings of a training."""
    if not isinstance(value, Training):
        raise TypeError(
            f"{name} must be vf.Training(...), got {type(value).__name__}. Write for example "
            "training=vf.Training(steps=500, learning_rate=0.01)."
        )
    return value


def seed(name: str, value: Any) -> int | None:
    """A rule for fields: a seed, or None for a fresh secret."""
    Secret.from_seed(value)
    return None if value is None else int(value)


def read_for(
    domain: Domain, rows: Any, *, columns: Sequence[str] | None = None, invalid: str = "error"
) -> Rows:
    """Rows of finite numbers; those of cells that hold none come from declared facts alone.

    Args:
        domain: What is declared about the rows.
        rows: As for `read_rows`.
        columns: As for `read_rows`.
        invalid: What to do about cells that are no finite number: "error", or "replace" each by
            `Domain.finite`, row by row.
    """
    check.one_of(INVALID, invalid=invalid)
    if invalid == "error":
        return read_rows(rows, columns=columns)
    table = read_rows(rows, columns=columns, invalid="keep")
    domain.check_dim(table.values.shape[1])
    return Rows(domain.finite(table.values), table.columns)


# -- until every model is a plan (HOUSE 1) ----------------------------------------------------------


def clip_norm(name: str, value: Any) -> float:
    """A rule for fields: a bound that float32 can hold a norm to."""
    check_bound(**{name: value})
    return float(value)


def sampling_rate(name: str, value: Any) -> float:
    """A rule for fields: a probability of being drawn that the engine can draw by."""
    check.rate(**{name: value})
    threshold(float(value))
    return float(value)


def declared_rate(
    *, batch_size: int | None, sampling_rate: float | None, num_records: int | None
) -> float | None:
    """The sampling rate that the user chose, if any; from declared facts alone.

    Raises:
        ValueError: Both are given, or a batch size without the number of records.
    """
    if sampling_rate is not None:
        if batch_size is not None:
            raise ValueError("give batch_size or sampling_rate, not both.")
        return sampling_rate
    if batch_size is None:
        return None
    if num_records is None:
        raise ValueError(
            f"batch_size={batch_size} needs num_records: a rate made from a private count would be "
            "private. Declare num_records, or give sampling_rate instead."
        )
    return min(1.0, batch_size / num_records)


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


def opened(rows: Any, domain: Domain, *, invalid: str = "error") -> tuple[Rows, Sensitive[Any]]:
    """The table in `rows`, and its values behind the door, if they fit the domain.

    It may have no row: that there is one is a fact about the records.
    """
    table = read_for(domain, rows, invalid=invalid)
    dim = table.values.shape[1]
    domain.check_dim(dim)
    return table, Sensitive(table.values, description=f"{dim} columns")
