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


CHANGES: tuple[Change, ...] = (
    Change(
        why=(
            "Damaged files are refused by other errors, and Arrow files are validated before they are "
            "read; the loop over blocks of steps and the tasks of reproductions moved to files of "
            "their own; a posterior of few records reads its counts in another way (those runs were "
            "made again)."
        ),
        checked=(
            "the quickest finished run of each kind by `python -m reproductions.again`: those of "
            "DP-LFlow, the references of DP-HFlow, ExpM+NF without privacy and on the plane, "
            "ensembles, parts and mixtures of the anomaly detectors, and 13 runs of DP-NF-VI were "
            "equal to the last bit. Private fits of DP-NF, DP-HFlow and ExpM+NF draw from the "
            "operating system and do not repeat."
        ),
        codes={
            "041691907fb2ffef": "41dbb77a57c0af05",
            "27228f8c3e310f91": "cfc6c569d1775c08",
            "2cb555cf86ee9c93": "7e5b5fd5e200213f",
            "2d6438b7b73a2491": "df788dba6b05bb29",
            "54d0ca32ab87f720": "46ce2ab2a860f8ad",
            "61cece7601072308": "6dd4c848afa18bdb",
            "78739f151b068ea8": "fe0ccf228261205f",
            "85bab899a2ab277a": "05c605b264dbbc13",
            "85e955e0b4231a4d": "f6d2eb1ac92ebba2",
            "8bb5bfe9cc950456": "3667b668e98c7b8a",
            "a3afde4a4180ba6a": "61f3e060148226cc",
            "a799cac8a5bdba3a": "0e4f0072c478fce8",
            "b1a931aa1a0db0b0": "b84d573aef7be167",
            "b576ab1a31db67f0": "41dbb77a57c0af05",
            "b995a0257e7587d8": "9c78b59881f3000d",
            "bae50d6b0c5c07ad": "89e0e3d24e06ec2c",
            "e3cb2cdb73f70e7a": "6c4e5e2d9528f322",
        },
    ),
)
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
