"""Rows of a schema to rows of codes and back: what the flow sees of a table.

A listed column has the codes of the schema. A column with positions has its bins, and a missing cell
is one more code. What is inside a bin is drawn, and scored, by the released histogram of the column.
`coding.py` makes coders.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float, Int32

from veilflow.models.table.bins import Bins
from veilflow.releases.table.cells import ColumnCells
from veilflow.tabular.codec import EncodedRows


@dataclass(frozen=True)
class CodedColumn:
    """One column: the share of each code and, of a number, its cells and bins."""

    mass: Float[np.ndarray, " codes"]
    """Share of each code, as declared or released; the missing code is the last."""
    ordered: bool
    nullable: bool
    cells: ColumnCells | None = None
    bins: Bins | None = None

    @property
    def num_codes(self) -> int:
        """How many codes there are."""
        return len(self.mass)


@dataclass(frozen=True)
class Coder:
    """All columns of a table."""

    columns: tuple[CodedColumn, ...]

    def with_masses(self, masses: Sequence[Float[np.ndarray, " codes"]]) -> "Coder":
        """The same codes with other shares; what is inside a bin stays."""
        pairs = zip(self.columns, masses, strict=True)
        return Coder(tuple(replace(column, mass=mass / mass.sum()) for column, mass in pairs))

    def codes(self, rows: EncodedRows) -> Int32[np.ndarray, "rows columns"]:
        """The codes of encoded rows."""
        codes = rows.codes.copy()
        for j, column in enumerate(self.columns):
            if column.cells is None or column.bins is None:
                continue
            bins = column.bins.of(column.cells.of(rows.positions[:, j]))
            missing = column.nullable & (rows.codes[:, j] == 1)
            codes[:, j] = np.where(missing, column.bins.num, bins)
        return codes

    def rows(
        self, codes: Int32[np.ndarray, "rows columns"], rng: np.random.Generator
    ) -> EncodedRows:
        """Encoded rows with these codes, drawn within their bins."""
        found = codes.astype(np.int32, copy=True)
        positions = np.zeros(codes.shape)
        for j, column in enumerate(self.columns):
            if column.cells is None or column.bins is None:
                continue
            missing = codes[:, j] >= column.bins.num
            bins = np.where(missing, 0, codes[:, j])
            cell_noise, place_noise = rng.uniform(size=(2, len(codes)))
            cells = column.bins.draw(bins, cell_noise)
            positions[:, j] = np.where(missing, 0.0, column.cells.draw(cells, place_noise))
            found[:, j] = missing
        return EncodedRows(found, positions)

    def log_within(self, rows: EncodedRows) -> Float[np.ndarray, " rows"]:
        """Log-density of rows given their codes: mass of a value, or density in units of the data."""
        total = np.zeros(len(rows))
        for j, column in enumerate(self.columns):
            if column.cells is None or column.bins is None:
                continue
            each = column.bins.log_within() - column.cells.log_size
            found = each[column.cells.of(rows.positions[:, j])]
            missing = column.nullable & (rows.codes[:, j] == 1)
            total += np.where(missing, 0.0, found)
        return total
