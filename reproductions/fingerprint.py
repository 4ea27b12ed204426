"""A hash of the code that decides what a run measures, and of nothing else: runs cost hours.

What decides are the files of the runs and whatever of the library they import, directly or through
others. A file that is never imported, a comment, a docstring or a new layout leaves finished runs as
good as they were.
"""

import ast
import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.provenance import ROOT

_LIBRARY = "veilflow"


def fingerprint(paths: Iterable[Path]) -> str:
    """A hash of what Python files do: comments, docstrings and layout don't count."""
    digest = hashlib.sha256()
    for path in sorted(paths):
        digest.update(path.relative_to(ROOT).as_posix().encode())
        digest.update(_meaning(_tree(path)).encode())
    return digest.hexdigest()[:16]


def reachable(modules: Iterable[str], *, besides: Iterable[str] = ()) -> set[Path]:
    """The files of some modules of the library and of all that these import, wherever they do it.

    A package is a list of names: from it, what is imported reaches the module behind the name and no
    other. `veilflow` itself is such a list, of everything there is: it is not followed, so name the
    modules behind it.

    Args:
        modules: Their names below `veilflow`, such as `models.density`.
        besides: Packages below `veilflow` that are not followed.
    """
    found: set[Path] = set()
    waiting = [f"{_LIBRARY}.{name}" for name in modules]
    outside = tuple(f"{_LIBRARY}.{name}" for name in besides)
    while waiting:
        name = waiting.pop()
        if name in outside or name.startswith(tuple(f"{package}." for package in outside)):
            continue
        path = _file(name)
        if path is not None and path not in found:
            found.add(path)
            waiting += _imports(_tree(path))
    return found


def _imports(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                inside = f"{node.module}.{alias.name}"
                yield inside if _file(inside) else _behind(node.module, alias.name)


def _behind(module: str, name: str) -> str:
    """The module that a name comes from, which a package may only pass on."""
    path = _file(module)
    if path is None or path.name != "__init__.py":
        return module
    for node in _tree(path).body:
        if not isinstance(node, ast.ImportFrom) or node.module is None or node.level:
            continue
        if name in (alias.asname or alias.name for alias in node.names):
            return _behind(node.module, name)
    return module


def _file(module: str) -> Path | None:
    """The file of a module of the library; None for others, and for the library's own list."""
    first, *rest = module.split(".")
    if first != _LIBRARY or not rest:
        return None
    place = (ROOT / "src" / _LIBRARY).joinpath(*rest)
    paths = (place / "__init__.py", place.with_suffix(".py"))
    return next((path for path in paths if path.is_file()), None)


def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


def _meaning(node: Any) -> str:
    """A syntax tree in words. Not `ast.dump`, whose words differ from one Python to the next."""
    if isinstance(node, list):
        return f"[{', '.join(_meaning(part) for part in node if not _is_text(part))}]"
    if not isinstance(node, ast.AST):
        return repr(node)
    fields = ((name, value) for name, value in ast.iter_fields(node) if value not in (None, []))
    parts = ", ".join(f"{name}={_meaning(value)}" for name, value in fields)
    return f"{type(node).__name__}({parts})"


def _is_text(node: Any) -> bool:
    """Whether it is a docstring, or another text that nothing is done with."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
