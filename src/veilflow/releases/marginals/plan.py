"""The plan of a marginal model: questions and noise, fixed before any record is read."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

from veilflow._core import check
from veilflow.privacy.events import (
    Event,
    ExponentialMechanism,
    Gaussian,
    NonPrivate,
    Repeated,
    Together,
)
from veilflow.releases.marginals.graph import Columns

_ONE_WAY = 0.25
"""Share of the squared mu that is spent on histograms of single columns."""
_CHOICE = 0.07
"""Share of it that is spent on all choices together."""
_ROUNDS = 5
_GROWTH = 2.0
"""Share of a table in the last round over one in the first: early tables show strong dependence."""
_CHOICES_PER_COLUMN, _MOST_CHOICES = 2, 256
"""With more tables, each would have so much noise that it says nothing."""
_MOST_CANDIDATES = 4096
"""The most candidates: all of them up to 64 columns with a label, 90 without."""
_APART = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
"""For wide tables: how far apart in the schema the columns of a pair are, preferred ones first."""
_MOST_CELLS = 2**19
_MOST_TABLE_CELLS = 2**16


@dataclass(frozen=True, kw_only=True)
class Round:
    """Some choices by the exponential mechanism, then one release of all chosen tables.

    Attributes:
        num_choices: Number of choices.
        epsilon: The epsilon of each choice; infinite without privacy.
        noise_multiplier: The noise of the joint release; 0 without privacy.
    """

    num_choices: int
    epsilon: float
    noise_multiplier: float


@dataclass(frozen=True, kw_only=True)
class MarginalPlan:
    """All questions of a marginal model and their price, from public facts: see `MarginalPlan.of`.

    Attributes:
        sizes: Declared number of codes of each column.
        ordered: Which columns have codes in a meaningful order.
        label: The column to predict, if any: tables that include it may have three columns.
        label_weight: The weight of misfits in tables that include the label.
        num_records: Declared number of records, or None to estimate it from the releases.
        noise_multiplier: The noise of the joint release of the histograms of all columns.
        rounds: The rounds after the histograms.
        max_cells: The most cells of all conditionals of the model together.
        max_table_cells: The most cells of a released table of several columns.
    """

    sizes: tuple[int, ...]
    ordered: tuple[bool, ...]
    label: int | None
    label_weight: float
    num_records: int | None
    noise_multiplier: float
    rounds: tuple[Round, ...]
    max_cells: int = _MOST_CELLS
    max_table_cells: int = _MOST_TABLE_CELLS

    @classmethod
    def of(
        cls,
        sizes: Sequence[int],
        *,
        mu: float,
        ordered: Sequence[bool] | None = None,
        label: int | None = None,
        label_weight: float = 2.0,
        num_records: int | None = None,
        num_columns: int | None = None,
    ) -> "MarginalPlan":
        """The plan that spends `mu`, from public facts alone.

        Args:
            sizes: Number of codes of each column.
            mu: Roughly the mu of a Gaussian mechanism with the price of all releases together; infinite
                without privacy. The exact price is `event`.
            ordered: Which columns have codes in a meaningful order; none by default.
            label: The column to predict.
            label_weight: The weight of misfits in tables that include the label.
            num_records: The number of records, if it is declared.
            num_columns: The number of columns that the price is for, if there may be fewer. Noise and
                choices are those of so many.

        Raises:
            ValueError: If an argument is out of range.
        """
        sizes = tuple(int(size) for size in sizes)
        _check(sizes, mu, ordered, label, label_weight, num_records)
        columns = len(sizes) if num_columns is None else num_columns
        if columns < len(sizes):
            raise ValueError(f"the price is for {columns} columns, got {len(sizes)}.")
        total = min(_CHOICES_PER_COLUMN * columns, _MOST_CHOICES, len(cliques(columns, label)))
        num_rounds = min(_ROUNDS, total)
        choices = [total // num_rounds + (i < total % num_rounds) for i in range(num_rounds)]
        # tables of the first rounds need not be precise, so they cost less
        parts = [n * _GROWTH ** (i / max(num_rounds - 1, 1)) for i, n in enumerate(choices)]
        one_way = _ONE_WAY if total else 1.0
        left = 1 - one_way - _CHOICE
        return cls(
            sizes=sizes,
            ordered=(False,) * len(sizes) if ordered is None else tuple(map(bool, ordered)),
            label=label,
            label_weight=float(label_weight),
            num_records=num_records,
            noise_multiplier=_multiplier(mu, one_way),
            rounds=tuple(
                Round(
                    num_choices=n,
                    # many choices are approximately Gaussian with mu = epsilon / sqrt(3): the privacy
                    # loss of the dominating pair is nearly uniform between -epsilon and epsilon
                    epsilon=mu * math.sqrt(3 * _CHOICE / total),
                    noise_multiplier=_multiplier(mu, left * part / sum(parts)),
                )
                for n, part in zip(choices, parts, strict=True)
            ),
        )

    @property
    def event(self) -> Event:
        """The price of executing the plan."""
        if self.noise_multiplier == 0:
            return NonPrivate()
        events: list[Event] = [Gaussian(self.noise_multiplier)]
        for step in self.rounds:
            choice = ExponentialMechanism(step.epsilon)
            events += [Repeated(step.num_choices, choice), Gaussian(step.noise_multiplier)]
        return Together(tuple(events))

    @property
    def num_draws(self) -> int:
        """The most numbers that get noise."""
        if self.noise_multiplier == 0:
            return 0
        num_tables = sum(step.num_choices for step in self.rounds)
        return sum(self.sizes) + num_tables * self.max_table_cells


def cliques(num_columns: int, label: int | None) -> tuple[Columns, ...]:
    """The candidates: all pairs of columns, and all pairs together with the label.

    Their number grows with the square of the columns. Where it exceeds a limit, candidates are those
    with the label and those that are near each other in the schema, where related columns usually are.
    Only the number of columns decides, so this is public.
    """
    num_pairs = math.comb(num_columns, 2)
    num_triples = 0 if label is None else math.comb(num_columns - 1, 2)
    if num_pairs + num_triples > _MOST_CANDIDATES:
        return _near(num_columns, label)
    pairs = tuple(combinations(range(num_columns), 2))
    if label is None:
        return pairs
    return pairs + tuple(tuple(sorted((*p, label))) for p in pairs if label not in p)


def _near(num_columns: int, label: int | None) -> tuple[Columns, ...]:
    """Pairs with the label, neighbors with the label, then pairs ever farther apart."""
    found: dict[Columns, None] = {}
    others = range(num_columns)
    if label is not None:
        others = [column for column in others if column != label]
        found |= {(min(c, label), max(c, label)): None for c in others}
        found |= {tuple(sorted((*pair, label))): None for pair in pairwise(others)}
    for apart in _APART:
        pairs = {(c, c + apart): None for c in range(num_columns - apart)}
        # a distance is taken as a whole, or columns at the end of the schema would lack it
        if len(found) + len(pairs) > _MOST_CANDIDATES and apart > 1:
            break
        found |= pairs
    return tuple(found)


def _multiplier(mu: float, share: float) -> float:
    return 0.0 if mu == math.inf else 1 / (mu * math.sqrt(share))


def _check(
    sizes: tuple[int, ...],
    mu: float,
    ordered: Sequence[bool] | None,
    label: int | None,
    label_weight: float,
    num_records: int | None,
) -> None:
    check.count(num_columns=len(sizes))
    for size in sizes:
        check.count(size=size)
    if mu != math.inf:
        check.positive(mu=mu)
    if ordered is not None and len(ordered) != len(sizes):
        raise ValueError(
            f"ordered must have one entry for each of {len(sizes)} columns, got {len(ordered)}."
        )
    if label is not None:
        check.count(label=label, at_least=0)
        if label >= len(sizes):
            raise ValueError(f"label must be a column from 0 to {len(sizes) - 1}, got {label}.")
    check.positive(label_weight=label_weight)
    if num_records is not None:
        check.count(num_records=num_records)
