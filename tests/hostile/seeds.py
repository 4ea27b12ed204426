"""Whole files of every kind that is read, small, and made without fitting where that is possible."""

import gzip
import io
import json
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import veilflow as vf
from veilflow._core.journal import Journal
from veilflow.engine.checkpoint import Checkpoint
from veilflow.models.detect import counter
from veilflow.models.detect.counter import InFile
from veilflow.privacy.assumptions import Conditional, declared
from veilflow.privacy.dataset_ledger import DatasetLedger
from veilflow.privacy.events import (
    ApproximateDP,
    Gaussian,
    PoissonSampled,
    PureDP,
    Repeated,
    Together,
)
from veilflow.privacy.guarantees import Sensitive
from veilflow.privacy.ledger import Ledger

RNG = np.random.default_rng(0)
ROWS = RNG.uniform(size=(12, 3))
BUDGET = vf.Budget(2.0, 1e-5)
JOURNAL_ID = "5" * 32
SPEC = vf.ImageSpec(height=6, width=5, channels=3)
DIGITS = vf.ImageSpec(height=6, width=5, classes=(0, 1, 2))
SCHEMA = vf.Schema(
    age=vf.Numeric(0, 100, integer=True),
    dose=vf.Numeric(0.0, 5.0, resolution=0.25, nullable=True),
    sex=vf.Categorical("F", "M"),
    stage=vf.Ordinal("low", "middle", "high", nullable=True),
    alive=vf.Boolean(),
    seen=vf.Datetime("2000-01-01", "2030-01-01"),
    label="sex",
    constraints=[vf.Allowed(("sex", "alive"), [("F", True), ("M", True), ("M", False)])],
)
POLICY = b"""max_epsilon = 4.0
min_delta_exponent = 6
accountants = ["pld", "rdp"]
conditional = false

[datasets]
patients = 1.0
"""
BOUNDS = b"a = [0, 1]\nb = [-1.5, 2]\nc = [0, 10]\n"


def ledger() -> Ledger:
    """One of every form that an event takes."""
    step = PoissonSampled(0.01, Gaussian(1.2))
    return (
        Ledger()
        .spend(PureDP(0.1), purpose="count")
        .spend(Repeated(100, step), purpose="training")
        .spend(Together((ApproximateDP(0.1, 1e-8), Gaussian(9.0))), purpose="grid")
        .assuming(declared("bounds", num_records=5), Conditional("a condition"))
    )


def _bytes(write: Any, name: str = "file") -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        write(path)
        return path.read_bytes()


@cache
def models(kinds: tuple[str, ...]) -> tuple[bytes, ...]:
    """Model files of some kinds, as `tests.reports.kinds` makes them, and of our own."""
    return tuple(
        _bytes(lambda path, kind=kind: _model(kind, path.parent).save(path), "m.file")
        for kind in kinds
    )


def _model(kind: str, folder: Path) -> Any:
    from tests.reports import kinds as made

    if kind == "ensemble":
        return _ensemble(folder)
    return _OWN[kind]() if kind in _OWN else made.fitted(kind)


def _detector() -> vf.LikelihoodDetector:
    return vf.LikelihoodDetector(_grid(), false_alarm_rate=0.1).from_samples(100, seed=1)


@cache
def _grid() -> vf.FittedDensityFlow:
    estimator = vf.DensityFlow(budget=BUDGET, bounds=(0, 1), num_records=12, start="grid", seed=0)
    return estimator.fit(ROWS[:, :2], progress=False)


def _trained() -> vf.FittedDensityFlow:
    estimator = vf.DensityFlow(
        budget=BUDGET,
        bounds=(0, 1),
        num_records=12,
        flow=vf.maf(blocks=1, hidden=(3,)),
        base="normal",
        start="none",
        training=vf.Training(steps=1, batch_size=4),
        seed=0,
    )
    return estimator.fit(ROWS, progress=False)


def _ensemble(folder: Path) -> vf.FittedEnsemble:
    """One that is saved beside its journal."""
    estimator = vf.EnsembleDetector(
        budget=BUDGET,
        bounds=(0, 1),
        parts=2,
        flow="mixture",
        num_components=1,
        answers=vf.Answering(max_queries=5, journal=folder / "journal"),
        seed=0,
    )
    return estimator.fit(ROWS, progress=False)


_OWN = {"grid": _grid, "trained": _trained, "detector": _detector}


def frame() -> Any:
    """A table of the schema, as pandas has it."""
    import pandas as pd

    return pd.DataFrame(
        {
            "age": [20, 30, 99],
            "dose": [0.25, None, 5.0],
            "sex": ["F", "M", "M"],
            "stage": ["low", None, "high"],
            "alive": [True, True, False],
            "seen": pd.to_datetime(["2001-02-03", "2010-01-01", "2029-12-31"]),
        }
    )


def csv_rows() -> tuple[bytes, ...]:
    """Numbers with and without a header, and with other separators."""
    body = "\n".join(",".join(f"{x:.4f}" for x in row) for row in ROWS)
    return (
        f"a,b,c\n{body}\n".encode(),
        body.encode(),
        b"\xef\xbb\xbfa;b;c\r\n1;2;3\r\n4;5;6\r\n",
        b'"a","b ""x""",c\n1,2,3\n',
    )


def csv_table() -> bytes:
    """The table as text."""
    return frame().to_csv(index=False).encode()


def parquet(table: Any) -> bytes:
    """A table as Parquet."""
    return _bytes(lambda path: table.to_parquet(path), "t.parquet")


def arrow(table: Any, *, stream: bool = False) -> bytes:
    """A table in one of Arrow's two layouts."""
    import pyarrow as pa
    from pyarrow import ipc

    data, made = pa.Table.from_pandas(table, preserve_index=False), io.BytesIO()
    with (ipc.new_stream if stream else ipc.new_file)(made, data.schema) as writer:
        writer.write_table(data)
    return made.getvalue()


def numbers() -> Any:
    """Rows of numbers as a frame."""
    import pandas as pd

    return pd.DataFrame(ROWS, columns=list("abc"))


def npz(**arrays: np.ndarray) -> bytes:
    """Arrays as NumPy packs them."""
    made = io.BytesIO()
    np.savez(made, **arrays)
    return made.getvalue()


def npy(array: np.ndarray) -> bytes:
    """One array."""
    made = io.BytesIO()
    np.save(made, array)
    return made.getvalue()


def idx(*shape: int) -> bytes:
    """An IDX file of bytes."""
    head = bytes([0, 0, 8, len(shape)]) + b"".join(n.to_bytes(4, "big") for n in shape)
    return head + RNG.integers(0, 256, shape, np.uint8).tobytes()


def packed(data: bytes) -> bytes:
    """The same, by gzip, without a time in it."""
    return gzip.compress(data, mtime=0)


def picture(kind: str, **settings: Any) -> bytes:
    """One small image file."""
    from PIL import Image

    made = io.BytesIO()
    pixels = RNG.integers(0, 256, (SPEC.height, SPEC.width, 3), np.uint8)
    Image.fromarray(pixels).save(made, kind, **settings)
    return made.getvalue()


@cache
def journal() -> bytes:
    """A journal of queries, three of them spent."""

    def write(path: Path) -> None:
        Journal.create(path, title=counter._title(JOURNAL_ID))
        InFile(path, id=JOURNAL_ID).spend(3, limit=10)

    return _bytes(write)


@cache
def data_ledger() -> bytes:
    """Two fits: one reserved, one spent."""

    def write(path: Path) -> None:
        one = DatasetLedger(path)
        one.reserve(ledger(), dataset="people", delta=1e-6)
        one.spent(one.reserve(ledger(), dataset="people", delta=1e-6), ledger())

    return _bytes(write)


@cache
def checkpoint() -> bytes:
    """A checkpoint that was begun, with a state in it."""
    from veilflow.engine import Flat, Secret, TrainingPlan

    plan = TrainingPlan(
        clipping=Flat(1.0), noise_multiplier=1.0, sampling_rate=0.5, expected_batch_size=4, steps=9
    )

    def write(path: Path) -> None:
        secret = Secret.from_seed(1)
        one = Checkpoint(path)
        one.begin(secret, {"facts": {"num_records": 12}}, records=Sensitive(ROWS, description="x"))
        one.save({"w": np.ones((2, 3), np.float32)}, 4, plan=plan, secret=secret)

    return _bytes(write)


def document(value: Any) -> bytes:
    """A JSON file."""
    return json.dumps(value).encode()
