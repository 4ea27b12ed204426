"""The fingerprint of code: it changes with what a run does, and with nothing else."""

import ast
import inspect
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from reproductions.fingerprint import fingerprint, reachable

import veilflow as vf
from reproductions import SYSTEMS, get
from reproductions import fingerprint as files
from veilflow import evaluation

_PACKAGES = {"vf": vf, "evaluation": evaluation}
_OF_ANOTHER_KIND = {("dp-nf-vi", "regression"): {"chained.py", "cohort.py"}}
"""One file makes both kinds of runs, and names what only the other uses."""
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


@pytest.mark.parametrize("name", SYSTEMS)
def test_everything_of_the_library_that_runs_name_is_in_their_fingerprint(name):
    system = get(name)
    here = Path(str(system.runs.__file__)).parent
    for kind, of in system.kinds.items():
        paths = [(here.parent if "/" in own else here) / f"{own}.py" for own in of.own]
        used = {file for path in paths for file in _named(ast.parse(path.read_text("utf-8")))}
        assert used
        missing = used - {str(path) for path in reachable(of.library)}
        assert {Path(file).name for file in missing} == _OF_ANOTHER_KIND.get((name, kind), set())


def _named(tree):
    """Files of the library that a file names: as `vf.name`, `evaluation.name` or in an import."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            yield from _file(_PACKAGES.get(ast.unparse(node.value)), node.attr)
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("veilflow."):
            for alias in node.names:
                yield from _file(import_module(str(node.module)), alias.name)


def _file(module, name):
    found: Any = getattr(module, name, None) if module else None
    if callable(found) and str(found.__module__).startswith("veilflow."):
        yield inspect.getfile(inspect.unwrap(found))


def test_no_file_in_the_fingerprint_hides_what_it_imports():
    for path in reachable(get("dp-nf").kinds["run"].library):
        source = path.read_text("utf-8")
        assert "import_module" not in source, f"{path.name} imports what cannot be followed"
        assert "__import__" not in source, f"{path.name} imports what cannot be followed"


def test_commands_and_models_that_no_run_uses_are_not_in_the_fingerprint():
    names = {path.parent.name for path in reachable(get("dp-nf").kinds["run"].library)}
    assert {"models", "engine", "flows", "privacy"} <= names
    assert "cli" not in names
