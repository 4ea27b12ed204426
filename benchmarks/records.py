"""Figures are data: the records a benchmark leaves, and whether they reach what they must."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from benchmarks.provenance import ROOT as ROOT
from benchmarks.provenance import check_better, commit, machine, misses, today, write_json

RESULTS = Path(__file__).parent / "results"

PEERS_HINT = "pip install -c constraints.txt -e '.[peers]'"


@dataclass(frozen=True, kw_only=True)
class Record:
    """One measured figure. `value` is None when it could not be measured here."""

    name: str
    value: float | None
    unit: str
    better: Literal["lower", "higher"]
    must: float | None = None
    peer: str | None = None
    """What the figure is measured against."""
    machine: str
    date: str
    commit: str

    def __post_init__(self) -> None:
        check_better(self.better)

    @property
    def misses(self) -> bool:
        """Whether there is a bound and it isn't shown to be met; what wasn't measured isn't met."""
        return misses(self.value, self.must, self.better)


def record(
    name: str,
    value: float | None,
    unit: str,
    *,
    better: Literal["lower", "higher"] = "lower",
    must: float | None = None,
    peer: str | None = None,
) -> Record:
    """A record of here and now, its value rounded to four digits."""
    return Record(
        name=name,
        value=None if value is None else float(f"{value:.4g}"),
        unit=unit,
        better=better,
        must=must,
        peer=peer,
        machine=machine(),
        date=today(),
        commit=commit("src", "benchmarks", ":!benchmarks/results"),
    )


def write(name: str, records: list[Record]) -> Path:
    """Write the records of one benchmark; returns the file."""
    return write_json(RESULTS / f"{name}.json", [asdict(r) for r in records])


def read(folder: Path = RESULTS) -> dict[str, list[Record]]:
    """All records by benchmark, in alphabetical order.

    Raises:
        ValueError: A file does not hold records; the message names it.
    """
    found = {}
    for path in sorted(folder.glob("*.json")):
        try:
            found[path.stem] = [Record(**item) for item in json.loads(path.read_text("utf-8"))]
        except (TypeError, ValueError) as error:
            raise ValueError(f"{path.name} does not hold benchmark records: {error}") from error
    return found
