import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from typing import Any

from typer.main import get_command

from veilflow.cli.main import app
from veilflow.tabular import read_rows


def test_the_version_is_printed(veilflow):
    assert veilflow("--version").stdout == f"veilflow {version('veilflow')}\n"


def commands(group: Any, *path: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, *path, name)
        else:
            yield (*path, name), command


def test_every_command_explains_itself_and_takes_json(veilflow):
    names = dict(commands(get_command(app)))
    assert len(names) > 20
    for words, command in names.items():
        done = veilflow(*words, "--help")
        assert done.exit_code == 0, words
        assert "--json" in done.stdout, words
        undescribed = [one.name for one in command.params if not getattr(one, "help", None)]
        assert undescribed == [], words


def test_an_unknown_command_is_a_usage_error(veilflow):
    assert veilflow("frobnicate").exit_code == 2


def test_the_installed_command_prints_an_error_without_a_traceback(tmp_path):
    code = "from veilflow.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "inspect", "no.veil"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.splitlines() == ["error: no.veil: no such file or directory."]


def test_the_demo_leaves_synthetic_rows_a_model_and_a_figure(in_json, quick, tmp_path):
    found = in_json("demo", "--out", "some/demo")
    folder = tmp_path / "some" / "demo"
    left = {"model.veil", "synthetic.csv", "figure.png", "card", "internal"}
    assert {path.name for path in folder.iterdir()} == left
    assert (folder / "card" / "card.html").is_file()
    assert [path.name for path in (folder / "internal").iterdir()] == ["curator.html"]
    assert (folder / "figure.png").read_bytes().startswith(b"\x89PNG")
    assert read_rows(folder / "synthetic.csv").columns == ("x", "y")
    assert found["guarantee"]["delta"] == 1e-6
    assert found["ledger"][0]["purpose"] == "training"
    assert found["figure"] == "some/demo/figure.png"


def test_the_demo_for_people_prints_the_guarantee_and_the_ledger(veilflow, quick):
    done = veilflow("demo")
    assert done.exit_code == 0, done.stderr
    assert "differential privacy" in done.stdout
    assert "training" in done.stdout
    assert "wrote demo/synthetic.csv" in done.stdout
