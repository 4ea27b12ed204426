"""Files that are not as they should be, each with a canary in it: no command ever says the canary."""

import io
import traceback

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import ipc, parquet

import veilflow as vf
from tests.models.detect.models import mixture
from veilflow.images import ImageSpec

CANARY = "kanarienvogel"
DIGITS = "8675309"
SPEND = ("--epsilon", 1, "--delta", 1e-4, "--out", "m.out")
BOUNDS = ("--low", 0, "--high", 9)

COMMANDS = {
    "schema": ("schema", "DATA", "--out", "s2.toml"),
    "schema with a label": ("schema", "DATA", "--out", "s2.toml", "--label", "b"),
    "fit table": ("fit", "table", "DATA", "--schema", "s.toml", "--steps", 0, *SPEND),
    "fit density": ("fit", "density", "DATA", *BOUNDS, *SPEND),
    "fit density by bounds": ("fit", "density", "DATA", "--bounds", "b.toml", *SPEND),
    "fit density by columns": ("fit", "density", "DATA", "--columns", "a,b", *BOUNDS, *SPEND),
    "fit mixture": ("fit", "mixture", "DATA", "--steps", 1, *BOUNDS, *SPEND),
    "fit classifier": (
        *("fit", "classifier", "DATA", "--label", "b", "--classes", "x,y", "--prior-scale", 1),
        *(*BOUNDS, *SPEND),
    ),
    "posterior fit": (
        *("posterior", "fit", "DATA", "--model", "linear", "--target", "b", *BOUNDS, *SPEND),
    ),
    "detect fit": (
        *("detect", "fit", "DATA", "--max-queries", 1, "--parts", 2, "--density", "mixture"),
        *("--components", 1, *BOUNDS, *SPEND),
    ),
    "detect fit --private": (
        *("detect", "fit", "m.veil", "--private", "DATA", "--epsilon", 1, "--out", "d.veil"),
    ),
    "score": ("score", "m.veil", "DATA", "--out", "scores.csv"),
    "bounds from the data": ("fit", "density", "d.npy", "--bounds", "DATA", *SPEND),
    "schema from the data": ("fit", "table", "t.csv", "--schema", "DATA", *SPEND),
    "policy from the data": ("fit", "density", "d.npy", "--policy", "DATA", *BOUNDS, *SPEND),
    "images by the data": (
        "fit",
        "images",
        "faces",
        "--spec",
        "i.toml",
        "--labels",
        "DATA",
        *SPEND,
    ),
}


PRINTED = {("schema with a label", "a record for a header.csv")}


def as_bytes(write, *args) -> bytes:
    buffer = io.BytesIO()
    write(buffer, *args)
    return buffer.getvalue()


def arrow(buffer, table) -> None:
    with ipc.new_file(buffer, table.schema) as writer:
        writer.write_table(table)


ODD = pa.table({"a": ["1", CANARY], "b": [f"{DIGITS}.5x", None]})
NESTED = pa.table({"a": [[CANARY], []], "b": [{"x": CANARY}, None]})
PICKLED = as_bytes(lambda f: np.save(f, np.array([[CANARY, DIGITS]], object), allow_pickle=True))
FILES = {
    "no header.csv": f"{CANARY},{DIGITS}x\n1,2\n".encode(),
    "a record for a header.csv": f"{CANARY},b\n1,2\n3,{DIGITS}x\n".encode(),
    "a header of numbers.csv": f"{DIGITS},2\n1,{CANARY}\n".encode(),
    "half a header.csv": f"{CANARY},{DIGITS}\n1,2\n".encode(),
    "a header twice.csv": f"{CANARY},{CANARY}\n1,2\n".encode(),
    "words.csv": f"a,b\n1,{CANARY}\n{DIGITS}x,2\n".encode(),
    "a comma too many.csv": f"a,b\n1,2\n3,4,{CANARY}\n".encode(),
    "a first line too long.csv": f"a,b\n1,2,{CANARY}\n".encode(),
    "an open quote.csv": f'a,b\n1,"{CANARY}\n2,3\n'.encode(),
    "a quote in the header.csv": f'"a,b\n1,{CANARY}\n2,3\n'.encode(),
    "not utf-8.csv": f"a,b\n1,{CANARY}".encode() + b"\xff\n",
    "utf-16.csv": f"a,b\n1,{CANARY}\n".encode("utf-16"),
    "null.csv": f"a,b\n1,{CANARY}\0\n".encode(),
    "long.csv": f"a,b\n1,{CANARY * 20_000}\n".encode(),
    "gaps.csv": f"a,b\n{DIGITS},\n1,2\n".encode(),
    "text.tsv": f"a\tb\n1\t{CANARY}\n".encode(),
    "text.parquet": as_bytes(lambda f: parquet.write_table(ODD, f)),
    "nested.parquet": as_bytes(lambda f: parquet.write_table(NESTED, f)),
    "damaged.parquet": as_bytes(lambda f: parquet.write_table(ODD, f))[:-20] + CANARY.encode(),
    "text.arrow": as_bytes(arrow, ODD),
    "damaged.arrow": as_bytes(arrow, ODD)[:200] + CANARY.encode(),
    "text.npy": as_bytes(np.save, np.array([[CANARY, "1"], [f"{DIGITS}x", "2"]])),
    "pickled.npy": PICKLED,
    "text.npz": as_bytes(lambda f: np.savez(f, values=np.array([[CANARY, "1"]]))),
    "series.npz": as_bytes(
        lambda f: np.savez(
            f,
            **dict.fromkeys(("values", "mask", "since"), np.full((2, 1, 2), CANARY)),
            labels=np.array([CANARY, DIGITS]),
        )
    ),
    "twice.toml": f"[{CANARY}]\n[{CANARY}]\n".encode(),
    "unfinished.toml": f'a = "{CANARY}\n'.encode(),
    "not utf-8.toml": f'a = "{CANARY}'.encode() + b'\xff"\n',
}


@pytest.fixture
def folder(veilflow, tmp_path):
    """What the commands need beside the data."""
    vf.Schema(a=vf.Numeric(0, 9), b=vf.Categorical("x", "y")).to_file(tmp_path / "s.toml")
    (tmp_path / "b.toml").write_text("a = [0, 9]\nb = [0, 9]\n")
    pd.DataFrame({"a": [1, 2], "b": ["x", "y"]}).to_csv(tmp_path / "t.csv", index=False)
    np.save(tmp_path / "d.npy", np.zeros((3, 2)))
    ImageSpec(2, 2, classes=("x", "y")).to_file(tmp_path / "i.toml")
    (tmp_path / "faces").mkdir()
    mixture(columns=("a", "b")).save(tmp_path / "m.veil")
    return tmp_path


@pytest.fixture
def only_read(monkeypatch):
    """Fits end where the records are read."""

    def done(*_, **__):
        raise ValueError("all records were read")

    monkeypatch.setattr("veilflow.releases.run.Run.pay", done)


def run(veilflow, name, words) -> str:
    """All that a command prints, or would print of an error that nobody catches."""
    done = veilflow(*(name if word == "DATA" else word for word in words), "--force")
    said = done.stdout + done.stderr
    if done.exception is not None:
        said += "".join(traceback.format_exception(done.exception))
    return said


@pytest.mark.few(6)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", FILES)
def test_no_command_says_what_a_bad_file_holds(name, veilflow, folder, only_read, monkeypatch):
    (folder / name).write_bytes(FILES[name])
    # errors come with all that led to them; without it there is a line of the same words
    monkeypatch.setenv("VEILFLOW_TRACEBACK", "1")
    for command, words in COMMANDS.items():
        if name.endswith(".toml") != command.endswith("from the data"):
            continue
        if (command, name) in PRINTED or (command == "schema" and "header" in name):
            continue  # it prints the names of columns, for a person to look at
        said = run(veilflow, name, words)
        assert CANARY not in said, command
        assert DIGITS not in said, command


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [name for name in FILES if name.endswith((".csv", ".tsv"))])
def test_and_text_below_a_header_is_read_whatever_it_holds(name, veilflow, folder, only_read):
    (folder / name).write_bytes(FILES[name])
    for command in ("fit table", "fit density", "fit mixture", "fit classifier", "detect fit"):
        said = run(veilflow, name, (*COMMANDS[command], "--invalid", "replace"))
        assert CANARY not in said, command
        assert DIGITS not in said, command
        if FILES[name].startswith((b"a,b\n", b"a\tb\n")):
            assert "all records were read" in said, command


def test_an_error_that_nobody_expects_is_told_by_its_kind(veilflow, folder, monkeypatch):
    for error in (KeyError(CANARY), pa.ArrowInvalid(CANARY), OverflowError(CANARY)):

        def broken(*_, error=error, **__):
            raise error

        monkeypatch.setattr("veilflow.tabular.draft.draft", broken)
        done = veilflow("schema", "t.csv", "--out", "s2.toml")
        assert done.exit_code == 1
        assert type(error).__name__ in done.stderr
        assert CANARY not in done.stdout + done.stderr
