"""Generated tables of codes: random networks of mixed columns, nobody's rows."""

from itertools import pairwise
from typing import NamedTuple

import numpy as np

Codes = np.ndarray


class Generated(NamedTuple):
    """A table with what a curator would declare about it. The label is the last column."""

    train: Codes
    test: Codes
    sizes: tuple[int, ...]
    ordered: tuple[bool, ...]

    @property
    def label(self) -> int:
        return len(self.sizes) - 1


def table(num_rows: int, num_columns: int, *, seed: int, num_test: int = 10_000) -> Generated:
    """Ordered and unordered columns of 2 to 42 codes, skewed, and a label that is no sum of them."""
    rng = np.random.default_rng(seed)
    total = num_rows + num_test
    hidden, codes, sizes, ordered = [], [], [], []
    for i in range(num_columns - 1):
        parents = rng.choice(i, size=min(i, int(rng.integers(0, 4))), replace=False)
        value = rng.normal(size=total) * rng.uniform(0.5, 1.5)
        for j in parents:
            one = hidden[j]
            value += (
                rng.normal() * [one, np.abs(one), np.tanh(2 * one), one**2 / 2][rng.integers(4)]
            )
        if len(parents) > 1 and rng.uniform() < 0.5:
            value += rng.normal() * hidden[parents[0]] * hidden[parents[1]]
        value = (value - value.mean()) / value.std()
        hidden.append(value)
        kind = rng.integers(3)
        if kind == 0:  # a number in bins of about equal mass
            size = int(rng.integers(8, 41))
            edges = np.quantile(value, np.arange(1, size) / size)
            codes.append(np.searchsorted(edges, value))
        elif kind == 1:  # a number that is mostly zero
            size = int(rng.integers(8, 33))
            edges = np.linspace(rng.uniform(0.3, 1.2), 3.5, size - 1)
            codes.append(np.searchsorted(edges, value))
        else:  # a category: the likeliest of skewed random utilities
            size = int(rng.choice([2, 3, 5, 7, 9, 16, 42]))
            slopes = rng.normal(size=size)
            skew = -1.2 * np.log(np.arange(1, size + 1))
            utilities = np.outer(value, slopes) + skew + rng.gumbel(size=(total, size))
            codes.append(rng.permutation(size)[utilities.argmax(axis=1)])
        sizes.append(size)
        ordered.append(bool(kind < 2))
    used = rng.choice(num_columns - 1, size=min(num_columns - 1, 7), replace=False)
    logit = rng.normal(size=len(used)) @ np.stack([hidden[j] for j in used])
    for j, k in pairwise(used):
        logit += 0.7 * rng.normal() * np.sign(hidden[j]) * hidden[k]
    logit = 3.5 * (logit - np.quantile(logit, 0.75)) / logit.std()
    codes.append((rng.logistic(size=total) < logit).astype(np.int64))
    rows = np.stack(codes, axis=1).astype(np.int32)
    return Generated(rows[:num_rows], rows[num_rows:], (*sizes, 2), (*ordered, False))
