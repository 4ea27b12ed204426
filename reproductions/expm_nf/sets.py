"""The data sets of the tables: features scaled by declared facts, and the network for them."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from benchmarks.generated_labels import labeled

import veilflow as vf
from reproductions.expm_nf import adult
from reproductions.expm_nf import data as icu

BOUND = 4.0
"""Of scaled values of series; see `data.py`."""
HIDDEN = 16


class Problem(NamedTuple):
    """Features and labels to learn from, to choose by without privacy, and to be judged by."""

    train: tuple[Any, np.ndarray]
    dev: tuple[Any, np.ndarray] | None
    test: tuple[Any, np.ndarray]
    bounds: tuple[float, float]
    network: Any
    kind: str | None = None
    """What settings were searched for, "lr" or "grud"; None for those of a first guess."""


@dataclass(frozen=True)
class Facts:
    """What tables know of a data set."""

    title: str
    load: Callable[[], Problem]


def _adult(num_features: int, *, every: int = 1) -> Callable[[], Problem]:
    def load() -> Problem:
        rows, labels = adult.load("train", num_features)
        test = adult.load("test", num_features)
        network = vf.expm.Logistic(num_features=num_features)
        return Problem((rows[::every], labels[::every]), None, test, (-1, 1), network)

    return load


def _icu(task: str, kind: str) -> Callable[[], Problem]:
    def features(stays: icu.Stays) -> Any:
        if kind == "grud":
            return stays.values, stays.mask, stays.since
        return stays.flat() if kind == "lr" else stays.last()

    def load() -> Problem:
        parts = icu.load(task)
        train, dev, test = ((features(part), part.labels) for part in parts)
        if kind == "grud":
            network: Any = vf.expm.GruD(num_features=len(icu.NAMES), hidden=HIDDEN)
            return Problem(train, dev, test, (-BOUND, BOUND), network, kind)
        network = vf.expm.Logistic(num_features=train[0].shape[1])
        return Problem(train, dev, test, (-1, 1), network, kind if kind == "lr" else None)

    return load


def _generated() -> Problem:
    rows, labels = labeled(6_000, 6, seed=1)
    train, test = (rows[:2_000], labels[:2_000]), (rows[2_000:], labels[2_000:])
    return Problem(train, None, test, (-1, 1), vf.expm.Logistic(num_features=6))


MORTALITY, STAY = "mortality", "stay"
SETS = {
    "adult": Facts("Adult", _adult(12)),
    "adult-tenth": Facts("Adult (every tenth record)", _adult(12, every=10)),
    "adult-30": Facts("Adult (30 features)", _adult(30)),
    f"adult-{adult.MOST}": Facts(f"Adult ({adult.MOST} features)", _adult(adult.MOST)),
    "lr-mortality": Facts("mortality (LR)", _icu(MORTALITY, "lr")),
    "lr-stay": Facts("long stay (LR)", _icu(STAY, "lr")),
    "last-mortality": Facts("mortality (LR of last values)", _icu(MORTALITY, "last")),
    "last-stay": Facts("long stay (LR of last values)", _icu(STAY, "last")),
    "grud-mortality": Facts("mortality (GRU-D)", _icu(MORTALITY, "grud")),
    "grud-stay": Facts("long stay (GRU-D)", _icu(STAY, "grud")),
    "generated": Facts("generated", _generated),
}


def scaled(features: Any, bounds: tuple[float, float]) -> Any:
    """Features in [-1, 1] as samplers take them: what estimators do with bounds around 0."""
    if not isinstance(features, tuple):
        return np.clip(features / bounds[1], -1, 1).astype(np.float32)
    values, mask, since = features
    inside = np.clip(values / bounds[1], -1, 1).astype(np.float32)
    return inside, mask.astype(np.float32), since.astype(np.float32)


@lru_cache(maxsize=1)
def load(name: str) -> Problem:
    """The problem of this name."""
    return SETS[name].load()
