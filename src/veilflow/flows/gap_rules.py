"""Rules on which cells of a row are missing, for a flow that draws columns one after another.

A rule says that where one cell is missing (or present), another one is missing (or present). Read
backwards it is a rule as well: if the conclusion is false, so is the premise. So whichever of two
columns comes first, the rule decides what is possible for the second. Rules that follow from others
are added, which is why drawing column by column never gets stuck: of clauses of two literals, every
pair of which has been resolved, any partial assignment that breaks none extends to all columns.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int


class Gap(NamedTuple):
    """Whether the cell of a column is missing."""

    column: int
    missing: bool = True

    @property
    def opposite(self) -> "Gap":
        """The other case of the same column."""
        return Gap(self.column, not self.missing)


class GapRule(NamedTuple):
    """If `premise` holds in a row, so does `conclusion`."""

    premise: Gap
    conclusion: Gap

    @property
    def backwards(self) -> "GapRule":
        """The same rule, from the second column to the first."""
        return GapRule(self.conclusion.opposite, self.premise.opposite)


def consequences(
    rules: Iterable[GapRule], *, order: Sequence[int]
) -> Bool[np.ndarray, "columns 2 columns 2"]:
    """What each column requires of those after it: `[j, missing, k, missing]`.

    Args:
        rules: The rules.
        order: Columns from the first to the last.

    Raises:
        ValueError: The rules leave some column no choice, whatever the others are.
    """
    dim = len(order)
    implied = np.eye(2 * dim, dtype=bool)
    for rule in rules:
        for own in (rule, rule.backwards):
            implied[_place(own.premise), _place(own.conclusion)] = True
    for middle in range(2 * dim):  # the transitive closure
        implied |= np.outer(implied[:, middle], implied[middle])
    opposite = np.arange(2 * dim) ^ 1
    if implied[np.arange(2 * dim), opposite].any():
        raise ValueError("the rules on missing cells contradict each other.")
    place = np.argsort(order)
    later = place[:, None] < place
    return implied.reshape(dim, 2, dim, 2) & later[:, None, :, None]


def _place(gap: Gap) -> int:
    return 2 * gap.column + gap.missing


def hold(
    rules: Iterable[GapRule], missing: Bool[np.ndarray, "rows columns"]
) -> Bool[np.ndarray, " rows"]:
    """In which rows all rules hold."""
    held = np.ones(len(missing), bool)
    for premise, conclusion in rules:
        applies = missing[:, premise.column] == premise.missing
        held &= ~applies | (missing[:, conclusion.column] == conclusion.missing)
    return held


def made_to_hold(
    codes: Int[np.ndarray, "rows columns"],
    rules: Sequence[GapRule],
    *,
    sizes: Sequence[int],
    order: Sequence[int],
    present: Callable[[int, int], Int[np.ndarray, " cells"]],
) -> Int[np.ndarray, "rows columns"]:
    """Rows of codes in which all rules hold: each column follows those before it. Row by row.

    Args:
        codes: Rows; the last code of a column that rules name is that of a missing cell.
        rules: The rules.
        sizes: The number of codes of each column.
        order: Columns from the first to the last.
        present: From a column and a number to so many codes, for cells that must not be missing.
    """
    if not rules:
        return codes
    required, codes = consequences(rules, order=order), codes.copy()
    missing = codes == np.array(sizes) - 1
    for k in order:
        filled, emptied = (
            np.any([missing[:, j] == is_gap for j, is_gap in np.argwhere(one)], axis=0)
            if one.any()
            else np.zeros(len(codes), bool)
            for one in (required[:, :, k, 0], required[:, :, k, 1])
        )
        codes[emptied, k] = sizes[k] - 1
        filled &= missing[:, k]
        codes[filled, k] = present(int(k), int(filled.sum()))
        missing[:, k] = (missing[:, k] & ~filled) | emptied
    return codes
