"""Accountants: from events to epsilon. The default, `get("pld")`, is tight."""

from veilflow._core import check
from veilflow.privacy.accounting.accountant import AbstractAccountant, Answer
from veilflow.privacy.accounting.closed_forms import (
    BasicAccountant,
    GDPAccountant,
    PureAccountant,
    ZCDPAccountant,
)
from veilflow.privacy.accounting.pld import PLDAccountant
from veilflow.privacy.accounting.rdp import RDPAccountant
from veilflow.privacy.accounting.reference import ReferenceAccountant

__all__ = [
    "NAMES",
    "AbstractAccountant",
    "Answer",
    "BasicAccountant",
    "GDPAccountant",
    "PLDAccountant",
    "PureAccountant",
    "RDPAccountant",
    "ReferenceAccountant",
    "ZCDPAccountant",
    "get",
]

_ACCOUNTANTS: dict[str, AbstractAccountant] = {
    accountant.name: accountant
    for accountant in (
        PLDAccountant(),
        RDPAccountant(),
        ZCDPAccountant(),
        GDPAccountant(),
        PureAccountant(),
        BasicAccountant(),
        ReferenceAccountant(),
    )
}

NAMES: tuple[str, ...] = tuple(_ACCOUNTANTS)
"""The names that `get` knows."""


def get(name: str) -> AbstractAccountant:
    """The accountant of that name: pld, rdp, zcdp, gdp, pure, basic or dp-accounting."""
    check.one_of(NAMES, accountant=name)
    return _ACCOUNTANTS[name]
