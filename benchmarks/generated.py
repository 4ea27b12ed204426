"""Generated data sets the planner's rules were fitted on; nobody's rows, so looking at them is free.

Each has a generator with fixed public constants; the seed picks the rows. Rows of ten columns lie in
the unit ball, the others in a declared box. The toys of the reproductions are not among them.
"""

from collections.abc import Callable

import numpy as np

Rows = np.ndarray


def clusters(n: int, rng: np.random.Generator) -> Rows:
    """Thirty normals of different shape and weight in ten dimensions."""
    fixed = np.random.default_rng(100)
    centers = 2 * fixed.normal(size=(30, 10))
    weights = fixed.dirichlet(np.ones(30))
    shapes = 0.35 * fixed.normal(size=(30, 10, 10))
    which = rng.choice(30, n, p=weights)
    rows = centers[which] + np.einsum("nij,nj->ni", shapes[which], rng.normal(size=(n, 10)))
    return rows * np.exp(-0.2 * np.arange(10))


def warped(n: int, rng: np.random.Generator) -> Rows:
    """Tanh features of normals plus heavy tails: almost normal in the end."""
    fixed = np.random.default_rng(200)
    first, second = 0.6 * fixed.normal(size=(10, 40)), 0.5 * fixed.normal(size=(40, 10))
    tails = 0.3 * fixed.normal(size=(10, 10))
    rows = np.tanh(rng.normal(size=(n, 10)) @ first) @ second
    rows += rng.standard_t(5, size=(n, 10)) @ tails + 0.15 * rng.normal(size=(n, 10))
    return rows * np.exp(-0.15 * np.arange(10))


def skewed(n: int, rng: np.random.Generator) -> Rows:
    """Gammas of two scales through a random matrix, with a fold."""
    mixing = np.random.default_rng(300).normal(size=(10, 10))
    scale = np.where(rng.uniform(size=(n, 1)) < 0.3, 1.5, 0.6)
    rows = (rng.gamma(1.5, size=(n, 10)) * scale) @ mixing
    rows[:, :3] += 0.5 * np.abs(rows[:, 3:6])
    return rows


def fingerprints(n: int, rng: np.random.Generator) -> Rows:
    """Bits that are inherited along a tree of families and sometimes change, as of molecules."""
    fixed, bits = np.random.default_rng(400), 166
    frequency = fixed.beta(0.6, 1.2, bits)
    families = (fixed.uniform(size=(1, bits)) < frequency).astype(float)
    for children, change in ((6, 0.5), (8, 0.25), (12, 0.12)):
        families = np.repeat(families, children, axis=0)
        often = 2 * change * fixed.beta(1, 1, (len(families), 1))
        changed = fixed.uniform(size=families.shape) < often
        families = np.where(changed, fixed.uniform(size=families.shape) < frequency, families)
    weights = fixed.permutation((1 + np.arange(len(families))) ** -0.8)
    variety = 0.02 + 0.12 * fixed.uniform(size=len(families))
    which = rng.choice(len(families), n, p=weights / weights.sum())
    changed = rng.uniform(size=(n, bits)) < variety[which][:, None]
    return np.where(changed, rng.uniform(size=(n, bits)) < frequency, families[which])


def sheets(n: int, rng: np.random.Generator) -> Rows:
    """Three curved sheets of four dimensions in ten."""
    fixed = np.random.default_rng(500)
    which, rows = rng.choice(3, n, p=(0.5, 0.3, 0.2)), np.zeros((n, 10))
    for sheet in range(3):
        waves, features = fixed.normal(size=(4, 12)), 0.7 * fixed.normal(size=(12, 10))
        center, phase = 1.5 * fixed.normal(size=10), fixed.uniform(0, 6, 12)
        here = np.sin(0.7 * rng.normal(size=(n, 4)) @ waves + phase) @ features + center
        rows[which == sheet] = (here + 0.12 * rng.normal(size=(n, 10)))[which == sheet]
    return rows


def bent(n: int, rng: np.random.Generator) -> Rows:
    """Twelve clusters that are all bent in the same way, each turned and stretched by itself."""
    fixed = np.random.default_rng(600)
    which = rng.choice(12, n, p=fixed.dirichlet(2 * np.ones(12)))
    shape = rng.normal(size=(n, 10))
    shape[:, 1] += 0.6 * (shape[:, 0] ** 2 - 1)
    shape[:, 3] += 0.5 * np.sin(2 * shape[:, 2])
    shape[:, 4] *= np.exp(0.5 * shape[:, 5])
    turns, centers = 0.35 * fixed.normal(size=(12, 10, 10)), 1.5 * fixed.normal(size=(12, 10))
    return centers[which] + np.einsum("nij,nj->ni", turns[which], shape)


def meter(n: int, rng: np.random.Generator) -> Rows:
    """Six columns as of a household meter: a clock, skew, and columns that are mostly zero."""
    hour = rng.uniform(0, 24, n)
    day = 0.3 + np.exp(-((hour - 8) ** 2) / 3) + 1.5 * np.exp(-((hour - 19.5) ** 2) / 6)
    power = day * np.exp(0.6 * rng.normal(size=n)) + 0.2
    volts = 241 - 1.2 * power + 2.5 * rng.normal(size=n) + 1.5 * np.sin(hour / 4)
    oven = np.where(rng.uniform(size=n) < 0.04 + 0.05 * (hour > 18), rng.normal(37, 2, n), 0.0)
    wash = np.where(rng.uniform(size=n) < 0.08, rng.normal(35, 3, n), rng.integers(0, 2, n))
    heater = np.where(rng.uniform(size=n) < 0.25 + 0.2 * (hour < 9), rng.normal(17.5, 0.6, n), 0.0)
    meters = np.stack([oven, wash, heater], axis=1).round()
    power = power + meters.sum(axis=1) / 55
    return np.column_stack([hour, power, volts, meters + rng.uniform(size=(n, 3))])


def cities(n: int, rng: np.random.Generator) -> Rows:
    """Four hundred small clusters on a plane, a few of which hold most of the rows."""
    fixed = np.random.default_rng(1)
    regions = fixed.uniform(-2, 2, (20, 2))
    centers = regions[fixed.integers(20, size=400)] + 0.4 * fixed.normal(size=(400, 2))
    sizes = np.exp(fixed.normal(-4.5, 0.7, 400))
    weights = 1 / np.arange(1, 401)
    which = rng.choice(400, n, p=weights / weights.sum())
    return centers[which] + sizes[which, None] * rng.normal(size=(n, 2))


def spirals(n: int, rng: np.random.Generator) -> Rows:
    """Two arms of a spiral."""
    turn, arm = 3 * np.pi * np.sqrt(rng.uniform(size=n)), rng.choice([-0.2, 0.2], n)
    rows = np.stack([arm * turn * np.cos(turn), arm * turn * np.sin(turn)], axis=1)
    return rows + 0.07 * rng.normal(size=(n, 2))


def rings(n: int, rng: np.random.Generator) -> Rows:
    """Three rings around one center."""
    radius = rng.choice([0.5, 1.2, 2.0], n, p=[0.2, 0.3, 0.5]) + 0.07 * rng.normal(size=n)
    angle = rng.uniform(0, 2 * np.pi, n)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)


def petals(n: int, rng: np.random.Generator) -> Rows:
    """Seven bent petals."""
    along, across = 0.35 * rng.normal(size=n), 0.09 * rng.normal(size=n)
    angle, radius = 2 * np.pi * rng.integers(7, size=n) / 7 + 0.8 * along, 1.3 + along
    rows = [
        radius * np.cos(angle) - across * np.sin(angle),
        radius * np.sin(angle) + across * np.cos(angle),
    ]
    return np.stack(rows, axis=1)


_BALLS: dict[str, Callable] = {
    "clusters": clusters,
    "warped": warped,
    "skewed": skewed,
    "fingerprints": fingerprints,
    "sheets": sheets,
    "bent": bent,
}
_PLANE: dict[str, Callable] = {"spirals": spirals, "rings": rings, "petals": petals}
_COLUMNS = 10
_METER = (np.zeros(6), np.array([24.0, 12.0, 256.0, 60.0, 60.0, 60.0]))


def draw(name: str, n: int, *, seed: int) -> tuple[Rows, dict]:
    """`n` rows of a set, and its declared domain as an estimator takes it."""
    rng = np.random.default_rng(seed)
    if name in _BALLS:
        # center, axes and radius are constants of the generator, from a sample of their own
        known = _BALLS[name](50_000, np.random.default_rng(999))
        center = known.mean(axis=0)
        axes = np.linalg.svd(known - center, full_matrices=False)[2][:_COLUMNS]
        radius = 1.2 * np.linalg.norm((known - center) @ axes.T, axis=1).max()
        return (_BALLS[name](n, rng) - center) @ axes.T / radius, {"row_norm": 1.0}
    if name == "meter":
        # outside the box a density is nothing but its edge
        low, high = _METER[0] + [0, 0, 220, 0, 0, 0], _METER[1]
        return np.clip(meter(n, rng), low, high), {"bounds": (low, high)}
    if name == "cities":
        return cities(n, rng), {"bounds": (-5, 5)}
    return _PLANE[name](n, rng), {"bounds": (-4, 4)}
