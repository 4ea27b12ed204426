"""Changes of the code that left every number as it was: runs of the code before them stay good.

A fingerprint can't tell a new error message from a new algorithm. Who changes code that decides runs,
and knows that no number depends on the change, writes that down here with the reason, and with what was
run again to see it. Each change leads from fingerprints to the next ones; a chain of them leads from a
run to the code of today.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Change:
    """A change after which all runs give the numbers they gave.

    Attributes:
        why: What was changed, and why no number depends on it.
        checked: What was run again, by `python -m reproductions.again`, and was equal to the last bit.
        codes: From each fingerprint before the change to the one after it.
    """

    why: str
    checked: str
    codes: Mapping[str, str]


CHANGES: tuple[Change, ...] = ()
"""In the order in which they were made."""


def same_numbers(code: str, changes: Iterable[Change] = CHANGES) -> frozenset[str]:
    """The fingerprints of all code that gives the numbers which `code` gives, itself among them."""
    found = {code}
    for change in reversed(tuple(changes)):
        found |= {before for before, after in change.codes.items() if after in found}
    return frozenset(found)


def changes_since(codes: Iterable[str], changes: Iterable[Change] = CHANGES) -> list[Change]:
    """The changes that were made to this code, or to what it became, since it ran."""
    known, found = set(codes), []
    for change in changes:
        reached = {after for before, after in change.codes.items() if before in known}
        if reached:
            found.append(change)
            known |= reached
    return found
