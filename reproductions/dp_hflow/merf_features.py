"""The features of DP-MERF: a row as a vector of length 1, and a generated row as one."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

import veilflow as vf
from reproductions.dp_hflow.coded import Coded, is_number, num_codes

_SEED = 0
"""Of the frequencies, which are public."""
_WEIGHT_OF_ONE = 0.05
"""Share of a row's squared length that its constant has: it counts the records of each class."""
_SQUARED_LENGTH = 0.1
"""Of the kernel, for each number, on numbers scaled to [0, 1] by their declared bounds."""


@dataclass(frozen=True)
class Features:
    """What stands for a row: a constant, waves of its numbers, indicators of its listed values.

    A number that may be missing has the middle of its range where it is missing, and a listed variable
    that says so. The label is not among the features: it says in which column of the sum they stand.

    Attributes:
        schema: The declared columns.
        waves: Frequencies of the numbers; None if there is no number.
    """

    schema: vf.Schema
    waves: Float[np.ndarray, "numbers frequencies"] | None

    @classmethod
    def create(cls, schema: vf.Schema, *, frequencies: int) -> "Features":
        """The features of a schema, for a Gaussian kernel of its numbers."""
        numbers = sum(map(is_number, schema.columns.values()))
        if not numbers:
            return cls(schema, None)
        scale = (_SQUARED_LENGTH * numbers) ** -0.5
        waves = scale * np.random.default_rng(_SEED).normal(size=(numbers, frequencies))
        return cls(schema, waves)

    @cached_property
    def label(self) -> int | None:
        """The index of the label; None if there is none, or if it is a number."""
        name = self.schema.label
        listed = name is not None and not is_number(self.schema.columns[name])
        return self.schema.names.index(name) if listed else None

    @cached_property
    def numbers(self) -> tuple[int, ...]:
        """Indices of the columns with positions."""
        columns = self.schema.columns.values()
        return tuple(j for j, column in enumerate(columns) if is_number(column))

    @cached_property
    def listed(self) -> tuple[tuple[int, int], ...]:
        """Index and number of codes of each listed variable, the label left out."""
        return tuple(
            (j, num_codes(column))
            for j, column in enumerate(self.schema.columns.values())
            if j != self.label and (column.nullable or not is_number(column))
        )

    @property
    def num_classes(self) -> int:
        """The number of values of the label; 1 without a label."""
        if self.label is None:
            return 1
        return num_codes(tuple(self.schema.columns.values())[self.label])

    @property
    def size(self) -> int:
        """The number of features of a row."""
        waves = 0 if self.waves is None else 2 * self.waves.shape[1]
        return 1 + waves + sum(num for _, num in self.listed)

    @property
    def weight_of_one(self) -> float:
        """The constant, which is the first feature of every row."""
        return _WEIGHT_OF_ONE**0.5

    @property
    def _weights(self) -> tuple[float, float]:
        """Lengths of the waves and of the indicators; without one kind the other has all."""
        shares = np.array([self.waves is not None, bool(self.listed)], float)
        waves, listed = ((1 - _WEIGHT_OF_ONE) * shares / max(shares.sum(), 1)) ** 0.5
        return float(waves), float(listed)

    def of(self, numbers: Any, listed: Any, *, xp: Any = jnp) -> Any:
        """The features of rows.

        Their length is 1, whatever the numbers are, if the indicators of each listed variable are one 1
        among zeros, and less if they are shares that sum to 1.

        Args:
            numbers: Positions in [0, 1].
            listed: Indicators of the listed values, variable by variable.
            xp: NumPy for double precision on the host, otherwise JAX.
        """
        parts = [xp.full((len(numbers), 1), self.weight_of_one)]
        if self.waves is not None:
            angles = numbers @ xp.asarray(self.waves, numbers.dtype)
            waves = xp.concatenate([xp.cos(angles), xp.sin(angles)], axis=1)
            parts.append(self._weights[0] * self.waves.shape[1] ** -0.5 * waves)
        if self.listed:
            parts.append(self._weights[1] * len(self.listed) ** -0.5 * listed)
        return xp.concatenate(parts, axis=1)

    def sum_by_class(self, rows: Coded) -> Float[np.ndarray, "features classes"]:
        """The sum of the features of rows, each in the column of its class."""
        at = np.array(self.numbers, int)
        numbers = np.where(rows.codes[:, at] == 1, 0.5, rows.positions[:, at].astype(np.float64))
        listed = [np.eye(num)[rows.codes[:, j]] for j, num in self.listed]
        indicators = np.concatenate(listed, axis=1) if listed else numbers[:, :0]
        features = self.of(numbers, indicators, xp=np)
        classes = 0 * rows.codes[:, 0] if self.label is None else rows.codes[:, self.label]
        return features.T @ np.eye(self.num_classes)[classes]

    def rows(
        self,
        numbers: Float[np.ndarray, "rows numbers"],
        listed: Float[np.ndarray, "rows indicators"],
        classes: Int[np.ndarray, " rows"],
        rng: np.random.Generator,
    ) -> Coded:
        """Rows from what a generator makes; listed values are drawn from its shares."""
        shape = (len(classes), len(self.schema.columns))
        codes, positions = np.zeros(shape, np.int64), np.zeros(shape)
        positions[:, np.array(self.numbers, int)] = np.clip(numbers, 0, 1)
        ends = np.cumsum([num for _, num in self.listed])[:-1]
        for (j, num), own in zip(self.listed, np.split(listed, ends, axis=1), strict=False):
            up_to = np.cumsum(own, axis=1)
            drawn = rng.uniform(size=(len(own), 1)) * up_to[:, -1:]
            codes[:, j] = np.minimum((drawn >= up_to).sum(axis=1), num - 1)
        at = np.array(self.numbers, int)
        positions[:, at] = np.where(codes[:, at] == 1, 0.0, positions[:, at])  # a gap has none
        if self.label is not None:
            codes[:, self.label] = classes
        return Coded(codes, positions)
