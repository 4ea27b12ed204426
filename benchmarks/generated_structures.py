"""Generated tables whose columns hang together as those of real tables do; nobody's rows.

`accounts` has all nine structures of `benchmarks/structures.py`, `flights` and `stones` have some each
beside ordinary columns. The label of `stones` is a number. Schemas declare what a code book would
say, kinds, bounds and lists, and none of the structure.
"""

import numpy as np
import pandas as pd

import veilflow as vf
from benchmarks.generated_tables import choice, zipf

ROWS = 50_000
EMPTY_TOGETHER = 0.0245
"""The share of rows in which five columns are empty."""
NUM_CODES, NUM_NAMES = 500, 4000
CARD = ("card_kind", "card_limit", "card_spent", "card_year", "card_payments")
FLYING = ("departed", "departure_delay", "arrived", "arrival_delay", "air_minutes")
"""The columns that are empty together."""


def codes(table: str) -> np.ndarray:
    """The codes that occur, of the 10,000 that a column of numbers has room for."""
    rng = np.random.default_rng([21, len(table)])
    return np.sort(rng.choice(10_000, NUM_CODES, replace=False))


def accounts(n: int = ROWS, *, seed: int) -> tuple[pd.DataFrame, vf.Schema]:
    """Accounts of a bank: all nine structures, a label of two values."""
    rng, fixed = np.random.default_rng(seed), np.random.default_rng(22)
    wealth = rng.normal(size=n)
    age = np.clip(18 + rng.gamma(3.0, 9.0, n), 18, 95).astype(int)
    region = rng.choice(12, n, p=zipf(12, 1.0))
    sex = (rng.uniform(size=n) < 0.5).astype(int)
    kind = choice(rng, fixed, [age / 95, wealth / 3], 5, 3.0)
    before, after = _balances(rng, 8 + 0.6 * wealth, 1.25, most=2_000_000)
    limit = np.clip(np.round(np.exp(10.6 + 0.5 * wealth + 0.5 * rng.normal(size=n)), -4), 0, 5e5)
    transfer = _rounded(rng, np.exp(7.5 + 0.5 * wealth + rng.normal(size=n)), 1000, most=100_000)
    no_card = rng.uniform(size=n) < _share(age < 25, EMPTY_TOGETHER, 4.0)
    card_limit = np.clip(
        np.round(1500 * np.exp(0.6 * wealth + 0.4 * rng.normal(size=n))), 0, 50_000
    )
    spent = card_limit * rng.beta(1.2, 2.5, n)
    reason = choice(rng, fixed, [kind / 5, age / 95], 6, 3.0)
    second = choice(rng, fixed, [reason / 6, wealth / 3], 6, 3.0)
    no_reason = rng.uniform(size=n) < np.where(kind < 2, 0.4, 0.15)
    no_second = no_reason | (rng.uniform(size=n) < 0.4)
    offered = np.clip(5 - 0.8 * wealth + 1.2 * rng.normal(size=n), 0, 15)
    fee = np.clip(np.round(np.exp(6.5 + 0.3 * kind + 0.7 * rng.normal(size=n))), 0, 20_000)
    minutes = _minutes(rng, 13 * 60 - 90 * (age > 60), 180)
    drive = -1.2 - 0.9 * wealth + 0.9 * (kind == 1) + 0.3 * (offered - 5) + 0.4 * np.sin(age / 9)
    closed = (rng.uniform(size=n) < 1 / (1 + np.exp(-1.4 * drive))).astype(int)
    whole = {
        "age": (age, 18, 95),
        "balance_before": (before, 0, 2_000_000),
        "balance_after": (after, 0, 2_000_000),
        "credit_limit": (limit, 0, 500_000),
        "transfer": (transfer, 0, 100_000),
        "branch": (_coded(rng, fixed, "accounts", region, 12), 0, 9999),
        "card_limit": (card_limit, 0, 50_000),
        "card_spent": (spent, 0, 50_000),
        "card_year": (2024 - rng.poisson(4, n), 1990, 2024),
        "card_payments": (rng.poisson(3 + 20 * spent / (card_limit + 1)), 0, 60),
        "fee_cents": (fee, 0, 20_000),
        "opened_at": (_clock(minutes), 0, 2359),
        "opened_hour": (minutes // 60, 0, 23),
        "opened_minute": (minutes % 60, 0, 59),
    }
    hundredths = {
        "rate_offered": (offered, 0, 15),
        "rate_paid": (_near(rng, np.round(offered, 2)), 0, 15),
        "fee": (fee / 100, 0, 200),
    }
    lists = {
        "region": (region, 12),
        "sex": (sex, 2),
        "kind": (kind, 5),
        "card_kind": (choice(rng, fixed, [kind / 5, wealth / 3], 3, 3.0), 3),
        "reason": (reason, 6),
        "second_reason": (second, 6),
        "employer": (_named(rng, region, 12), NUM_NAMES),
        "closed": (closed, 2),
    }
    gaps = dict.fromkeys(CARD, no_card) | {"reason": no_reason, "second_reason": no_second}
    return _table(whole, hundredths, lists, gaps, label="closed")


def flights(n: int = ROWS, *, seed: int) -> tuple[pd.DataFrame, vf.Schema]:
    """Departures of three airports: clock times, gaps of what did not fly, names of planes."""
    rng, fixed = np.random.default_rng(seed), np.random.default_rng(23)
    month = rng.integers(1, 13, n)
    origin = rng.choice(3, n, p=[0.4, 0.35, 0.25])
    carrier = choice(rng, fixed, [origin / 3], 14, 3.0)
    goal = choice(rng, fixed, [origin / 3, carrier / 14], 90, 3.0)
    distance = np.round(np.exp(fixed.normal(6.7, 0.6, 90)))[goal]
    minutes = 5 * (_minutes(rng, 13 * 60 + 60 * (carrier % 3), 240) // 5)
    storm = rng.gamma(0.35, 1.6, n) * (1 + 0.5 * np.isin(month, (6, 7, 12)))
    delay = np.round(-4 + 4 * rng.normal(size=n) + 25 * storm + 6 * (minutes / 1440) * storm)
    flown = np.round(25 + distance / 8.0 + 6 * rng.normal(size=n))
    late = np.round(delay + 10 * rng.normal(size=n) - 3)
    departed = (minutes + delay).astype(int) % 1440
    arrived = (minutes + delay + flown + 20).astype(int) % 1440
    grounded = rng.uniform(size=n) < _share(storm > 2.5, EMPTY_TOGETHER, 6.0)
    cause = choice(rng, fixed, [storm / 3, carrier / 14], 5, 3.0)
    detail = choice(rng, fixed, [cause / 5, month / 12], 8, 3.0)
    no_cause = delay < 10 + 10 * rng.normal(size=n)
    no_detail = no_cause | (rng.uniform(size=n) < 0.3)
    drive = -2.2 + late / 40 + 1.5 * grounded + 0.5 * (cause == 1) * ~no_cause - distance / 4000
    complaint = (rng.uniform(size=n) < 1 / (1 + np.exp(-drive))).astype(int)
    whole = {
        "month": (month, 1, 12),
        "distance": (distance, 50, 6000),
        "scheduled": (_clock(minutes), 0, 2359),
        "hour": (minutes // 60, 0, 23),
        "minute": (minutes % 60, 0, 59),
        "departed": (_clock(departed), 0, 2359),
        "departure_delay": (delay, -60, 1500),
        "arrived": (_clock(arrived), 0, 2359),
        "arrival_delay": (late, -120, 1500),
        "air_minutes": (flown, 10, 900),
    }
    lists = {
        "origin": (origin, 3),
        "carrier": (carrier, 14),
        "goal": (goal, 90),
        "plane": (_named(rng, carrier, 14), NUM_NAMES),
        "cause": (cause, 5),
        "cause_detail": (detail, 8),
        "complaint": (complaint, 2),
    }
    gaps = dict.fromkeys(FLYING, grounded) | {"cause": no_cause, "cause_detail": no_detail}
    return _table(whole, {}, lists, gaps, label="complaint")


def stones(n: int = ROWS, *, seed: int) -> tuple[pd.DataFrame, vf.Schema]:
    """Stones and their prices: near-equal lengths, round numbers, codes; the price is the label."""
    rng, fixed = np.random.default_rng(seed), np.random.default_rng(24)
    points = np.clip(np.round(np.exp(4.3 + 0.5 * rng.normal(size=n))), 20, 500)
    heaps = np.array([30, 50, 70, 100, 150, 200])
    nearest = heaps[np.abs(points[:, None] - heaps).argmin(1)]
    points = np.where((np.abs(points - nearest) < 8) & (rng.uniform(size=n) < 0.5), nearest, points)
    cut = rng.choice(5, n, p=[0.4, 0.26, 0.22, 0.09, 0.03])
    color = choice(rng, fixed, [points / 500], 7, 3.0)
    clarity = choice(rng, fixed, [points / 500, cut / 5], 8, 3.0)
    length = np.round(6.45 * (points / 100) ** (1 / 3) * (1 + 0.01 * rng.normal(size=n)), 2)
    width = _near(rng, length)
    height = 0.617 * length * (1 + (0.012 + 0.012 * cut) * rng.normal(size=n))
    worth = 7.8 + 1.7 * np.log(points / 100) - 0.09 * color + 0.1 * clarity - 0.08 * cut
    before, price = _balances(rng, worth, 0.5, most=200_000)
    insured = np.clip(np.round(12 * price * np.exp(0.4 * rng.normal(size=n)), -4), 0, 2_000_000)
    deposit = _rounded(rng, 2 * price * rng.beta(2, 2, n), 1000, most=200_000)
    whole = {
        "points": (points, 20, 500),
        "seller": (_coded(rng, fixed, "stones", color, 7), 0, 9999),
        "insured": (insured, 0, 2_000_000),
        "deposit": (deposit, 0, 200_000),
        "price_before": (before, 0, 200_000),
        "price": (price, 0, 200_000),
    }
    hundredths = {
        "carat": (points / 100, 0, 5),
        "length": (length, 2, 15),
        "width": (width, 2, 15),
        "height": (height, 1, 10),
    }
    lists = {"cut": (cut, 5), "color": (color, 7), "clarity": (clarity, 8)}
    return _table(whole, hundredths, lists, {}, label="price")


TABLES = {"accounts": accounts, "flights": flights, "stones": stones}


def _share(likely: np.ndarray, share: float, times: float) -> np.ndarray:
    """Probabilities with this mean, so many times as large for likely rows."""
    weight = np.where(likely, times, 1.0)
    return share * weight / weight.mean()


def _balances(
    rng: np.random.Generator, log_scale: np.ndarray, spread: float, *, most: int
) -> tuple[np.ndarray, np.ndarray]:
    """Two successive amounts with heavy tails and a raw correlation of about .95."""
    n = len(log_scale)
    before = np.clip(np.exp(log_scale + spread * rng.normal(size=n)), 0, most)
    after = before * rng.gamma(1 / 0.07, 0.07, n) + np.exp(4 + rng.normal(size=n))
    return np.round(before), np.clip(np.round(after), 0, most)


def _rounded(rng: np.random.Generator, amounts: np.ndarray, unit: int, *, most: int) -> np.ndarray:
    """Whole amounts, of which a quarter are multiples of a unit."""
    amounts = np.clip(amounts, 1, most)
    whole = np.maximum(unit, np.round(amounts / unit) * unit)
    return np.where(rng.uniform(size=len(amounts)) < 0.25, whole, np.round(amounts))


def _near(rng: np.random.Generator, lengths: np.ndarray) -> np.ndarray:
    """Lengths that differ from others by less than .3 in 99.94 % of rows."""
    apart = np.clip(0.05 * rng.standard_t(5, len(lengths)), -0.29, 0.29)
    odd = rng.uniform(size=len(lengths)) < 0.0006
    return np.round(lengths + np.where(odd, rng.uniform(0.5, 4, len(lengths)), apart), 2)


def _coded(
    rng: np.random.Generator, fixed: np.random.Generator, table: str, group: np.ndarray, groups: int
) -> np.ndarray:
    """Codes, of which each group has a part of its own, frequent ones and rare ones."""
    known = fixed.permutation(codes(table))
    size = NUM_CODES // groups
    return known[group * size + rng.choice(size, len(group), p=zipf(size, 0.8))]


def _named(rng: np.random.Generator, group: np.ndarray, groups: int) -> np.ndarray:
    """Places in a list with a long tail; half of the rows have a name that is usual in their group."""
    anyone = rng.choice(NUM_NAMES, len(group), p=zipf(NUM_NAMES, 0.9))
    size = NUM_NAMES // groups
    own = group + groups * rng.choice(size, len(group), p=zipf(size, 0.9))
    return np.where(rng.uniform(size=len(group)) < 0.5, own, anyone)


def _minutes(rng: np.random.Generator, mean: np.ndarray, spread: float) -> np.ndarray:
    """Minutes since midnight."""
    return np.clip(mean + spread * rng.normal(size=len(mean)), 0, 1439).astype(int)


def _clock(minutes: np.ndarray) -> np.ndarray:
    """Minutes since midnight as hhmm."""
    return 100 * (minutes // 60) + minutes % 60


def _table(
    whole: dict, hundredths: dict, lists: dict, gaps: dict, *, label: str
) -> tuple[pd.DataFrame, vf.Schema]:
    """Whole numbers, numbers with two decimals and listed values; True in `gaps` is an empty cell."""
    frame, columns = {}, {}
    for name, (values, low, high) in whole.items():
        empty = gaps.get(name)
        columns[name] = vf.Numeric(low, high, integer=True, nullable=empty is not None)
        frame[name] = pd.Series(np.clip(values, low, high).astype(np.int64))
        if empty is not None:
            frame[name] = frame[name].astype("Int64").mask(empty)
    for name, (values, low, high) in hundredths.items():
        columns[name] = vf.Numeric(float(low), float(high), resolution=0.01)
        frame[name] = pd.Series(np.round(np.clip(values, low, high), 2) + 0.0)  # no -0.0
    for name, (values, size) in lists.items():
        names = np.array([f"{name}{i}" for i in range(size)], dtype=object)
        empty = gaps.get(name)
        columns[name] = vf.Categorical(*names.tolist(), nullable=empty is not None)
        cells = names[values] if empty is None else np.where(empty, None, names[values])
        frame[name] = pd.Series(cells)
    return pd.DataFrame(frame), vf.Schema(columns, label=label)
