"""What the package exports is sorted, importable and documented; importing it stays light."""

import ast
import dataclasses
import importlib
import inspect
import json
import pkgutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import veilflow

HEAVY = (
    "dp_accounting",
    "opendp",
    "jax_privacy",
    "pandas",
    "pyarrow",
    "matplotlib",
    "sklearn",
    "torch",
)


def module_names() -> list[str]:
    modules = pkgutil.walk_packages(veilflow.__path__, prefix="veilflow.")
    return ["veilflow", *(m.name for m in modules if not m.name.endswith("__main__"))]


def exports(module: ModuleType) -> list[str]:
    return list(getattr(module, "__all__", []))


def style(name: str) -> tuple[int, str]:
    """The order ruff keeps: CONSTANTS, then Classes, then functions."""
    return (0 if name.isupper() else 1 if name[:1].isupper() else 2, name)


def lacks_docstring(value: object) -> bool:
    """Whether a class, function or module has no words of its own (dataclasses make some up)."""
    if not (inspect.isclass(value) or inspect.isroutine(value) or inspect.ismodule(value)):
        return False
    doc = value.__doc__ or ""
    return not doc.strip() or doc.startswith(f"{getattr(value, '__name__', '')}(")


def faults(module: ModuleType) -> list[str]:
    """What is wrong with a module's docstring and exports."""
    names = exports(module)
    return [
        *(["module has no docstring"] if not (module.__doc__ or "").strip() else []),
        *(["exports are not sorted"] if names != sorted(set(names), key=style) else []),
        *(f"{name} cannot be imported" for name in names if not hasattr(module, name)),
        *(f"{n} has no docstring" for n in names if lacks_docstring(getattr(module, n, None))),
    ]


def test_every_module_is_documented_and_its_exports_are_sorted_importable_and_documented():
    wrong = {name: faults(importlib.import_module(name)) for name in module_names()}
    assert {name: reasons for name, reasons in wrong.items() if reasons} == {}


def test_the_check_itself_sees_what_is_wrong():
    module = ModuleType("bad")
    silent = dataclasses.make_dataclass("Silent", ["x"])
    module.__dict__.update(__all__=["load", "Silent", "Gone"], load=len, Silent=silent)
    assert faults(module) == [
        "module has no docstring",
        "exports are not sorted",
        "Gone cannot be imported",
        "Silent has no docstring",
    ]


def test_the_list_of_public_names_is_read_alike_by_type_checkers_and_by_python():
    stub = Path(veilflow.__file__).with_suffix(".pyi").read_text("utf-8")
    imported = [node for node in ast.parse(stub).body if isinstance(node, ast.ImportFrom)]
    aliases = [alias for node in imported for alias in node.names]
    # "X as X" is what makes a name of a stub public
    assert [alias.name for alias in aliases] == [alias.asname for alias in aliases]
    assert sorted(alias.name for alias in aliases) == veilflow.__all__
    assert {*veilflow.__all__, "__version__"} == set(dir(veilflow))
    assert importlib.import_module("veilflow.audit") is veilflow.audit
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = veilflow.nonsense


def test_the_docstring_check_sees_through_what_dataclasses_generate():
    silent = dataclasses.make_dataclass("Silent", ["x"])
    assert lacks_docstring(silent)
    assert not lacks_docstring(dataclasses.dataclass)


REPORT = """
import json, sys
print()
print(json.dumps(sorted({name.split('.')[0] for name in sys.modules})))
"""


def modules_loaded_by(code: str) -> set[str]:
    """The top-level modules present after `code` ran in a fresh interpreter."""
    command = [sys.executable, "-c", code + REPORT]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    return set(json.loads(run.stdout.splitlines()[-1]))


def test_importing_veilflow_loads_nothing_heavy():
    assert modules_loaded_by("import veilflow").isdisjoint(HEAVY)


def test_the_help_of_the_command_line_loads_neither_jax_nor_anything_heavy():
    code = """
import sys
sys.argv = ["veilflow", "--help"]
from veilflow.cli.main import main
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
"""
    assert modules_loaded_by(code).isdisjoint({"jax", "jaxlib", "scipy", *HEAVY})


def test_importing_veilflow_changes_no_jax_setting():
    code = """
import jax
before = dict(jax.config.values)
import veilflow
for name in getattr(veilflow, '__all__', ()):
    getattr(veilflow, name)
changed = {k for k, v in before.items() if jax.config.values[k] != v}
assert not changed, changed
"""
    modules_loaded_by(code)
