"""A small messy table, its schema, and fits of it that take seconds."""

import contextlib
import dataclasses
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
import pytest

import veilflow as vf
from veilflow.models.table import code_density, fitted_table, imputation, warm_start
from veilflow.releases.marginals import fit as marginal_fit

NUM_ROWS = 600
CANARY = "atlantis", 987.654321
"""Town and gain of the first row, which nobody else has."""
BUDGET = vf.Budget(epsilon=4.0, delta=1e-4)
SCHEMA = vf.Schema(
    age=vf.Numeric(17, 90, integer=True, nullable=True),
    gain=vf.Numeric(-50, 1000),
    city=vf.OpenCategorical(nullable=True),
    sex=vf.Categorical("F", "M"),
    grade=vf.Ordinal("a", "b", "c", nullable=True),
    seen=vf.Datetime("2020-01-01", "2021-12-31", resolution="day"),
    smoker=vf.Boolean(),
    label="smoker",
)


def frame(num_rows: int = NUM_ROWS, seed: int = 0) -> pd.DataFrame:
    """Ages, gains that are mostly zero, towns, gaps: as generated for everybody."""
    rng = np.random.default_rng(seed)
    age = np.clip(rng.normal(40, 12, num_rows), 17, 90).round()
    gain = np.where(rng.uniform(size=num_rows) < 0.6, 0.0, rng.exponential(80, num_rows) - 20)
    start = np.datetime64("2020-01-01", "us")
    table = pd.DataFrame(
        {
            "age": age,
            "gain": np.clip(gain, -50, 1000),
            "city": rng.choice(["paris", "rome", "oslo"], num_rows, p=[0.6, 0.3, 0.1]),
            "sex": rng.choice(["F", "M"], num_rows),
            "grade": rng.choice(["a", "b", "c"], num_rows, p=[0.5, 0.3, 0.2]),
            "seen": start + rng.integers(0, 700, num_rows) * np.timedelta64(86_400_000_000, "us"),
            "smoker": rng.uniform(size=num_rows) < np.where(age > 40, 0.6, 0.1),
        }
    )
    for name, share in (("age", 0.1), ("grade", 0.2), ("city", 0.05)):
        table.loc[rng.uniform(size=num_rows) < share, name] = None
    table.loc[0, ["city", "gain"]] = CANARY
    return table


@contextlib.contextmanager
def quick() -> Iterator[None]:
    """Warm starts, balancing and draws in few rows and steps: as the code is, but small."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(warm_start, "_ROWS", 2048)
        patch.setattr(warm_start, "_STEPS", 20)
        patch.setattr(warm_start, "_BATCH", 128)
        patch.setattr(code_density, "_BALANCE_ROWS", 2048)
        patch.setattr(marginal_fit, "_ROWS", 2048)
        patch.setattr(fitted_table, "_BLOCK", 2048)
        patch.setattr(code_density, "_CHUNK", 256)
        patch.setattr(imputation, "_ROWS", 128)
        yield


_TRAINING = {field.name for field in dataclasses.fields(vf.Training)}
_SIZES = {"hidden", "most_bins", "label_weight"}


def estimator(**settings: Any) -> vf.TableFlow:
    """An estimator of the small table; settings of the flow of codes and of training by their names."""
    usual = {"num_records": NUM_ROWS, "steps": 4, "hidden": (8,), "most_bins": 8, "seed": 1}
    given = {"schema": SCHEMA, "budget": BUDGET, **usual, **settings}
    training = {name: given.pop(name) for name in _TRAINING & set(given)}
    sizes = {name: given.pop(name) for name in _SIZES & set(given)}
    given.setdefault("flow", vf.codes(**sizes))
    return vf.TableFlow(training=vf.Training(**training), **given)


@lru_cache
def fitted() -> Any:
    """The small table, fitted once."""
    with quick():
        return estimator().fit(frame(), progress=False)
