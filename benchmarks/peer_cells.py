"""What was measured of one method on one table at one budget; kept in a file for each table."""

import json
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks.provenance import write_json
from benchmarks.records import RESULTS

FOLDER = RESULTS / "table_peers"

Key = tuple[str, str, float | None, int, int]


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A finished cell. It is not changed later; a new measurement stands in its place.

    Attributes:
        table: Name of the table.
        method: Name of the method; "real" for the training rows themselves.
        epsilon: Of the whole fit; None for real rows.
        delta: Of the whole fit; None for real rows.
        rows: Training rows.
        synthetic_rows: Rows that were measured.
        seed: Of the fit.
        measures: By name; empty where the method failed.
        structures: Kind, name, real and synthetic share of each structure.
        seconds: Of the fit, compiling and binning included.
        gigabytes: Peak memory of its process.
        failed: Why there are no measures; empty where there are.
        settings: What was set of the method.
        machine: Processor and cores.
        date: The day.
        commit: Of what was run, with a plus sign where it was changed.
        versions: Of libraries.
    """

    table: str
    method: str
    epsilon: float | None
    delta: float | None
    rows: int
    synthetic_rows: int
    seed: int
    measures: dict[str, float] = field(default_factory=dict)
    structures: list[dict[str, Any]] = field(default_factory=list)
    seconds: float | None = None
    gigabytes: float | None = None
    failed: str = ""
    settings: dict[str, Any] = field(default_factory=dict)
    machine: str
    date: str
    commit: str
    versions: dict[str, str] = field(default_factory=dict)

    @property
    def key(self) -> Key:
        """What makes two cells the same."""
        return (self.table, self.method, self.epsilon, self.rows, self.seed)


def read(folder: Path = FOLDER) -> dict[Key, Cell]:
    """All cells by key, in the order of the files.

    Raises:
        ValueError: A file does not hold cells; the message names it.
    """
    found = {}
    for path in sorted(folder.glob("*.json")):
        try:
            cells = [Cell(**item) for item in json.loads(path.read_text("utf-8"))]
        except (TypeError, ValueError) as error:
            raise ValueError(f"{path.name} does not hold cells: {error}") from error
        found |= {cell.key: cell for cell in cells}
    return found


def keep(cell: Cell, folder: Path = FOLDER) -> Path:
    """Put a cell into the file of its table, in the place of an older one."""
    others = {k: c for k, c in read(folder).items() if c.table == cell.table}
    cells = sorted({**others, cell.key: _rounded(cell)}.values(), key=_order)
    return write_json(folder / f"{cell.table}.json", [asdict(one) for one in cells])


def _order(cell: Cell) -> tuple:
    return (cell.rows, cell.epsilon is not None, cell.epsilon or 0.0, cell.method, cell.seed)


def _rounded(cell: Cell) -> Cell:
    """Numbers with five digits: files that people can read."""
    return replace(
        cell,
        measures={name: _digits(value) for name, value in cell.measures.items()},
        structures=[{k: _digits(v) for k, v in one.items()} for one in cell.structures],
        seconds=_digits(cell.seconds),
        gigabytes=_digits(cell.gigabytes),
    )


def _digits(value: Any) -> Any:
    return float(f"{value:.5g}") if isinstance(value, float) else value
