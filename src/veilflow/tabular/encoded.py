"""A table as numbers: for every cell a code, and a position where its column has positions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int32

from veilflow.tabular.schema import Schema

Vocabularies = Mapping[str, Sequence[str]]
"""For each open column, the values that were discovered, in the order of their codes."""

_SINGLE_CELLS = 2**22
"""The most cells of a grid whose middles single precision keeps apart."""


@dataclass(frozen=True, repr=False)
class EncodedRows:
    """Codes and positions of a table's cells, columns in the order of the schema.

    Shows neither the rows nor how many there are.

    Attributes:
        codes: Which value a cell has; in a column with positions 0, and 1 if the cell is missing.
        positions: Where in [0, 1) a value lies within its declared range; else 0. In double
            precision if a grid of the schema is so fine that it takes it.
    """

    codes: Int32[np.ndarray, "n d"]
    positions: Float[np.ndarray, "n d"]

    def __post_init__(self) -> None:
        if self.codes.ndim != 2 or self.codes.shape != self.positions.shape:
            raise ValueError("codes and positions must have two dimensions and the same shape.")

    def __len__(self) -> int:
        return len(self.codes)

    def __repr__(self) -> str:
        return f"EncodedRows(columns={self.codes.shape[1]})"

    def take(self, rows: np.ndarray | slice) -> "EncodedRows":
        """Only these rows, given by a mask, by indices or as a slice."""
        return EncodedRows(self.codes[rows], self.positions[rows])

    @staticmethod
    def concatenate(parts: "Sequence[EncodedRows]") -> "EncodedRows":
        """The rows of all parts, one after the other."""
        codes = np.concatenate([part.codes for part in parts])
        return EncodedRows(codes, np.concatenate([part.positions for part in parts]))


def position_type(schema: Schema) -> type[np.float32] | type[np.float64]:
    """The precision that the positions of a schema need."""
    cells = (column.num_cells or 0 for column in schema.columns.values())
    return np.float64 if max(cells, default=0) > _SINGLE_CELLS else np.float32
