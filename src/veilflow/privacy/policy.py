"""A policy: what an organization allows, checked before data is read and before a card is written.

A `policy.toml` may contain

    max_epsilon = 4.0           # for all models of one data set together
    min_delta_exponent = 6      # delta is at most 1e-6
    accountants = ["pld"]       # the accountants that may compute epsilon
    conditional = false         # refuse guarantees that assume more than arithmetic and declared facts

    [datasets]
    patients = 1.0              # this data set has a limit of its own
"""

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from veilflow._core import check, toml
from veilflow._core.errors import PrivacyError
from veilflow.privacy import accounting
from veilflow.privacy.assumptions import Assumption, conditions
from veilflow.privacy.budget import Budget
from veilflow.privacy.guarantees import Guarantee

VARIABLE = "VEILFLOW_POLICY"
FILE = "policy.toml"
_FIELDS = ("max_epsilon", "min_delta_exponent", "accountants", "conditional", "datasets")
_ROUNDING = 1 + 1e-9
_LARGEST = 1 << 16


class PolicyError(PrivacyError):
    """The policy forbids a request. Nothing was read, spent or written."""


@dataclass(frozen=True, kw_only=True)
class Policy:
    """What is allowed. A field that is left out forbids nothing.

    Attributes:
        max_epsilon: The most that all models of one data set may cost together.
        max_delta: The largest delta at which a guarantee may be stated.
        accountants: The accountants that may compute epsilon, by their names in `privacy.accounting`.
        conditional: Whether guarantees may assume more than exact arithmetic, a random generator and
            declared facts: for example an approximate sampler, a chosen seed or an approximate epsilon.
        datasets: Limits on epsilon for single data sets by name, instead of `max_epsilon`.
        source: Where the policy was read from, for error messages.
    """

    max_epsilon: float = math.inf
    max_delta: float = 1.0
    accountants: tuple[str, ...] | None = None
    conditional: bool = True
    datasets: Mapping[str, float] = field(default_factory=dict[str, float])
    source: str = "the policy"

    def __post_init__(self) -> None:
        for name, limit in {"max_epsilon": self.max_epsilon, **self.datasets}.items():
            if isinstance(limit, bool) or not limit > 0:
                raise ValueError(f"{name} must be a number above 0, got {limit}.")

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> "Policy":
        """The policy in a TOML file. A misspelled field is refused, because it would forbid nothing.

        Raises:
            ValueError: The file is not a policy; the message says what is wrong.
            OSError: The file does not exist or may not be read.
        """
        with open(path, "rb") as file:
            data = file.read(_LARGEST + 1)
        if len(data) > _LARGEST:
            raise ValueError(f"{path} has more than {_LARGEST} bytes: not a policy.")
        try:
            document = toml.parse(data)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
        unknown = sorted(set(document) - set(_FIELDS))
        if unknown:
            raise ValueError(
                f"{path}: {unknown[0]!r} is not a field of a policy; allowed: {', '.join(_FIELDS)}."
            )
        try:
            return cls(**_parsed(document), source=str(path))
        except (TypeError, ValueError) as error:
            raise ValueError(f"{path}: {error}") from None

    @classmethod
    def find(cls, path: str | os.PathLike[str] | None = None) -> "Policy | None":
        """The policy in force: at `path`, else at VEILFLOW_POLICY, else in ./policy.toml."""
        path = path if path is not None else os.environ.get(VARIABLE) or None
        if path is not None:
            return cls.from_file(path)
        return cls.from_file(FILE) if Path(FILE).is_file() else None

    def limit(self, dataset: str | None = None) -> float:
        """The most that all models of a data set may cost together."""
        if dataset is None:
            return self.max_epsilon
        return self.datasets.get(dataset, self.max_epsilon)

    def check(
        self,
        budget: Budget,
        *,
        accountant: str = "pld",
        conditional: bool = False,
        dataset: str | None = None,
    ) -> None:
        """Raise unless a fit with this budget may begin. Reads no data.

        Args:
            budget: What the fit may spend.
            accountant: The accountant of its guarantee.
            conditional: Whether its guarantee will be a conditional one.
            dataset: The name of the data set, which may have a limit of its own.

        Raises:
            PolicyError: The message says what was asked for, what is allowed and by which file.
        """
        self._check_numbers(budget.epsilon, budget.delta, dataset)
        if self.accountants is not None and accountant not in self.accountants:
            raise PolicyError(
                f"{self.source} allows the accountants {', '.join(self.accountants)}, and this "
                f"guarantee would use {accountant!r}."
            )
        if conditional and not self.conditional:
            raise PolicyError(
                f"{self.source} forbids conditional guarantees, and this one would be conditional. Use "
                "an exact sampler (zoom, rejection or grid) and no seed."
            )

    def check_guarantee(self, guarantee: Guarantee, *, dataset: str | None = None) -> None:
        """Raise unless an existing guarantee is allowed. Reports call this before they write.

        Raises:
            PolicyError: The message says what the guarantee states and what is allowed.
        """
        self._check_numbers(guarantee.epsilon, guarantee.delta, dataset)
        if self.accountants is not None:
            labels = {accounting.get(name).label for name in self.accountants}
            if guarantee.accountant not in labels:
                raise PolicyError(
                    f"{self.source} allows the accountants {', '.join(self.accountants)}, and this "
                    f"guarantee uses {guarantee.accountant!r}."
                )
        self.check_assumptions(guarantee.assumptions)

    def check_assumptions(self, assumptions: tuple[Assumption, ...]) -> None:
        """Raise if conditional guarantees are forbidden and one of these assumptions is a condition."""
        forbidden = () if self.conditional else conditions(assumptions)
        if forbidden:
            raise PolicyError(
                f"{self.source} forbids conditional guarantees, and this one assumes: "
                f"{forbidden[0].sentence!r}."
            )

    def check_total(self, epsilon: float, delta: float, *, dataset: str) -> None:
        """Raise if all models of a data set together cost more than is allowed."""
        if not epsilon <= self.limit(dataset) * _ROUNDING:
            raise PolicyError(
                f"all models of {dataset!r} together would cost epsilon={epsilon:.4g} at "
                f"delta={delta:.3g}; {self.source} allows {self.limit(dataset):.4g}. Nothing was "
                "spent. Ask for less, or use what has already been released, which is free."
            )

    def _check_numbers(self, epsilon: float, delta: float, dataset: str | None) -> None:
        if not epsilon <= self.limit(dataset) * _ROUNDING:
            raise PolicyError(
                f"epsilon={epsilon:.4g} is above {self.limit(dataset):.4g}, the most that "
                f"{self.source} allows. Ask for less."
            )
        if not delta <= self.max_delta * _ROUNDING:
            raise PolicyError(
                f"delta={delta:.3g} is above {self.max_delta:.3g}, the most that {self.source} "
                "allows. Ask for less."
            )


def _parsed(document: dict[str, Any]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    if "max_epsilon" in document:
        values["max_epsilon"] = _number("max_epsilon", document["max_epsilon"])
    if "min_delta_exponent" in document:
        exponent = document["min_delta_exponent"]
        check.count(min_delta_exponent=exponent)
        if exponent > 300:
            raise ValueError(f"min_delta_exponent must be 1 to 300, got {exponent}.")
        values["max_delta"] = 10.0**-exponent
    if "accountants" in document:
        names = cast("list[str]", document["accountants"])
        if not isinstance(document["accountants"], list) or not names:
            raise TypeError("accountants must be a list with at least one name.")
        for name in names:
            check.one_of(accounting.NAMES, accountants=name)
        values["accountants"] = tuple(names)
    if "conditional" in document:
        if not isinstance(document["conditional"], bool):
            raise TypeError("conditional must be true or false.")
        values["conditional"] = document["conditional"]
    if "datasets" in document:
        limits = cast("dict[str, Any]", document["datasets"])
        if not isinstance(document["datasets"], dict):
            raise TypeError("datasets must be a table of names and numbers.")
        values["datasets"] = {name: _number(name, limit) for name, limit in limits.items()}
    return values


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name} must be a number, got {type(value).__name__}.")
    try:
        return float(value)
    except OverflowError:
        raise ValueError(f"{name} is too large.") from None
