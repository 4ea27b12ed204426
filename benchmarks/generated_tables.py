"""Generated tables the planner of table flows was fitted on; nobody's rows, so looking is free.

`people` has what a register has: counts with heaps, amounts that are mostly zero, categories of very
different size that depend on each other, and a label that no pair of columns explains. `terrain` has
what a survey has: ten smooth columns that bend around each other, and seven classes of unequal size.
`cover` has the same columns, and seven classes that follow from them nearly without noise, but in no
simple way. `wide` has as many columns as you like, and `census` 41 columns with long lists, for
questions of speed.
"""

import numpy as np
import pandas as pd

import veilflow as vf


def people(n: int, *, seed: int) -> tuple[pd.DataFrame, vf.Schema]:
    """Fifteen mixed columns about persons who do not exist."""
    rng, fixed = np.random.default_rng(seed), np.random.default_rng(11)
    age = np.clip(17 + rng.gamma(3.0, 7.5, n), 17, 90).astype(int)
    sex = rng.uniform(size=n) < 0.45
    region = rng.choice(40, n, p=zipf(40, 1.6))
    talent = rng.normal(size=n) + 0.3 * fixed.normal(size=40)[region]
    school = np.clip(np.round(9.5 + 2.2 * talent + 0.8 * rng.normal(size=n)), 1, 16).astype(int)
    track = choice(rng, fixed, [school / 16, sex, age / 90], 9, 2.5)
    trade = choice(rng, fixed, [school / 16, sex, track / 9, age / 90], 14, 3.0)
    married = choice(rng, fixed, [np.minimum(age, 50) / 50, sex], 6, 3.5)
    home = choice(rng, fixed, [married / 6, sex, age / 90], 5, 5.0)
    group = rng.choice(5, n, p=[0.8, 0.1, 0.05, 0.03, 0.02])
    hours = np.where(
        rng.uniform(size=n) < 0.47,
        40,
        np.clip(rng.normal(40 - 8 * (age > 62) + 3 * ~sex, 12), 1, 99),
    ).astype(int)
    drive = 0.9 * talent + 0.04 * (age - 38) - 0.0016 * (age - 45) ** 2 + 0.03 * (hours - 40)
    drive += np.where(married == 2, 1.4, -0.6) + 0.8 * fixed.normal(size=14)[trade] + 0.3 * ~sex
    drive += 0.7 * np.sin(school / 2) * (track % 2)
    gains = np.where(
        rng.uniform(size=n) < 0.04 + 0.12 / (1 + np.exp(1.5 - drive)),
        np.exp(rng.normal(8, 1.2, n)),
        0,
    )
    losses = np.where((gains == 0) & (rng.uniform(size=n) < 0.05), rng.normal(1900, 350, n), 0)
    drive += 2.2 * (gains > 5000) + 0.8 * (losses > 1700)
    weight = np.clip(np.exp(rng.normal(12, 0.55, n)), 1e4, 1.5e6)
    label = rng.uniform(size=n) < 1 / (1 + np.exp(1.9 - 1.3 * drive))
    whole = {"age": (age, 17, 90), "school": (school, 1, 16), "hours": (hours, 1, 99)}
    whole |= {
        "weight": (weight.astype(int), 10_000, 1_500_000),
        "gains": (np.clip(gains, 0, 99_999).astype(int), 0, 99_999),
        "losses": (np.clip(losses, 0, 4400).astype(int), 0, 4400),
    }
    codes = {"track": (track, 9), "trade": (trade, 14), "married": (married, 6), "home": (home, 5)}
    codes |= {"group": (group, 5), "sex": (sex.astype(int), 2), "region": (region, 40)}
    codes |= {"shift": (choice(rng, fixed, [trade / 14, hours / 99], 4, 2.0), 4)}
    codes |= {"label": (label.astype(int), 2)}
    return _table(whole, codes)


def terrain(n: int, *, seed: int) -> tuple[pd.DataFrame, vf.Schema]:
    """Ten smooth columns and a class that they leave much in doubt."""
    rng, fixed = np.random.default_rng(seed), np.random.default_rng(12)
    whole, seen = _survey(n, rng)
    bent = np.tanh(1.5 * seen @ fixed.normal(size=(7, 24)) + fixed.normal(size=24))
    score = 1.6 * bent @ fixed.normal(size=(24, 7)) * 0.55 + 2.0 * seen[:, :1] * fixed.normal(
        size=7
    )
    score += np.array([1.5, 2.0, -0.5, -3.0, -2.0, -1.5, -1.0]) + rng.gumbel(size=(n, 7))
    return _table(whole, {"label": (score.argmax(axis=1), 7)})


def cover(n: int, *, seed: int) -> tuple[pd.DataFrame, vf.Schema]:
    """Those columns and a class that they nearly determine: each grows around places of its own."""
    rng, fixed = np.random.default_rng(seed), np.random.default_rng(14)
    whole, seen = _survey(n, rng)
    seen = (seen - seen.mean(axis=0)) / seen.std(axis=0)
    places = fixed.normal(size=(7, 4, 7)) * np.array([1.6, 0.8, 0.8, 0.8, 0.8, 0.8, 0.8])
    apart = ((seen[:, None, None] - places) ** 2 * np.array([3.0, 1, 1, 1, 1, 1, 1])).sum(axis=-1)
    score = -1.2 * apart.min(axis=-1) + np.array([2.5, 3.0, -0.5, -5.0, -3.0, -1.5, -1.0])
    return _table(whole, {"label": ((score + rng.gumbel(size=(n, 7))).argmax(axis=1), 7)})


def _survey(n: int, rng: np.random.Generator) -> tuple[dict, np.ndarray]:
    """Ten columns of a survey, and seven numbers that they show."""
    latent = rng.normal(size=(n, 6))
    height = 2800 + 280 * latent[:, 0] - 180 * (latent[:, 1] > 1)
    aspect = (180 + 110 * latent[:, 1] + 60 * np.sin(2 * latent[:, 2])) % 360
    slope = np.clip(np.abs(9 * latent[:, 2] + 3 * latent[:, 3]) + 4, 0, 65)
    turn = np.deg2rad(aspect)
    shade = [
        np.clip(230 - slope * (1.2 + np.cos(turn - at)) + 6 * rng.normal(size=n), 0, 254)
        for at in (1.0, 3.0, 4.6)
    ]
    water = np.clip(np.exp(5 + 0.9 * latent[:, 3] + 0.2 * latent[:, 0]) - 30, 0, 1400)
    above = np.clip(0.18 * water * latent[:, 4] + 12 * rng.normal(size=n), -170, 600)
    road = np.clip(np.exp(7.3 + 0.5 * latent[:, 0] + 0.6 * latent[:, 5]), 0, 7100)
    fire = np.clip(np.exp(7.2 + 0.3 * latent[:, 0] + 0.5 * latent[:, 4]), 0, 7100)
    shades = (np.stack(shade, 1) - 200) / 40
    seen = np.column_stack(
        [(height - 2800) / 280, slope / 20, np.log1p(water) / 3, shades, road / 3e3]
    )
    tops = {
        "height": (height, 1700, 3900),
        "aspect": (aspect, 0, 360),
        "slope": (slope, 0, 66),
        "water": (water, 0, 1400),
        "above": (above, -170, 600),
        "road": (road, 0, 7100),
        "morning": (shade[0], 0, 254),
        "noon": (shade[1], 0, 254),
        "evening": (shade[2], 0, 254),
        "fire": (fire, 0, 7100),
    }
    whole = {k: (np.clip(np.round(v), a, b).astype(int), a, b) for k, (v, a, b) in tops.items()}
    return whole, seen


def wide(n: int, *, num_columns: int, seed: int) -> tuple[pd.DataFrame, vf.Schema]:
    """Numbers, mostly-zero amounts and categories in turns, each after the two before, and a label."""
    rng, fixed = np.random.default_rng(seed), np.random.default_rng(13)
    whole, codes = {}, {}
    seen = [rng.uniform(size=n), rng.uniform(size=n)]
    for i in range(num_columns - 1):
        if i % 3 < 2:
            value = np.tanh(seen[-1] - seen[-2] + rng.normal(size=n)) / 2 + 0.5
            value = np.where(value < 0.7, 0, value) if i % 3 else value
            whole[f"number{i}"] = (np.round(1000 * value).astype(int), 0, 1000)
            seen.append(value)
        else:
            size = (2, 5, 9, 16)[i // 3 % 4]
            codes[f"category{i}"] = (choice(rng, fixed, seen[-2:], size, 2.0), size)
            seen.append(codes[f"category{i}"][0] / size)
    codes["label"] = (choice(rng, fixed, seen[-6:], 2, 3.0), 2)
    return _table(whole, codes)


_LISTS = (
    9,
    52,
    47,
    17,
    3,
    7,
    24,
    15,
    5,
    10,
    2,
    3,
    6,
    8,
    6,
    6,
    51,
    38,
    8,
    10,
    9,
    10,
    3,
    4,
    5,
    43,
    43,
)
_LISTS += (43, 5, 3, 3, 3, 2)
"""How many values the listed columns of `census` have: about those of the census of 1994."""


def census(n: int, *, seed: int) -> tuple[pd.DataFrame, vf.Schema]:
    """Forty-one columns: 33 lists, some of them long, seven amounts and a rare label."""
    rng, fixed = np.random.default_rng(seed), np.random.default_rng(14)
    latent = list(rng.uniform(size=(4, n)))
    whole, codes = {}, {}
    for i, size in enumerate(_LISTS):
        seen = [latent[j] for j in fixed.choice(len(latent), 2, replace=False)]
        code = _choice(rng, fixed, seen, size, 3.0)
        codes[f"list{i}"] = (code, size)
        latent.append(code / size)
        if i % 5 == 4:
            value = np.tanh(latent[-1] - seen[0] + rng.normal(size=n)) / 2 + 0.5
            value = np.where(value < 0.8, 0, value) if i % 2 else value
            whole[f"amount{i}"] = (np.round(1000 * value).astype(int), 0, 1000)
            latent.append(value)
    seen = [latent[j] for j in (4, 7, 12, 20, 31)]
    score = sum(seen) + 0.5 * rng.normal(size=n)
    codes["label"] = ((score > 2.6).astype(int), 2)
    return _table(whole, codes)


TABLES = {"people": people, "terrain": terrain, "cover": cover}


def zipf(size: int, power: float) -> np.ndarray:
    weights = np.arange(1, size + 1) ** -power
    return weights / weights.sum()


def choice(
    rng: np.random.Generator, fixed: np.random.Generator, seen: list, size: int, sharp: float
) -> np.ndarray:
    """A category that depends on what was seen, through random bends."""
    seen_ = np.column_stack([np.asarray(x, float) for x in seen])
    bent = np.sin(3 * (seen_ @ fixed.normal(size=(seen_.shape[1], 12)) + fixed.normal(size=12)))
    score = sharp * bent @ fixed.normal(size=(12, size)) / 2 - 1.2 * np.log1p(np.arange(size))
    return (score + rng.gumbel(size=score.shape)).argmax(axis=1)


def _table(whole: dict, codes: dict) -> tuple[pd.DataFrame, vf.Schema]:
    frame = pd.DataFrame({name: values for name, (values, *_) in whole.items()})
    columns: dict = {n: vf.Numeric(a, b, integer=True) for n, (_, a, b) in whole.items()}
    for name, (values, size) in codes.items():
        names = np.array([f"{name}{i}" for i in range(size)])
        frame[name] = names[values]
        columns[name] = vf.Categorical(*names.tolist())
    return frame, vf.Schema(columns, label="label")
