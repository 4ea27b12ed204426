"""Arrows point down: a file imports from its own folder and lower rows, also inside functions."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tools import source

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "veilflow"

ROWS = [
    {"_core"},
    {"nn"},
    {"privacy", "flows"},
    {"engine", "tabular", "images"},
    {"releases"},
    {"models"},
    {"evaluation", "audit", "datasets"},
    {"reports", "studio"},
    {"veilflow"},  # src/veilflow/__init__.py, the front door: only the command line enters by it
    {"cli"},
]
ROW = {folder: row for row, folders in enumerate(ROWS) for folder in folders}

OUR_MODULE = re.compile(rf"veilflow\.({'|'.join(ROW)})(\.\w+)*")

OUTSIDE = ("benchmarks", "reproductions", "examples", "tools")
PUBLIC = {"veilflow", "engine", "nn", "flows", "privacy", "images", "evaluation", "audit"}


@cache
def imported_modules(text: str, package: str) -> frozenset[str]:
    """Dotted names a file imports anywhere, also inside functions."""
    return frozenset(_imported(text, package))


def _imported(text: str, package: str) -> Iterator[str]:
    """The same, one by one; a string that names a module of ours is a lazy import."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parents = (
                package.split(".")[: package.count(".") + 2 - node.level] if node.level else []
            )
            base = ".".join([*parents, *filter(None, [node.module])])
            # any of the names may be a module: `from veilflow import engine`
            yield from (f"{base}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Constant) and OUR_MODULE.fullmatch(str(node.value)):
            yield str(node.value)


def folders_used(text: str, package: str) -> set[str]:
    """The folders of veilflow that a file imports from; `veilflow` stands for the front door."""
    parts = [name.split(".") for name in imported_modules(text, package)]
    ours = [name for name in parts if name[0] == "veilflow"]
    return {name[1] if len(name) > 1 and name[1] in ROW else "veilflow" for name in ours}


def upward(folder: str, text: str, package: str) -> set[str]:
    """What a file in `folder` imports although it must not."""
    return {
        used for used in folders_used(text, package) if used != folder and ROW[used] >= ROW[folder]
    }


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def folder_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE).parts
    if parts == ("__main__.py",):
        return "cli"
    return parts[0] if len(parts) > 1 else "veilflow"


def package_of(path: Path) -> str:
    return ".".join(["veilflow", *path.relative_to(PACKAGE).parent.parts])


def test_every_folder_of_the_package_has_a_row():
    assert {folder_of(path) for path in modules()} <= set(ROW)


def test_a_file_imports_only_from_its_own_folder_and_lower_rows():
    found = {
        str(path.relative_to(PACKAGE)): upward(
            folder_of(path), path.read_text("utf-8"), package_of(path)
        )
        for path in modules()
    }
    assert {path: names for path, names in found.items() if names} == {}


def test_the_package_never_imports_what_stands_beside_it():
    used = {
        path.relative_to(PACKAGE).as_posix(): {
            name.split(".")[0]
            for name in imported_modules(path.read_text("utf-8"), package_of(path))
        }
        for path in modules()
    }
    assert {path for path, names in used.items() if not names.isdisjoint(OUTSIDE)} == set()


def private_use(text: str) -> set[str]:
    """What a file outside the package imports of veilflow beyond its public folders."""
    names = {name for name in imported_modules(text, "outside") if name.startswith("veilflow")}
    return {
        name
        for name in names
        if (set(name.split(".")) & (set(ROW) - PUBLIC)) or re.search(r"\._(?!_)", name)
    }


OPENS = {"privacy", "engine", "releases"}
"""Folders whose files may look at records."""


def opens_records(text: str) -> bool:
    """Whether a file calls `.open()`: without arguments, that is the door of `Sensitive`."""
    return source.opens(ast.parse(text)) > 0


def test_records_are_opened_where_releases_are_made_and_nowhere_else():
    found = {
        str(path.relative_to(PACKAGE).as_posix())
        for path in modules()
        if folder_of(path) not in OPENS and opens_records(path.read_text("utf-8"))
    }
    assert found == set(), "move what looks at records into veilflow.releases"


@pytest.mark.parametrize(
    ("text", "caught"),
    [
        ("rows = records.open()", True),
        ("rows = fit.source.view('x', make).open()[0]", True),
        ("def f(x):\n    return [y for y in x.map(g).open()]", True),
        ("with path.open('rb') as file:\n    file.read()", False),
        ("open(path)\nos.open(path, os.O_RDONLY)\nschema.open", False),
    ],
)
def test_the_check_itself_sees_records_that_are_opened(text: str, caught: bool):
    assert opens_records(text) == caught


def test_what_stands_beside_the_package_uses_only_its_public_api():
    files = [path for folder in OUTSIDE for path in sorted((ROOT / folder).rglob("*.py"))]
    found = {str(path.relative_to(ROOT)): private_use(path.read_text("utf-8")) for path in files}
    assert {path: names for path, names in found.items() if names} == {}


@pytest.mark.parametrize(
    ("folder", "text", "caught"),
    [
        ("privacy", "from veilflow.engine.train import train", {"engine"}),
        ("privacy", "from veilflow import flows", {"flows"}),  # a neighbor in the same row
        ("privacy", "import veilflow.models.density as d", {"models"}),
        ("privacy", "from ..cli import main", {"cli"}),
        ("privacy", "from veilflow import load", {"veilflow"}),
        ("privacy", "def f():\n    from veilflow.engine import plan", {"engine"}),
        ("privacy", "lazy = {'train': 'veilflow.engine.train'}", {"engine"}),
        ("privacy", "from . import unit\nfrom veilflow._core import check\nimport jax", set()),
        ("privacy", "'a sentence about veilflow.engine.train'", set()),
        ("models", "from veilflow.engine import plan\nfrom veilflow.privacy import unit", set()),
        ("veilflow", "from veilflow.cli import main", {"cli"}),
        ("cli", "import veilflow", set()),
    ],
)
def test_the_check_itself_catches_upward_imports(folder: str, text: str, caught: set[str]):
    assert upward(folder, text, f"veilflow.{folder}") == caught


@pytest.mark.parametrize(
    ("text", "caught"),
    [
        ("import veilflow as vf\nfrom veilflow.engine import plan", set()),
        ("from veilflow._core import check", {"veilflow._core.check"}),
        (
            "from veilflow.models.density import DensityFlow",
            {"veilflow.models.density.DensityFlow"},
        ),
        ("from veilflow.engine._step import step", {"veilflow.engine._step.step"}),
    ],
)
def test_the_check_itself_catches_private_use_from_outside(text: str, caught: set[str]):
    assert private_use(text) == caught
