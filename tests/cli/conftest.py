import importlib
import json
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

from tests.cli import stand_in
from veilflow.cli.main import app
from veilflow.tabular import Rows, write_rows


@pytest.fixture
def veilflow(tmp_path, monkeypatch):
    """Run the command line in an empty folder; returns exit code, standard output and error."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    def run(*words, typed=None):
        flags = [str(word) for word in words]
        return CliRunner().invoke(app, flags, prog_name="veilflow", input=typed)

    return run


@pytest.fixture
def in_json(veilflow):
    """Run a command with --json and return the one object it prints."""

    def run(*words):
        done = veilflow(*words, "--json")
        assert done.exit_code == 0, done.stderr
        assert done.stdout.count("\n") == 1
        return json.loads(done.stdout, parse_constant=pytest.fail)

    return run


@pytest.fixture
def quick(monkeypatch):
    """The stand-in takes the place of DensityFlow; returns the calls of its `fit`."""
    for name in ("density", "fitted_density"):
        monkeypatch.setitem(sys.modules, f"veilflow.models.{name}", stand_in)
    monkeypatch.setattr("veilflow.cli.demo._NUM_COMPARED", 200)
    # its trees wait for every other process of a busy machine, and have tests of their own
    module = importlib.import_module("veilflow.reports.tables")
    monkeypatch.setattr(module, "detection_score", lambda *_, **__: 0.5)
    stand_in.calls.clear()
    return stand_in.calls


@pytest.fixture
def data(veilflow, tmp_path):
    """A data file of two columns in the current folder."""
    values = np.random.default_rng(0).normal(size=(50, 2))
    write_rows(Rows(values, ("a", "b")), tmp_path / "data.csv")
    return "data.csv"


@pytest.fixture
def model(veilflow, quick, data):
    """A model file in the current folder, made by the stand-in."""
    bounds = ("--low", "-9", "--high", "9")
    done = veilflow(
        "fit", "density", data, *bounds, "--epsilon", 1, "--delta", 1e-5, "--out", "m.veil"
    )
    assert done.exit_code == 0, done.stderr
    return "m.veil"
