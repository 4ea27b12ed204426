"""What to run, and what a run leaves: the same few words in every reproduction.

Names and settings are how a finished run is found again, so they never change.
"""

import math
from dataclasses import asdict, astuple, dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

_IN_FILE_NAMES = str.maketrans({",": None, " ": "-", "/": "-", ":": "-"})


class Task(Protocol):
    """What every task tells. As text, it is a title."""

    @property
    def data(self) -> str:
        """The data set; what stands before a slash in it is what a filter names."""
        ...

    @property
    def method(self) -> str:
        """The method."""
        ...

    @property
    def epsilon(self) -> float:
        """The budget."""
        ...

    @property
    def name(self) -> str:
        """The start of the file name of the run."""
        ...

    @property
    def settings(self) -> dict[str, Any]:
        """Everything that decides the result beside the code, as plain JSON."""
        ...


@dataclass(frozen=True, kw_only=True)
class Budgeted:
    """A method on a data set, for one budget."""

    data: str
    method: str
    epsilon: float

    @property
    def name(self) -> str:
        """The start of the file name of the run."""
        words = (word if isinstance(word, str) else f"{word:g}" for word in astuple(self))
        return "-".join(words).translate(_IN_FILE_NAMES)

    @property
    def settings(self) -> dict[str, Any]:
        """Everything that decides the result beside the code, as plain JSON."""
        budget = "inf" if self.epsilon == math.inf else self.epsilon
        return {**asdict(self), "epsilon": budget}

    def __str__(self) -> str:
        return f"{self.data}, {self.method}, epsilon {self.epsilon:g}"


@dataclass(frozen=True, kw_only=True)
class OfSplit(Budgeted):
    """The same on one split of the data set, counted from 1."""

    split: int

    def __str__(self) -> str:
        return f"{super().__str__()}, split {self.split}"


@dataclass(frozen=True, kw_only=True)
class OfSeed(OfSplit):
    """The same where the split is the seed of the fit, and delta is one for all."""

    delta: ClassVar[float]

    @property
    def settings(self) -> dict[str, Any]:
        """Everything that decides the result beside the code, as plain JSON."""
        return {**super().settings, "delta": self.delta}

    def __str__(self) -> str:
        return f"{Budgeted.__str__(self)}, seed {self.split}"


@dataclass(frozen=True)
class Finished:
    """The result of a task: numbers as plain JSON, arrays for figures, and seconds for the records."""

    result: dict[str, Any]
    arrays: dict[str, np.ndarray]
    seconds: float
