"""A small table of codes whose columns depend on each other: nobody's rows."""

from typing import NamedTuple

import numpy as np


class Chained(NamedTuple):
    """Two draws of a table, and what a curator would declare of it. The label is the last column."""

    train: np.ndarray
    test: np.ndarray
    sizes: tuple[int, ...]
    ordered: tuple[bool, ...]

    @property
    def label(self) -> int:
        return len(self.sizes) - 1


def chained(num_rows: int, *, seed: int) -> Chained:
    """Bins and categories, each after the one before, and a label that is no sum of them."""
    rng = np.random.default_rng(seed)
    sizes = (12, 5, 20, 3, 9, 16, 7, 2)
    ordered = (True, False) * 4
    value, hidden, codes = np.zeros(2 * num_rows), [], []
    for size, in_order in zip(sizes[:-1], ordered, strict=False):
        value = np.tanh(1.5 * value + rng.normal(size=2 * num_rows))
        hidden.append(value)
        bins = np.digitize(value, np.linspace(-1, 1, size + 1)[1:-1])
        codes.append(bins if in_order else rng.permutation(size)[bins])
    logit = 4 * hidden[0] * hidden[1] + 3 * np.sign(hidden[3]) * hidden[4]
    codes.append((rng.logistic(size=2 * num_rows) < logit).astype(int))
    rows = np.stack(codes, axis=1).astype(np.int32)
    return Chained(rows[:num_rows], rows[num_rows:], sizes, ordered)
