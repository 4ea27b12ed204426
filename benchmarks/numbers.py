"""Numbers inside their columns at epsilon 1 and delta 1e-5.

The tables are generated (`benchmarks/generated_numbers.py`), with 50,000 rows each and bounds too
wide: ten times for tails and amounts, three times for balances. Balances are fitted at the
defaults. Tails and amounts are matters of single columns, so those fits have the default plan for
columns, no warm start and 20 steps. A ratio is that of synthetic to real, or its inverse if that is
larger. Heavy tails have no fourth moment, or hardly one: the deviation of their real rows depends
on a handful of records.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

import veilflow as vf
from benchmarks import generated_numbers
from benchmarks.records import Record, record

ROWS = 50_000
HEAVY = ("skewed", "pareto", "rare")
UNITS = (("loan", 10_000), ("price", 1000), ("price", 10), ("transfer", 5))
"""Columns of amounts, and numbers of which many of their values are multiples."""


def run(*, quick: bool = False) -> list[Record]:
    """Three fits."""
    return [*_tails(quick), *_amounts(quick), *_balances(quick)]


def _tails(quick: bool) -> list[Record]:
    real, synthetic = _rows(generated_numbers.tails, quick, single=True)
    measures: dict[str, tuple[float, Callable[[Any], Any]]] = {
        "deviation": (1.1, lambda column: column.std()),
        "99.9 % quantile": (1.3, lambda column: column.quantile(0.999)),
    }
    found = []
    for what, (must, measure) in measures.items():
        ratios = {name: measure(synthetic[name]) / measure(real[name]) for name in real}
        away = {name: max(ratio, 1 / max(ratio, 1e-9)) for name, ratio in ratios.items()}
        light = [away[name] for name in away if name not in HEAVY]
        found += [
            record(
                f"bounds 10x: {what}, median of 12",
                float(np.median([*away.values()])),
                "ratio",
                must=must,
            ),
            record(f"bounds 10x: {what}, worst of 9", max(light), "ratio", must=must),
            *(record(f"bounds 10x: {what}, {name} (heavy)", away[name], "ratio") for name in HEAVY),
        ]
    return found


def _amounts(quick: bool) -> list[Record]:
    real, synthetic = _rows(generated_numbers.amounts, quick, single=True)
    found = []
    for name, unit in UNITS:
        share, kept = (_multiples(table[name], unit) for table in (real, synthetic))
        found.append(
            record(
                f"multiples of {unit:,} in {name}, share kept",
                kept / share,
                "ratio",
                better="higher",
                must=0.8,
                peer=f"real: {share:.2f} of rows",
            )
        )
    codes = real["code"].unique()
    inside = float(synthetic["code"].isin(codes).mean())
    peer = f"{len(codes)} of 10,000 numbers occur"
    return [
        *found,
        record("sparse whole numbers that occur", inside, "of rows", better="higher", peer=peer),
    ]


def _multiples(column: Any, unit: int) -> float:
    return float((np.round(column.to_numpy(float) * 100) % (unit * 100) == 0).mean())


def _balances(quick: bool) -> list[Record]:
    real, synthetic = _rows(generated_numbers.balances, quick, single=False)
    found = []
    for far in (1, 2, 3):
        pairs = [(f"balance{i}", f"balance{i + far}") for i in range(4 - far)]
        ours, truth = (
            [float(table[a].corr(table[b])) for a, b in pairs] for table in (synthetic, real)
        )
        off = max(abs(a - b) for a, b in zip(ours, truth, strict=True))
        name = f"raw correlation of balances {far} apart, largest error"
        peer = f"real: {np.mean(truth):.2f}, synthetic: {np.mean(ours):.2f}"
        found.append(record(name, off, "", must=0.05 if far == 1 else None, peer=peer))
    return found


def _rows(
    make: Callable[..., tuple[pd.DataFrame, vf.Schema]], quick: bool, *, single: bool
) -> tuple[Any, Any]:
    """Real and synthetic rows of a table, of which `single` columns matter or all together."""
    frame, schema = make(1000 if quick else ROWS, seed=1)
    settings: dict[str, Any] = {
        "training": vf.Training(steps=2 if quick else 20),
        "warm_start": False,
    }
    estimator = vf.TableFlow(
        schema=schema,
        budget=vf.Budget(epsilon=1.0, delta=1e-5),
        num_records=len(frame),
        seed=5,
        **(settings if quick or single else {}),
    )
    return frame, estimator.fit(frame, progress=False).sample(len(frame), seed=1)
