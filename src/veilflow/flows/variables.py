"""Rows of listed and continuous variables, and the points by which a flow represents them.

A row has a code and a position for each variable. A listed variable is given by its code, one of K, and
a continuous one by its position in [0, 1); the other number is not used. A point has K units of length
for a listed variable, one for each code, and one unit for a continuous variable.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from veilflow._core import check

BELOW_ONE = float(np.nextafter(np.float32(1), np.float32(0)))
"""The largest float32 of [0, 1)."""

Codes = Int[Array, " variables"]
Positions = Float[Array, " variables"]
Row = tuple[Codes, Positions]
"""Codes and positions."""


@dataclass(frozen=True)
class Listed:
    """A variable with codes 0..num_codes-1."""

    num_codes: int

    def __post_init__(self) -> None:
        check.count(num_codes=self.num_codes)


@dataclass(frozen=True)
class Continuous:
    """A variable with a position in [0, 1)."""


Kind = Listed | Continuous


@dataclass(frozen=True)
class Variables:
    """The kinds of a row's variables: public, and the same for all rows."""

    kinds: tuple[Kind, ...]

    def __init__(self, kinds: Iterable[Kind]):
        """Check the kinds.

        Raises:
            ValueError: If there is none.
            TypeError: If a kind is neither listed nor continuous.
        """
        kinds = tuple(kinds)
        object.__setattr__(self, "kinds", kinds)
        if not kinds:
            raise ValueError("kinds must hold at least one variable, got none.")
        for kind in kinds:
            if not isinstance(kind, Listed | Continuous):
                raise TypeError(
                    f"kinds must hold Listed(num_codes) and Continuous() only, got {kind!r}."
                )

    @property
    def dim(self) -> int:
        """How many variables a row has."""
        return len(self.kinds)

    @property
    def listed(self) -> tuple[int, ...]:
        """Indices of the listed variables."""
        return tuple(i for i, kind in enumerate(self.kinds) if isinstance(kind, Listed))

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many codes each listed variable has."""
        return tuple(kind.num_codes for kind in self.kinds if isinstance(kind, Listed))

    def codes_of_listed(self, codes: Int[Array, " variables"]) -> Int[Array, " listed"]:
        """The codes of the listed variables."""
        return codes[np.asarray(self.listed, int)]

    def point(self, row: Row, noise: Float[Array, " listed"]) -> Float[Array, " variables"]:
        """Code plus noise for listed variables, the position for continuous ones.

        Args:
            row: Codes and positions.
            noise: Numbers in [0, 1).
        """
        codes, positions = row
        listed = np.asarray(self.listed, int)
        others = np.setdiff1d(np.arange(self.dim), listed)
        values = jnp.concatenate([codes[listed] + noise, positions[others]])
        return values[np.argsort(np.concatenate([listed, others]))]

    def row(self, point: Float[Array, " variables"]) -> Row:
        """The row that contains a point, or the nearest one. Codes and positions not used are 0."""
        listed = self._is_listed
        highest = self._widths.astype(np.float32) - 1
        codes = jnp.clip(jnp.floor(point), 0, highest).astype(jnp.int32)
        positions = jnp.clip(point, 0, BELOW_ONE)
        return jnp.where(listed, codes, 0), jnp.where(listed, 0, positions)

    def shares(
        self, listed: Sequence[Float[np.ndarray, " codes"]] | None
    ) -> list[Float[np.ndarray, " units"]]:
        """The share of each unit of length of every variable.

        Args:
            listed: The shares of the codes of each listed variable; None for equal ones.

        Raises:
            ValueError: If there is not one share for each code of each listed variable.
        """
        given = [np.ones(size) for size in self.sizes] if listed is None else listed
        if tuple(map(len, given)) != self.sizes:
            raise ValueError(
                f"shares must be one for each of {self.sizes} codes, got {tuple(map(len, given))}."
            )
        each = iter(given)
        return [next(each) if isinstance(kind, Listed) else np.ones(1) for kind in self.kinds]

    @property
    def _is_listed(self) -> np.ndarray:
        return np.array([isinstance(kind, Listed) for kind in self.kinds])

    @property
    def _widths(self) -> np.ndarray:
        sizes = [kind.num_codes if isinstance(kind, Listed) else 1 for kind in self.kinds]
        return np.array(sizes, float)
