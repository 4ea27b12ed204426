"""AIM and MST of dpmm in an environment of their own, for reproductions and benchmarks.

`make dpmm` makes it; dpmm 0.1.9 (Apache-2, 0.7 MB, half a gigabyte with what it requires) needs Python
3.10 or 3.11, NumPy 1.26, pandas 2.1 and OpenDP 0.12, of which this project can have none. The variable
VEILFLOW_DPMM names another Python that has dpmm.

Epsilon is what dpmm claims (add/remove, a tenth of it for bins of numbers, basic composition); its
accounting was read and not audited. Bounds, lists of values and the number of rows are public for it,
as they are for ours. It reads from the rows whether a column is constant, and the seed repeats its
choices but not its noise. It has no gaps in numbers: where there may be some, a column of its own tells
which cells are empty, and these have the lowest number.
"""

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import veilflow as vf
from reproductions.dp_hflow import coded

METHODS = ("aim", "mst")
INTERPRETER = "VEILFLOW_DPMM"
_PROGRAM = Path(__file__).with_name("peers_program.py")
_MADE = Path(__file__).parents[2] / ".venv" / "dpmm" / "bin" / "python"
"""What `make dpmm` makes."""
_GAPS = " is empty"
"""Added to the name of a number for the name of the column that tells its gaps."""


@dataclass(frozen=True)
class Peer:
    """A method of dpmm with a budget, ready to fit.

    Attributes:
        method: One of `METHODS`.
        schema: The declared columns.
        epsilon: Epsilon of the whole fit.
        delta: Its delta.
        seed: Of what dpmm lets a seed decide.
    """

    method: str
    schema: vf.Schema
    epsilon: float
    delta: float
    seed: int

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise ValueError(f"the methods of dpmm are {', '.join(METHODS)}; got {self.method!r}.")
        coded.check(self.schema)
        taken = [name for name in _with_gaps(self.schema) if name + _GAPS in self.schema.columns]
        if taken:
            raise ValueError(f"no column may be named {taken[0] + _GAPS!r}: the gaps are.")

    def fit_and_sample(self, rows: Any, num_rows: int, *, limit: float | None = None) -> "Sampled":
        """Fit to a frame and draw rows, in another process.

        Raises:
            RuntimeError: dpmm failed; the message has the last line of what it said.
            subprocess.TimeoutExpired: It took longer than `limit` seconds.
        """
        with _folder() as folder:
            _as_told(rows, self.schema).to_csv(folder / "rows.csv", index=False)
            settings = {
                "method": self.method,
                "epsilon": self.epsilon,
                "delta": self.delta,
                "seed": self.seed,
                "num_rows": num_rows,
                "domain": _domain(self.schema),
            }
            (folder / "settings.json").write_text(json.dumps(settings), "utf-8")
            _run(folder, limit)
            drawn = pd.read_csv(folder / "synthetic.csv")
            done = json.loads((folder / "done.json").read_text("utf-8"))
        return Sampled(_from_told(drawn, self.schema), done)


@dataclass(frozen=True)
class Sampled:
    """Synthetic rows, and what the program says: seconds, memory, settings and version."""

    rows: Any
    done: dict[str, Any]


@contextmanager
def _folder() -> Iterator[Path]:
    """A folder that only this user can read, for as long as it is needed."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def _run(folder: Path, limit: float | None) -> None:
    interpreter = os.environ.get(INTERPRETER) or (str(_MADE) if _MADE.exists() else None)
    if not interpreter:
        raise ValueError(f"{INTERPRETER} must name a Python that has dpmm; `make dpmm` makes one.")
    alone = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [interpreter, str(_PROGRAM), str(folder)]
    told = {"capture_output": True, "text": True, "timeout": limit}
    done = subprocess.run(command, env=alone, check=False, **told)
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or ["no message"]
        raise RuntimeError(f"dpmm failed: {last[0]}")


def _with_gaps(schema: vf.Schema) -> list[str]:
    """The numbers that may be missing."""
    columns = schema.columns.items()
    return [name for name, column in columns if coded.is_number(column) and column.nullable]


def _domain(schema: vf.Schema) -> dict[str, Any]:
    """What dpmm is told of each column: the range, or the codes of the values and of a gap."""
    told = {
        name: {"lower": column.low, "upper": column.high}
        if isinstance(column, vf.Numeric)
        else {"categories": [str(code) for code in range(coded.num_codes(column))]}
        for name, column in schema.columns.items()
    }
    return told | {name + _GAPS: {"categories": ["0", "1"]} for name in _with_gaps(schema)}


def _as_told(rows: pd.DataFrame, schema: vf.Schema) -> pd.DataFrame:
    """Numbers as they are, in their range; codes of listed values; which numbers are empty."""
    found = coded.coded(rows, schema)
    numbers = coded.frame_of(found, schema)
    places = {name: j for j, name in enumerate(schema.columns)}
    told: dict[str, Any] = {
        name: numbers[name] if coded.is_number(column) else found.codes[:, places[name]]
        for name, column in schema.columns.items()
    }
    for name in _with_gaps(schema):
        told[name] = numbers[name].fillna(schema.columns[name].low)
        told[name + _GAPS] = found.codes[:, places[name]]
    return pd.DataFrame(told)


def _from_told(frame: pd.DataFrame, schema: vf.Schema) -> pd.DataFrame:
    """The rows of dpmm in the values of the schema."""
    numbers = coded.coded(frame, schema)
    gaps = _with_gaps(schema)
    codes = []
    for j, (name, column) in enumerate(schema.columns.items()):
        if coded.is_number(column) and name not in gaps:
            codes.append(numbers.codes[:, j])
        else:
            codes.append(frame[name + _GAPS * (name in gaps)].to_numpy(np.int64))
    return coded.frame_of(coded.Coded(np.stack(codes, axis=1), numbers.positions), schema)
