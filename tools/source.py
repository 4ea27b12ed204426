"""The modules of the package as text and syntax trees; nothing is imported."""

import ast
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent


@dataclass(frozen=True)
class Module:
    """One file of the package.

    Args:
        name: Its dotted name; a package goes by its folder's.
        path: Where it is.
        lines: How many lines it has, blank ones and prose included.
        tree: Its syntax tree.
    """

    name: str
    path: Path
    lines: int
    tree: ast.Module

    @property
    def folder(self) -> str:
        """The first folder of the package on the way to the file, or "veilflow" for the top."""
        parts = self.name.split(".")
        is_file_at_top = len(parts) == 2 and self.path.name != "__init__.py"
        return "veilflow" if len(parts) == 1 or is_file_at_top else parts[1]


def modules(package: Path = ROOT / "src" / "veilflow") -> list[Module]:
    """Every module of a package, by path."""
    return [_module(path, package) for path in sorted(package.rglob("*.py"))]


def _module(path: Path, package: Path) -> Module:
    text = path.read_text("utf-8")
    parts = [package.name, *path.relative_to(package).with_suffix("").parts]
    name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    return Module(name, path, len(text.splitlines()), ast.parse(text))


def names_used(tree: ast.AST) -> set[str]:
    """Names that a file reads, defines as classes, or takes as attributes."""
    return {
        node.id
        if isinstance(node, ast.Name)
        else node.attr
        if isinstance(node, ast.Attribute)
        else node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Name | ast.Attribute | ast.ClassDef)
    }


def opens(tree: ast.AST) -> int:
    """How often a file calls a method `open` without arguments, as `Sensitive.open()`."""
    return sum(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "open"
        and not (node.args or node.keywords)
        for node in ast.walk(tree)
    )


def opens_by_folder(tree: Iterable[Module]) -> dict[str, int]:
    """`opens`, summed over the modules of each folder that has any."""
    counts: Counter[str] = Counter()
    for module in tree:
        counts[module.folder] += opens(module.tree)
    return {folder: count for folder, count in sorted(counts.items()) if count}


def imports(tree: Iterable[Module]) -> dict[str, set[str]]:
    """The modules of the package that each module imports, also inside functions.

    `from veilflow.engine import train` counts as an import of `veilflow.engine`, unless `train` is
    a module. Names that the package imports when they are first used are not seen.
    """
    found = list(tree)
    known = {module.name for module in found}
    return {m.name: {name for name in _imported(m, known) if name != m.name} for m in found}


def _imported(module: Module, known: set[str]) -> Iterator[str]:
    package = module.name.split(".")
    if module.path.name != "__init__.py":
        package = package[:-1]
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) + 1 - node.level] if node.level else []
            base = ".".join([*start, *filter(None, [node.module])])
            for alias in node.names:
                full = f"{base}.{alias.name}"
                if full in known or base in known:
                    yield full if full in known else base


def fan_in(imported: dict[str, set[str]]) -> dict[str, int]:
    """How many modules import each module."""
    counts = Counter(name for names in imported.values() for name in names)
    return {name: counts[name] for name in imported}
