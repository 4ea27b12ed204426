"""How many records there are, as far as a user may say it: exactly, roughly, or not at all.

A declared number is a public fact: it sets sampling rates and divisors, and no count is paid for. A
rough number, written "about 25000", is a public fact, too, but of the order of magnitude only: beyond
two digits it is rounded. It replaces what the planner would otherwise assume when it chooses rates,
batches and shares; the number itself is still released by a private count, which is what sums are
divided by.
"""

import re
from typing import Any

from veilflow._core import check

RecordCount = int | str | None
"""A number, "about" a number, or None if nothing may be said."""

ROUGHLY = "the order of magnitude of the number of records"
"""What is declared by a rough number."""

_DIGITS = 2
"""Of a rough number: more of them would be a count."""

_ABOUT = re.compile(r"about ([1-9][0-9]{0,17})")
_HOW = 'Give a whole number, or a text such as "about 25000" if only its size may be known.'


def num_records(name: str, value: Any) -> RecordCount:
    """A rule for fields: see `_core/fields.py`."""
    if value is None:
        return None
    if not isinstance(value, str):
        check.count(**{name: value}, hint=_HOW)
        return int(value)
    written = " ".join(value.lower().replace(",", "").replace("_", "").split())
    if not _ABOUT.fullmatch(written):
        raise ValueError(f"{name} must be a number of records, or about one, got {value!r}. {_HOW}")
    number = int(written.removeprefix("about "))
    return f"about {round(number, _DIGITS - len(str(number)))}"


def exactly(value: RecordCount) -> int | None:
    """The declared number; None if it is not declared, or only roughly."""
    return value if isinstance(value, int) else None


def roughly(value: RecordCount) -> int | None:
    """The declared number, exact or not; None if nothing is declared."""
    return int(value.removeprefix("about ")) if isinstance(value, str) else value


def declared(value: RecordCount) -> tuple[str, ...]:
    """What a rough number adds to the declared facts; a plan adds an exact one itself."""
    return (ROUGHLY,) if isinstance(value, str) else ()
