"""What holds in real rows always or often, and how often it holds in synthetic ones.

Nine kinds of structure that a reader of a table sees at once, on the tables of
`benchmarks/generated_structures.py`. A figure is a share of rows, but for balances, where it is a
correlation, and for long lists, where it is one minus the total variation from the real rows.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd

from benchmarks.generated_structures import CARD, FLYING, codes

NEAR = 0.3
"""Lengths that differ by less are near-equal."""


@dataclass(frozen=True)
class Structure:
    """Something that holds in real rows.

    Attributes:
        kind: Which of the nine it is.
        name: The columns, in words.
        measure: From some rows and the real rows to how much of it holds in the former.
    """

    kind: str
    name: str
    measure: Callable[[pd.DataFrame, pd.DataFrame], float]


@dataclass(frozen=True)
class Kept:
    """A structure in real and in synthetic rows."""

    kind: str
    name: str
    real: float
    synthetic: float


def kept(table: str, real: pd.DataFrame, synthetic: pd.DataFrame) -> list[Kept]:
    """Each structure of a generated table."""
    return [
        Kept(one.kind, one.name, one.measure(real, real), one.measure(synthetic, real))
        for one in STRUCTURES[table]
    ]


def _numbers(frame: pd.DataFrame, name: str) -> np.ndarray:
    return pd.to_numeric(frame[name], errors="coerce").to_numpy(np.float64, na_value=np.nan)


def _share(holds: np.ndarray) -> float:
    """A share of rows; 0 where there is none, as nothing was shown to hold."""
    return float(holds.mean()) if len(holds) else 0.0


def _multiples(frame: pd.DataFrame, _: pd.DataFrame, *, column: str, unit: int) -> float:
    values = _numbers(frame, column)
    return _share(values % unit == 0)


def _codes(frame: pd.DataFrame, _: pd.DataFrame, *, column: str, table: str) -> float:
    return _share(np.isin(_numbers(frame, column), codes(table)))


def _empty_together(frame: pd.DataFrame, _: pd.DataFrame, *, columns: tuple[str, ...]) -> float:
    return _share(frame[list(columns)].isna().all(axis=1).to_numpy())


def _empty_alike(frame: pd.DataFrame, _: pd.DataFrame, *, columns: tuple[str, ...]) -> float:
    gaps = frame[list(columns)].isna()
    return _share((gaps.all(axis=1) | ~gaps.any(axis=1)).to_numpy())


def _implied(frame: pd.DataFrame, _: pd.DataFrame, *, column: str, empty: str) -> float:
    """Of rows in which one column is empty, the share in which the other is."""
    return _share(frame.loc[frame[column].isna(), empty].isna().to_numpy())


def _near(frame: pd.DataFrame, _: pd.DataFrame, *, columns: tuple[str, ...]) -> float:
    first, second = (_numbers(frame, name) for name in columns)
    return _share(np.abs(first - second) < NEAR)


def _equal(
    frame: pd.DataFrame,
    _: pd.DataFrame,
    *,
    column: str,
    of: str,
    make: Callable[[np.ndarray], np.ndarray],
) -> float:
    """The share of rows in which a column is this function of another, up to rounding."""
    return _share(np.isclose(_numbers(frame, column), make(_numbers(frame, of)), atol=1e-6))


def _clock(frame: pd.DataFrame, _: pd.DataFrame, *, column: str) -> float:
    """Of cells that are not empty, the share with a minute below 60 and an hour below 24."""
    values = _numbers(frame, column)
    values = values[~np.isnan(values)]
    return _share((values % 100 < 60) & (values >= 0) & (values < 2400))


def _correlation(frame: pd.DataFrame, _: pd.DataFrame, *, columns: tuple[str, ...]) -> float:
    first, second = (_numbers(frame, name) for name in columns)
    if first.std() == 0 or second.std() == 0:
        return 0.0
    return float(np.corrcoef(first, second)[0, 1])


def _overlap(frame: pd.DataFrame, real: pd.DataFrame, *, column: str) -> float:
    """One minus the total variation between the names of some rows and those of the real ones."""
    shares = [rows[column].value_counts(normalize=True, dropna=False) for rows in (frame, real)]
    first, second = shares[0].align(shares[1], fill_value=0.0)
    return 1 - 0.5 * float(np.abs(first - second).sum())


def _hundredth(values: np.ndarray) -> np.ndarray:
    return values / 100


def _hours(values: np.ndarray) -> np.ndarray:
    return values // 100


def _minutes(values: np.ndarray) -> np.ndarray:
    return values % 100


def _round(column: str, unit: int, *, some: bool = False) -> Structure:
    kind = "round numbers, a quarter" if some else "round numbers"
    name = f"{column} is a multiple of {unit:,}"
    return Structure(kind, name, partial(_multiples, column=column, unit=unit))


def _code(column: str, table: str) -> Structure:
    name = f"{column} is one of the codes that occur"
    return Structure("codes among numbers", name, partial(_codes, column=column, table=table))


def _gaps(what: str, *columns: str) -> list[Structure]:
    empty = partial(_empty_together, columns=columns)
    alike = partial(_empty_alike, columns=columns)
    return [
        Structure("joint gaps", f"{what}: all empty", empty),
        Structure("joint gaps agree", f"{what}: all empty or none", alike),
    ]


def _implies(column: str, empty: str) -> Structure:
    measure = partial(_implied, column=column, empty=empty)
    return Structure("implied gaps", f"{empty} is empty where {column} is", measure)


def _alike(*columns: str) -> Structure:
    name = f"{columns[0]} and {columns[1]} differ by less than {NEAR}"
    return Structure("near-equal columns", name, partial(_near, columns=columns))


def _function(
    column: str, of: str, make: Callable[[np.ndarray], np.ndarray], words: str
) -> Structure:
    name = f"{column} is {words} of {of}"
    return Structure("functions of columns", name, partial(_equal, column=column, of=of, make=make))


def _time(column: str) -> Structure:
    return Structure("clock times", f"{column} is a time", partial(_clock, column=column))


def _balances(*columns: str) -> Structure:
    name = f"correlation of {columns[0]} and {columns[1]}"
    return Structure("heavy tails", name, partial(_correlation, columns=columns))


def _list(column: str) -> Structure:
    return Structure("long lists", f"{column}: overlap", partial(_overlap, column=column))


STRUCTURES: dict[str, tuple[Structure, ...]] = {
    "accounts": (
        _round("credit_limit", 10_000),
        _round("transfer", 1000, some=True),
        _code("branch", "accounts"),
        *_gaps("five columns of the card", *CARD),
        _implies("reason", "second_reason"),
        _alike("rate_offered", "rate_paid"),
        _function("fee", "fee_cents", _hundredth, "a hundredth"),
        _function("opened_hour", "opened_at", _hours, "the hour"),
        _function("opened_minute", "opened_at", _minutes, "the minute"),
        _time("opened_at"),
        _balances("balance_before", "balance_after"),
        _list("employer"),
    ),
    "flights": (
        *_gaps("five columns of the flight", *FLYING),
        _implies("cause", "cause_detail"),
        _function("hour", "scheduled", _hours, "the hour"),
        _function("minute", "scheduled", _minutes, "the minute"),
        _time("scheduled"),
        _time("departed"),
        _time("arrived"),
        _list("plane"),
    ),
    "stones": (
        _round("insured", 10_000),
        _round("deposit", 1000, some=True),
        _code("seller", "stones"),
        _alike("length", "width"),
        _function("carat", "points", _hundredth, "a hundredth"),
        _balances("price_before", "price"),
    ),
}
"""By table."""
