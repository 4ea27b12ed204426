"""The fingerprint of code: it changes with what a run does, and with nothing else."""

import ast
import inspect
from pathlib import Path

import pytest
import reproductions.dp_nf as system
from reproductions.fingerprint import fingerprint, reachable

import veilflow
from reproductions import fingerprint as files
from veilflow import evaluation

CODE = 'def f(x):\n    """Words."""\n    return x + 1\n'


@pytest.mark.parametrize(
    ("source", "same"),
    [
        (CODE, True),
        (CODE.replace("Words", "Other words"), True),
        ("# a comment\n\n" + CODE.replace("x + 1", "(x + 1)  # why"), True),
        (CODE.replace("+ 1", "+ 2"), False),
        (CODE.replace("x + 1", "None"), False),
        (CODE.replace('"""Words."""', "x = 2"), False),
        (CODE + "\ng = 1\n", False),
    ],
)
def test_the_fingerprint_sees_what_code_does_and_not_how_it_is_written(
    source, same, tmp_path, monkeypatch
):
    monkeypatch.setattr(files, "ROOT", tmp_path)
    prints = []
    for text in (CODE, source):
        (tmp_path / "code.py").write_text(text, "utf-8")
        prints.append(fingerprint([tmp_path / "code.py"]))
    assert (prints[0] == prints[1]) is same


@pytest.fixture
def library(tmp_path, monkeypatch):
    """A small library in which `a` imports `b`, and `b` in a function imports `package.c`."""
    monkeypatch.setattr(files, "ROOT", tmp_path)
    folder = tmp_path / "src" / "veilflow"
    (folder / "package").mkdir(parents=True)
    sources = {
        "__init__": "from veilflow import unused",
        "a": "import os\nfrom veilflow import b",
        "b": "def f():\n    from veilflow.package import c\n    import veilflow as vf",
        "unused": "",
        "package/__init__": "from veilflow.package.d import name",
        "package/c": "import veilflow.a",
        "package/d": "name = 1",
        "reader": "from veilflow.package import name",
    }
    for name, source in sources.items():
        (folder / f"{name}.py").write_text(source, "utf-8")
    return folder


@pytest.mark.parametrize(
    ("start", "names"),
    [
        ("a", {"a", "b", "package/c"}),
        ("reader", {"reader", "package/d"}),
        ("unused", {"unused"}),
        ("missing", set()),
    ],
)
def test_what_is_imported_is_found_wherever_that_is_done(start, names, library):
    assert reachable([start]) == {library / f"{name}.py" for name in names}


def test_everything_of_the_library_that_runs_name_is_in_their_fingerprint():
    used = set()
    for name in system.RUN:
        source = (Path(system.__file__).parent / f"{name}.py").read_text("utf-8")
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "vf":
                used.add(inspect.getfile(getattr(veilflow, node.attr)))
            if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "evaluation":
                used.add(inspect.getfile(getattr(evaluation, node.attr)))
    assert len(used) >= len(system.LIBRARY) - 1  # data sets are read through another name
    assert used <= {str(path) for path in reachable(system.LIBRARY)}


def test_no_file_in_the_fingerprint_hides_what_it_imports():
    for path in reachable(system.LIBRARY):
        source = path.read_text("utf-8")
        assert "import_module" not in source, f"{path.name} imports what cannot be followed"
        assert "__import__" not in source, f"{path.name} imports what cannot be followed"


def test_commands_and_models_that_no_run_uses_are_not_in_the_fingerprint():
    names = {path.parent.name for path in reachable(system.LIBRARY)}
    assert {"models", "engine", "flows", "privacy"} <= names
    assert "cli" not in names
