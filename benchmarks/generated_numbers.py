"""Generated tables of numbers as people have them: tails, round amounts, balances that hang together.

Bounds are several times too wide, as a careful curator declares them. Nobody's rows.
"""

import numpy as np
import pandas as pd

import veilflow as vf

_WIDE = 10.0
"""Bounds over the largest number."""


def tails(n: int, *, seed: int) -> tuple[pd.DataFrame, vf.Schema]:
    """Twelve independent numbers with heavy and light tails."""
    rng = np.random.default_rng(seed)
    rare = np.where(rng.uniform(size=n) < 0.08, np.round(np.exp(rng.normal(8, 1, n))), 0)
    frame = pd.DataFrame(
        {
            "lognormal": np.exp(rng.normal(8, 1, n)),
            "skewed": np.exp(rng.normal(5, 1.3, n)),
            "cents": np.round(np.exp(rng.normal(3, 0.7, n)), 2),
            "exponential": rng.exponential(20, n),
            "pareto": 100 * (1 - rng.uniform(size=n)) ** (-1 / 3),
            "normal": rng.normal(170, 10, n),
            "centered": rng.normal(0, 1, n),
            "student": 10 * rng.standard_t(5, n),
            "uniform": rng.uniform(0, 50, n),
            "rare": rare.astype(int),
            "counts": rng.poisson(3, n),
            "gamma": rng.gamma(2, 12, n),
        }
    )
    return frame, _schema(frame, whole=("rare", "counts"), cents=("cents",))


def amounts(n: int, *, seed: int) -> tuple[pd.DataFrame, vf.Schema]:
    """Round numbers: loans in tens of thousands, prices often so, transfers in cents, sparse codes."""
    rng, fixed = np.random.default_rng(seed), np.random.default_rng(14)
    loans = 10_000 * np.clip(np.round(np.exp(rng.normal(2.3, 0.8, n))), 1, 400)
    prices = np.round(np.exp(rng.normal(9.5, 0.9, n)))
    kind = rng.uniform(size=n)
    for unit, share in ((1000, 0.25), (100, 0.5), (10, 0.7)):
        prices = np.where(kind < share, np.maximum(unit, np.round(prices / unit) * unit), prices)
        kind = np.where(kind < share, 2.0, kind)
    transfers = np.exp(rng.normal(4, 1.2, n))
    transfers = np.where(rng.uniform(size=n) < 0.4, np.ceil(transfers / 5) * 5, transfers)
    codes = np.sort(fixed.choice(10_000, 500, replace=False))
    often = np.arange(1, 501) ** -0.7
    frame = pd.DataFrame(
        {
            "loan": loans.astype(int),
            "price": prices.astype(int),
            "transfer": np.round(transfers, 2),
            "code": rng.choice(codes, n, p=fixed.permutation(often / often.sum())),
            "age": np.clip(rng.normal(45, 15, n), 18, 90).astype(int),
            "score": rng.normal(0, 1, n),
        }
    )
    return frame, _schema(
        frame, whole=("loan", "price", "code", "age"), cents=("transfer",), tight=("code", "age")
    )


def balances(n: int, *, seed: int) -> tuple[pd.DataFrame, vf.Schema]:
    """Four successive balances with heavy tails, what goes with them, and categories."""
    rng = np.random.default_rng(seed)
    z = [rng.normal(size=n)]
    while len(z) < 4:
        z.append(0.968 * z[-1] + (1 - 0.968**2) ** 0.5 * rng.normal(size=n))
    frame = pd.DataFrame({f"balance{i}": np.round(np.exp(8 + a), 2) for i, a in enumerate(z)})
    frame["limit"] = 1000 * np.ceil(np.exp(1.5 + 0.5 * z[0] + 0.6 * rng.normal(size=n))).astype(int)
    frame["paid"] = np.round(np.exp(5 + 0.7 * z[3] + 0.9 * rng.normal(size=n)), 2)
    frame["income"] = np.round(np.exp(8.2 + 0.4 * z[0] + 0.4 * rng.normal(size=n))).astype(int)
    frame["age"] = np.clip(45 + 6 * z[0] + 13 * rng.normal(size=n), 18, 90).astype(int)
    frame["visits"] = rng.poisson(np.exp(0.5 + 0.2 * z[3]))
    frame["change"] = rng.standard_t(5, n) * 10
    frame["region"] = rng.choice(np.array(list("abcdefgh")), n)
    frame["late"] = np.where(rng.normal(size=n) + 0.6 * z[3] > 1.2, "yes", "no")
    schema = _schema(
        frame.iloc[:, :10],
        whole=("limit", "income", "age", "visits"),
        cents=(*(f"balance{i}" for i in range(4)), "paid"),
        tight=("age",),
        wide=3.0,
    )
    columns = {
        **schema.columns,
        "region": vf.Categorical(*"abcdefgh"),
        "late": vf.Categorical("no", "yes"),
    }
    return frame, vf.Schema(columns, label="late")


def _schema(
    frame: pd.DataFrame,
    *,
    whole: tuple[str, ...],
    cents: tuple[str, ...],
    tight: tuple[str, ...] = (),
    wide: float = _WIDE,
) -> vf.Schema:
    """Bounds from zero, or symmetric around it, too wide but in `tight` columns."""
    columns = {}
    for name in frame:
        low, high = frame[name].min(), frame[name].max()
        far = float(np.ceil((1 if name in tight else wide) * max(-low, high)))
        columns[name] = vf.Numeric(
            0 if low >= 0 else -far,
            far,
            integer=name in whole,
            resolution=0.01 if name in cents else None,
        )
    return vf.Schema(columns)
