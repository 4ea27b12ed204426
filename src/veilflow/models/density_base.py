"""The bases of a density that a name stands for and that nothing is released for.

All have mean 0 and variance 1, so that whitened rows fit each of them. The derivative of a normal's
log-density grows with the distance of a row; those of the other two are bounded (`score_bound`), and
they expect rows far out.
"""

import math

from veilflow.flows import AbstractBase, Logistic, StandardNormal, StudentT

NORMAL = "normal"
SIMPLE = (NORMAL, "logistic", "student")
"""Names of bases without a release."""
DEGREES = 5.0
"""Degrees of freedom of a Student base: a public constant, and part of the file format."""


def simple_base(name: str, dim: int) -> AbstractBase:
    """The base of this name in `dim` columns, with a variance of 1 each."""
    if name == "logistic":
        return Logistic(dim, scale=math.sqrt(3) / math.pi)
    if name == "student":
        return StudentT(dim, df=DEGREES, scale=math.sqrt((DEGREES - 2) / DEGREES))
    if name == NORMAL:
        return StandardNormal(dim)
    raise ValueError(f"a base without a release is one of {', '.join(SIMPLE)}, got {name!r}.")


def is_simple(base: AbstractBase) -> bool:
    """Whether a base is one that a name stands for."""
    return isinstance(base, StandardNormal | Logistic | StudentT)


def name_of(base: AbstractBase) -> str:
    """The name that stands for a base; that of a normal where none does."""
    return next((name for name in SIMPLE if simple_base(name, base.dim) == base), NORMAL)
