"""Adult as numbers in [-1, 1], by ranges and lists that are declared: none is read from the records.

The label is an income above 50,000. Twelve columns are a person's choice of what might matter; more
are a yes-or-no column for each value of the census's own lists, in the order of this file.
"""

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

import veilflow as vf

if TYPE_CHECKING:
    import pandas as pd

_NUMBERS = {
    "age": (17, 90),
    "education_num": (1, 16),
    "hours_per_week": (1, 99),
}
_AMOUNTS = {"capital_gain": 99_999, "capital_loss": 4_356}
"""Mostly nothing, at times a lot: in logarithms."""

_FIRST = (
    ("marital_status", "Married-civ-spouse"),
    ("marital_status", "Never-married"),
    ("sex", "Male"),
    ("occupation", "Exec-managerial"),
    ("occupation", "Prof-specialty"),
    ("workclass", "Private"),
    ("relationship", "Own-child"),
)
_LISTS = {
    "workclass": "Federal-gov Local-gov Never-worked Private Self-emp-inc Self-emp-not-inc State-gov "
    "Without-pay",
    "marital_status": "Divorced Married-AF-spouse Married-civ-spouse Married-spouse-absent "
    "Never-married Separated Widowed",
    "occupation": "Adm-clerical Armed-Forces Craft-repair Exec-managerial Farming-fishing "
    "Handlers-cleaners Machine-op-inspct Other-service Priv-house-serv Prof-specialty "
    "Protective-serv Sales Tech-support Transport-moving",
    "relationship": "Husband Not-in-family Other-relative Own-child Unmarried Wife",
    "race": "Amer-Indian-Eskimo Asian-Pac-Islander Black Other White",
    "sex": "Female Male",
    "education": "10th 11th 12th 1st-4th 5th-6th 7th-8th 9th Assoc-acdm Assoc-voc Bachelors "
    "Doctorate HS-grad Masters Preschool Prof-school Some-college",
}


def columns() -> list[tuple[str, str]]:
    """All yes-or-no columns, the first ones first."""
    rest = [(name, value) for name, text in _LISTS.items() for value in text.split()]
    return [*_FIRST, *(pair for pair in rest if pair not in _FIRST)]


MOST = len(_NUMBERS) + len(_AMOUNTS) + len(columns())
"""Features, all of them."""


@lru_cache(maxsize=1)
def _parts() -> Any:
    return vf.datasets.load("adult")


def load(part: str, num_features: int) -> tuple[Float[np.ndarray, "rows features"], np.ndarray]:
    """Rows in [-1, 1] and labels of 0 and 1; read from the folder `VEILFLOW_DATA`.

    Args:
        part: "train", 32,561 rows, or "test", 16,281.
        num_features: The first so many, from 5 on.
    """
    table = _parts()[part]
    return rows_of(table)[:, :num_features], np.asarray(table["income"] == ">50K", np.int32)


def rows_of(table: "pd.DataFrame") -> Float[np.ndarray, "rows features"]:
    """A table of the census as numbers, row by row."""
    found = []
    for name, (low, high) in _NUMBERS.items():
        values = np.clip(table[name].to_numpy().astype(np.float64), low, high)
        found.append(2 * (values - low) / (high - low) - 1)
    for name, high in _AMOUNTS.items():
        values = np.clip(table[name].to_numpy().astype(np.float64), 0, high)
        found.append(2 * np.log1p(values) / np.log1p(high) - 1)
    for name, value in columns():
        found.append(np.where(np.asarray(table[name] == value, bool), 1.0, -1.0))
    return np.stack(found, axis=1)
