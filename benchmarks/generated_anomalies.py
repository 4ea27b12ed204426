"""Generated normal rows and anomalies, for the rules of detectors: nobody's rows.

Columns are like those of network logs and card payments: rounded and spread by jitter of the last
digit, mostly zero, or heavy-tailed. Constants of a generator are public; the seed picks the rows.
"""

from collections.abc import Callable

import numpy as np

Rows = np.ndarray
_BYTES, _MOST, _UNIT = 21.5, 512.0, 0.01
"""The largest logarithm of bytes, the largest count, and the digit that shares are rounded to."""
_LOW, _HIGH = np.zeros(16), np.array([11.4, _BYTES, _BYTES, 2, _MOST, _MOST, *(1.01,) * 10])
_DIM, _BORDER = 20, 10.0
_MOST_VISITS = np.array([12, 60, 12, 24, 2, 30, 100, 51])
_READINGS = (-8.0, 20.0)


def connections(n: int, rng: np.random.Generator) -> Rows:
    """Connections of eight services: three logarithms, a bit, two counts and ten rounded shares."""
    fixed = np.random.default_rng(700)
    which = rng.choice(8, n, p=fixed.dirichlet(1.5 * np.ones(8)))
    sent, got = fixed.uniform(3, 9, 8)[which], fixed.uniform(4, 11, 8)[which]
    lasts = np.where(rng.uniform(size=n) < 0.12, rng.gamma(2, 2, n), 0.0)
    bit = rng.uniform(size=n) < fixed.beta(0.3, 0.2, 8)[which]
    sent, got = sent + 0.6 * rng.normal(size=n), got + 1.1 * rng.normal(size=n)
    got = np.where(rng.uniform(size=n) < fixed.beta(0.4, 1.5, 8)[which], 0.0, got)
    load = np.minimum(1 + rng.negative_binomial(1, 1 / (1 + fixed.uniform(2, 40, 8)[which])), 300)
    same = np.where(rng.uniform(size=n) < 0.7, load, np.minimum(load + rng.poisson(4, n), 300))
    errors = _shares(n, rng, zero=0.95, one=0.02)
    others = np.where(rng.uniform(size=n) < 0.9, errors, _shares(n, rng, zero=0.95, one=0.02))
    refused = _shares(n, rng, zero=0.93, one=0.04)
    one = np.where(rng.uniform(size=n) < 0.92, 1.0, rng.uniform(size=n))
    differ = np.where(one == 1, 0.0, (1 - one) * rng.uniform(0.1, 1, n))
    hosts = _shares(n, rng, zero=0.6, one=0.1, most=0.4)
    kept = np.where(rng.uniform(size=n) < 0.55, 1.0, rng.beta(1.2, 1, n))
    spread = np.where(kept == 1, 0.0, (1 - kept) * rng.beta(0.7, 4, n))
    ports = _shares(n, rng, zero=0.35, one=0.08, most=0.5)
    far = _shares(n, rng, zero=0.55, one=0.0, most=0.2)
    shares = [errors, others, refused, one, differ, hosts, kept, spread, ports, far]
    return _logged(rng, np.column_stack([lasts, sent, got, bit, load, same]), np.stack(shares, 1))


def intrusions(n: int, rng: np.random.Generator) -> Rows:
    """Floods of identical packets, half-open connections, scans, and guesses of passwords."""
    rows = connections(n, rng)
    kind = rng.choice(4, n, p=(0.5, 0.2, 0.15, 0.15))
    floor = np.floor(rows[:, 4:6])
    shares = np.floor(rows[:, 6:] / _UNIT + 1e-6) * _UNIT
    logged = np.log(np.maximum(np.floor(np.exp(rows[:, :3])), 1))
    bits = np.floor(rows[:, 3])
    flood = kind == 0  # every column has a value that normal rows often have, but for the count
    logged[flood] = [0.0, np.log(1033), 0.0]
    bits[flood], floor[flood] = 0, 511 - rng.poisson(2, (flood.sum(), 1))
    shares[flood] = [0, 0, 0, 1, 0, 0, 1, 0, 1, 0]
    half = kind == 1
    logged[half], bits[half] = 0.0, 0
    floor[half] = np.stack([rng.integers(80, 300, half.sum()), rng.integers(1, 25, half.sum())], 1)
    shares[half] = [1, 1, 0, 0.06, 0.06, 0, 0.05, 0.07, 0, 0]
    scan = kind == 2
    logged[scan], bits[scan] = [0.0, 2.0, 0.0], 0
    shares[scan, 2:5] = np.stack([np.ones(scan.sum()), *rng.uniform(0.1, 0.9, (2, scan.sum()))], 1)
    guess = kind == 3
    logged[guess] = np.stack(
        [rng.gamma(2, 1, guess.sum()), *([4.8, 5.2] * np.ones((guess.sum(), 2))).T], 1
    )
    bits[guess], floor[guess] = 0, 1 + rng.poisson(1, (guess.sum(), 1))
    shares[guess, 6:] = np.array([1, 0, 0.02, 0]) * (rng.uniform(size=(guess.sum(), 1)) < 0.7)
    return _logged(rng, np.column_stack([logged, bits, floor]), shares)


def payments(n: int, rng: np.random.Generator) -> Rows:
    """Twenty uncorrelated, skewed and heavy-tailed components of decreasing size."""
    fixed = np.random.default_rng(800)
    which = rng.choice(5, n, p=fixed.dirichlet(2 * np.ones(5)))
    hidden = rng.normal(size=(n, 6)) + fixed.normal(size=(5, 6))[which]
    rows = np.tanh(hidden @ fixed.normal(size=(6, _DIM))) + 0.3 * hidden @ fixed.normal(
        size=(6, _DIM)
    )
    tails = rng.standard_t(3, size=(n, _DIM)) * np.exp(0.5 * fixed.normal(size=_DIM))
    return np.clip((rows + 0.6 * tails) * np.exp(-0.06 * np.arange(_DIM)), -_BORDER, _BORDER)


def frauds(n: int, rng: np.random.Generator) -> Rows:
    """Payments of which a third are hardly shifted, and the others by much, in some components."""
    fixed = np.random.default_rng(801)
    direction = fixed.normal(size=_DIM) * (fixed.uniform(size=_DIM) < 0.5)
    size = np.where(rng.uniform(size=(n, 1)) < 0.33, 0.4, rng.gamma(2, 1.0, (n, 1)))
    rows = payments(n, rng) + size * direction * np.exp(-0.06 * np.arange(_DIM))
    return np.clip(rows, -_BORDER, _BORDER)


def visits(n: int, rng: np.random.Generator) -> Rows:
    """Visits of six groups: sums, pages, days since the last, hour, a bit, errors, age, discount."""
    fixed = np.random.default_rng(901)
    which = rng.choice(6, n, p=fixed.dirichlet(2 * np.ones(6)))
    spent = np.exp(fixed.uniform(1, 5, 6)[which] + 0.7 * rng.normal(size=n))
    pages = 1 + rng.poisson(fixed.uniform(0.3, 8, 6)[which])
    new = rng.uniform(size=n) < fixed.beta(1, 2, 6)[which]
    since = np.where(new, 0, np.exp(1 + rng.normal(size=n)))
    hour = (fixed.uniform(0, 24, 6)[which] + 3 * rng.normal(size=n)) % 24
    bit = rng.uniform(size=n) < fixed.beta(0.3, 0.3, 6)[which]
    errors = np.where(rng.uniform(size=n) < 0.93, 0, rng.poisson(2, n) + 1)
    age = np.floor(rng.gamma(6, 6, n) + 10 * (which == 0))
    usual = np.array([0.0, 10.0, 20.0, np.nan])[rng.choice(4, n, p=(0.6, 0.2, 0.1, 0.1))]
    discount = np.where(np.isnan(usual), np.round(rng.uniform(0, 50, n)), usual)
    logged = np.log(np.round(np.stack([spent, since], 1)) + 1 + rng.uniform(size=(n, 2)))
    others = np.stack([pages, bit, errors, age, discount], 1) + rng.uniform(size=(n, 5))
    columns = [logged[:, 0], others[:, 0], logged[:, 1], hour, *others[:, 1:].T]
    return np.clip(np.column_stack(columns), 0, _MOST_VISITS)


def odd_visits(n: int, rng: np.random.Generator) -> Rows:
    """Robots that read many pages, errors, large discounts on large sums, and columns of other rows."""
    rows, kind = visits(n, rng), rng.choice(4, n)
    robots, faults, thefts, mixed = (np.flatnonzero(kind == k) for k in range(4))
    within = rng.uniform(size=(len(robots), 5))
    rows[robots[:, None], [1, 4, 5, 7]] = within[:, :4] + [20, 1, 0, 0]
    rows[robots, 1] += rng.poisson(3, len(robots))
    rows[robots, 2] = np.log(1 + within[:, 4])
    rows[faults, 5] = 5 + rng.poisson(6, len(faults)) + rng.uniform(size=len(faults))
    rows[thefts, 0] = rng.normal(8, 1, len(thefts))
    rows[thefts, 7] = 30 + 20 * rng.uniform(size=len(thefts))
    rows[mixed] = rng.permuted(rows[mixed], axis=0)
    return np.clip(rows, 0, _MOST_VISITS)


def sensors(n: int, rng: np.random.Generator) -> Rows:
    """Twelve readings with long tails, of which some are rounded, cut at zero, stuck or skewed."""
    fixed = np.random.default_rng(902)
    rows = 0.8 * rng.normal(size=(n, 4)) @ fixed.normal(size=(4, 12))
    rows += 0.4 * rng.standard_t(4, size=(n, 12))
    mode = rng.choice(3, n, p=(0.7, 0.2, 0.1))[:, None]
    rows[:, :4] = np.where(mode == 0, np.round(rows[:, :4]), (1 + mode) * rows[:, :4])
    rows[:, 4:7] = np.maximum(rows[:, 4:7], 0)
    rows[:, 7] = np.where(rng.uniform(size=n) < 0.8, 2.5, rows[:, 7])
    rows[:, 8] = np.exp(0.6 * rows[:, 8])
    return np.clip(rows + 0.01 * rng.uniform(size=rows.shape), *_READINGS)


def odd_sensors(n: int, rng: np.random.Generator) -> Rows:
    """Readings that are stuck in several columns, noisy in all, or anywhere in one."""
    rows, kind = sensors(n, rng), rng.choice(3, n)
    stuck, noisy, single = (np.flatnonzero(kind == k) for k in range(3))
    rows[stuck, :4] = np.round(3 * rng.normal(size=(len(stuck), 4)))
    rows[stuck, 4:7] = 0.01 * rng.uniform(size=(len(stuck), 3))
    rows[stuck, 7] = 2.5
    rows[noisy] += 1.5 * rng.normal(size=(len(noisy), 12))
    rows[single, rng.integers(12, size=len(single))] = rng.uniform(-6, 8, len(single))
    return np.clip(rows, *_READINGS)


SETS: dict[str, tuple[Callable, Callable, dict]] = {
    "connections": (connections, intrusions, {"bounds": (_LOW, _HIGH)}),
    "payments": (payments, frauds, {"bounds": (-_BORDER, _BORDER)}),
    "visits": (visits, odd_visits, {"bounds": (np.zeros(8), _MOST_VISITS)}),
    "sensors": (sensors, odd_sensors, {"bounds": _READINGS}),
}


def draw(name: str, n: int, tested: int, *, seed: int) -> tuple[Rows, Rows, Rows, dict]:
    """Normal rows to learn from, normal rows and anomalies to tell apart, and the declared domain."""
    normal, odd, domain = SETS[name]
    rng = np.random.default_rng(seed)
    return normal(n, rng), normal(tested, rng), odd(tested, rng), domain


def _shares(
    n: int, rng: np.random.Generator, *, zero: float, one: float, most: float = 1.0
) -> np.ndarray:
    """Shares that are often exactly zero or one."""
    between = most * rng.beta(0.8, 2, n)
    return np.choose(
        rng.choice(3, n, p=(zero, one, 1 - zero - one)), [0 * between, 1 + 0 * between, between]
    )


def _logged(rng: np.random.Generator, numbers: Rows, shares: Rows) -> Rows:
    """Whole bytes and seconds, counts and rounded shares, each spread over its own cell."""
    whole = np.floor(np.exp(numbers[:, :3]) + 1e-6) + rng.uniform(size=(len(numbers), 3))
    counts = np.floor(numbers[:, 3:]) + rng.uniform(size=(len(numbers), 3))
    shares = _UNIT * (np.round(shares / _UNIT) + rng.uniform(size=shares.shape))
    return np.clip(np.column_stack([np.log(whole), counts, shares]), _LOW, _HIGH)
