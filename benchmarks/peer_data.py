"""The tables on which we stand beside our peers: four public ones and three generated ones.

A public table is split as `reproductions/dp_hflow/data.py` does, and of each part so many rows are
drawn. What is public of it (bounds, lists) is the same for all methods.
"""

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import veilflow as vf
from benchmarks import generated_structures

PUBLIC = ("adult", "covertype", "census", "intrusion")
GENERATED = tuple(generated_structures.TABLES)
NAMES = (*PUBLIC, *GENERATED)
TEST = 20_000
"""The most rows that methods are measured on; no method sees them."""
SEED = 41
"""Of generated rows, and of the draw of public ones."""


class Data(NamedTuple):
    """Rows to synthesize, fresh rows of the same population, and what is declared of both."""

    train: pd.DataFrame
    test: pd.DataFrame
    schema: vf.Schema


@lru_cache(maxsize=1)
def load(name: str, rows: int, seed: int = SEED) -> Data:
    """A table with at most so many rows to synthesize. The frames are not to be changed.

    Raises:
        ValueError: There is no such table.
        FileNotFoundError: A public table is not in the folder `VEILFLOW_DATA`.
    """
    if name in GENERATED:
        frame, schema = generated_structures.TABLES[name](rows + TEST, seed=seed)
        return Data(frame.head(rows), frame.tail(TEST).reset_index(drop=True), schema)
    if name not in PUBLIC:
        raise ValueError(f"the tables are {', '.join(NAMES)}; got {name!r}.")
    from reproductions.dp_hflow import data

    found = data.load(name)
    data.load.cache_clear()
    train, test = (
        _drawn(frame, most, seed) for frame, most in ((found.train, rows), (found.test, TEST))
    )
    return Data(train, test, found.schema)


def _drawn(frame: Any, most: int, seed: int) -> pd.DataFrame:
    if len(frame) <= most:
        return frame
    chosen = np.random.default_rng(seed).choice(len(frame), most, replace=False)
    return frame.iloc[np.sort(chosen)].reset_index(drop=True)
