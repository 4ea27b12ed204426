"""AIM and MST as methods of the reproduction, through dpmm in an environment of its own.

    uv venv --python 3.11 dpmm && uv pip install --python dpmm/bin/python dpmm==0.1.9
    export VEILFLOW_DPMM=dpmm/bin/python

Epsilon is what dpmm claims (add/remove, a tenth of it for bins of numbers, basic composition); its
accounting was read and not audited. Bounds, lists of values and the number of rows are public for it,
as they are for ours. It reads from the rows whether a column is constant, and the seed repeats its
choices but not its noise.
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
_HOW = "see reproductions/dp_hflow/peers.py for how to make one"


@dataclass(frozen=True)
class Peer:
    """A method of dpmm with a budget, ready to fit.

    Attributes:
        method: One of `METHODS`.
        schema: The declared columns, of which numbers must have no gaps.
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
        columns = self.schema.columns.items()
        bad = [name for name, column in columns if coded.is_number(column) and column.nullable]
        if bad:
            raise ValueError(f"dpmm is given numbers without gaps, not {', '.join(bad)}.")

    def fit_and_sample(self, rows: Any, num_rows: int) -> "Sampled":
        """Fit to a frame and draw rows, in another process."""
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
            _run(folder)
            drawn = pd.read_csv(folder / "synthetic.csv")
            done = json.loads((folder / "done.json").read_text("utf-8"))
        return Sampled(_from_told(drawn, self.schema), done)


@dataclass(frozen=True)
class Sampled:
    """Synthetic rows, and seconds, memory and version as the program measured them."""

    rows: Any
    done: dict[str, Any]


@contextmanager
def _folder() -> Iterator[Path]:
    """A folder that only this user can read, for as long as it is needed."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def _run(folder: Path) -> None:
    interpreter = os.environ.get(INTERPRETER)
    if not interpreter:
        raise ValueError(f"{INTERPRETER} must name a Python that has dpmm; {_HOW}.")
    alone = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [interpreter, str(_PROGRAM), str(folder)]
    done = subprocess.run(command, env=alone, capture_output=True, text=True, check=False)
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or ["no message"]
        raise RuntimeError(f"dpmm failed: {last[0]}")


def _domain(schema: vf.Schema) -> dict[str, Any]:
    """What dpmm is told of each column: the range, or the codes of the values and of a gap."""
    return {
        name: {"lower": column.low, "upper": column.high}
        if isinstance(column, vf.Numeric)
        else {"categories": [str(code) for code in range(coded.num_codes(column))]}
        for name, column in schema.columns.items()
    }


def _as_told(rows: pd.DataFrame, schema: vf.Schema) -> pd.DataFrame:
    """Numbers as they are, in their range; codes of listed values."""
    found = coded.coded(rows, schema)
    numbers = coded.frame_of(found, schema)
    return pd.DataFrame(
        {
            name: numbers[name] if coded.is_number(column) else found.codes[:, j]
            for j, (name, column) in enumerate(schema.columns.items())
        }
    )


def _from_told(frame: pd.DataFrame, schema: vf.Schema) -> pd.DataFrame:
    """The rows of dpmm in the values of the schema."""
    numbers = coded.coded(frame, schema)
    codes = [
        numbers.codes[:, j] if coded.is_number(column) else frame[name].to_numpy(np.int64)
        for j, (name, column) in enumerate(schema.columns.items())
    ]
    return coded.frame_of(coded.Coded(np.stack(codes, axis=1), numbers.positions), schema)
