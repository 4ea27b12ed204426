"""Normal rows to learn from, normal rows and anomalies to tell apart, and what is public of each.

Of network connections and card payments only normal rows are records of a fit. Attacks and frauds are
for measuring alone: no threshold, bound or setting comes from them.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from jaxtyping import Float

import veilflow as vf
from reproductions.dp_nf import data as dp_nf
from reproductions.dp_nf.data import Facts
from reproductions.metrics.roc import anomalies

TOYS = dp_nf.TOYS
NETWORK, CARDS, LIFE = "network", "cards", "lifesci"
NAMES = (LIFE, *TOYS, NETWORK, CARDS)

_RECORDS, _TESTED = 40_000, 20_000
"""Normal rows of networks and cards: to learn from, and to measure on."""

_LOGGED = {"duration": 11.4, "src_bytes": 21.5, "dst_bytes": 21.5}
"""log(1 + x) of up to a day in seconds, and of up to 2 GiB."""
_COUNTS = {"logged_in": 1, "count": 511, "srv_count": 511}
_COUNTS |= {"dst_host_count": 255, "dst_host_srv_count": 255}
"""The largest that the task's description allows: windows of two seconds and of 255 connections."""
_RATES = (
    *(f"{of}_rate" for of in ("serror", "srv_serror", "rerror", "srv_rerror", "same_srv")),
    *("diff_srv_rate", "srv_diff_host_rate"),
    *(f"dst_host_{of}_rate" for of in ("same_srv", "diff_srv", "same_src_port")),
    *(f"dst_host_{of}_rate" for of in ("srv_diff_host", "serror", "srv_serror", "rerror")),
    "dst_host_srv_rerror_rate",
)
_RATE_UNIT = 0.01
"""Rates are rounded to hundredths."""
_COMPONENTS = tuple(f"V{i}" for i in range(1, 29))
_COMPONENT_BOUND, _AMOUNT_BOUND = 10.0, 11.0

_FRESH = 50_000
"""Generated rows to measure on."""
_GENERATORS = {
    "moons": vf.datasets.moons,
    "gaussians": vf.datasets.gaussians,
    "pinwheel": vf.datasets.pinwheel,
}

_DELTA = 1e-6

FACTS = {
    NETWORK: Facts(
        title="KDD-99 connections",
        num_rows=_RECORDS,
        columns=(*_LOGGED, *_COUNTS, *_RATES),
        delta=_DELTA,
        bounds=(
            (0.0,) * (len(_LOGGED) + len(_COUNTS) + len(_RATES)),
            (
                *_LOGGED.values(),
                *(float(most + 1) for most in _COUNTS.values()),
                *(1 + _RATE_UNIT,) * len(_RATES),
            ),
        ),
        declared="23 numbers of a connection within the ranges that the task's description gives: "
        "duration and bytes as log(1 + x), counts up to 511 or 255, rates up to 1; what is rounded "
        "is spread by uniform jitter of its last digit. Texts (protocol, service, flag) are left "
        "out. Records are normal connections of the training file; what is told apart are normal "
        "connections and attacks of the test file",
    ),
    CARDS: Facts(
        title="card payments",
        num_rows=_RECORDS,
        columns=(*_COMPONENTS, "log_amount"),
        delta=_DELTA,
        bounds=(
            (*(-_COMPONENT_BOUND,) * len(_COMPONENTS), 0.0),
            (*(_COMPONENT_BOUND,) * len(_COMPONENTS), _AMOUNT_BOUND),
        ),
        declared="28 components and the logarithm of the amount. A box of ±10 for every component is "
        "declared, though their deviations are between 0.3 and 2, and cells beyond it are moved to "
        "its border, in records and in what is asked about alike. The components were made by the "
        "publishers from all rows, frauds included; that is theirs and counts as given",
    ),
}
"""Beside those of the DP-NF reproduction, which has Life Science and the generated sets."""


@dataclass(frozen=True)
class Case:
    """Rows of one split. Real ones are never shown."""

    facts: Facts
    records: Float[np.ndarray, "n d"]
    ordinary: Float[np.ndarray, "m d"]
    """Normal rows that no fit has seen."""
    anomalies: Float[np.ndarray, "a d"]


def facts_of(name: str) -> Facts:
    """What is public of a data set."""
    return FACTS[name] if name in FACTS else dp_nf.FACTS[name]


@lru_cache(maxsize=1)
def load(name: str, split: int) -> Case:
    """A split of a data set; real ones are read from the folder `VEILFLOW_DATA`.

    Args:
        name: Of `FACTS`, Life Science or a generated set.
        split: From 1 to 10.
    """
    if name in FACTS:
        rng = np.random.default_rng(split)
        return _network(rng) if name == NETWORK else _cards(rng)
    records, ordinary = dp_nf.load(name).split(split)
    if name in TOYS:  # there are as many as one likes
        ordinary = _GENERATORS[name](_FRESH, seed=1000 + split, standardize=True)
    # as in the paper: uniform in the tails of the test rows
    strange = anomalies(ordinary, seed=split)
    return Case(dp_nf.FACTS[name], records, ordinary, strange)


def _network(rng: np.random.Generator) -> Case:
    parts: Any = vf.datasets.load("kddcup99")
    found = {}
    for part, frame in parts.items():
        normal = frame["label"].astype(str).str.strip(".").to_numpy() == "normal"
        found[part] = frame.loc[normal], frame.loc[~normal]
    return Case(
        FACTS[NETWORK],
        _connections(_drawn(found["train"][0], _RECORDS, rng), rng),
        _connections(_drawn(found["test"][0], _TESTED, rng), rng),
        _connections(_drawn(found["test"][1], _TESTED, rng), rng),
    )


def _connections(frame: Any, rng: np.random.Generator) -> Float[np.ndarray, "n d"]:
    logged = np.log1p(frame[list(_LOGGED)].to_numpy(np.float64))
    counts = frame[list(_COUNTS)].to_numpy(np.float64)
    rates = frame[list(_RATES)].to_numpy(np.float64)
    counts = counts + rng.uniform(size=counts.shape)
    rates = rates + _RATE_UNIT * rng.uniform(size=rates.shape)
    # a whole second or byte is spread over its own cell, as counts are
    logged = np.log(np.exp(logged) + rng.uniform(size=logged.shape))
    return _within(np.column_stack([logged, counts, rates]), FACTS[NETWORK])


def _cards(rng: np.random.Generator) -> Case:
    frame: Any = vf.datasets.load("creditcard_fraud")["all"]
    fraud = frame["Class"].to_numpy() == 1
    normal = _drawn(frame.loc[~fraud], _RECORDS + _TESTED, rng)
    rows, strange = _payments(normal), _payments(frame.loc[fraud])
    return Case(FACTS[CARDS], rows[:_RECORDS], rows[_RECORDS:], strange)


def _payments(frame: Any) -> Float[np.ndarray, "n d"]:
    amount = np.log1p(frame["Amount"].to_numpy(np.float64))
    cells = frame[list(_COMPONENTS)].to_numpy(np.float64)
    return _within(np.column_stack([cells, amount]), FACTS[CARDS])


def _drawn(frame: Any, num_rows: int, rng: np.random.Generator) -> Any:
    return frame.iloc[rng.permutation(len(frame))[:num_rows]]


def _within(rows: Float[np.ndarray, "n d"], facts: Facts) -> Float[np.ndarray, "n d"]:
    assert facts.bounds is not None
    return np.clip(rows, *(np.array(side) for side in facts.bounds))
