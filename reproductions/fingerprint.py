"""A hash of the code that decides what a run measures, and of nothing else: runs cost hours.

What decides are the files of the runs and whatever of the library they import, directly or through
others. A file that is never imported, a comment, a docstring or a new layout leaves finished runs as
good as they were.
"""

import ast
import functools
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
        digest.update(_words(path.read_text("utf-8")).encode())
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
            waiting += _imports(path)
    return found


def _imports(path: Path) -> Iterator[str]:
    for module, names, _ in _lines(path.read_text("utf-8")):
        if not names:
            yield module
        for name in names:
            inside = f"{module}.{name}"
            yield inside if _file(inside) else _behind(module, name)


def _behind(module: str, name: str) -> str:
    """The module that a name comes from, which a package may only pass on."""
    path = _file(module)
    if path is None or path.name != "__init__.py":
        return module
    for source, _, passed_on in _lines(path.read_text("utf-8")):
        if name in passed_on:
            return _behind(source, name)
    return module


# most files are read for every kind of run of every system: what a text says is found out once
@functools.cache
def _lines(text: str) -> tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...]:
    """What a file imports: modules, names from them, and the names it passes on as its own."""
    tree, found = ast.parse(text), []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(alias.name, (), ()) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = tuple(alias.name for alias in node.names)
            own = tuple(alias.asname or alias.name for alias in node.names)
            found.append((node.module, names, own if node in tree.body else ()))
    return tuple(found)


@functools.cache
def _words(text: str) -> str:
    return _meaning(ast.parse(text))


def _file(module: str) -> Path | None:
    """The file of a module of the library; None for others, and for the library's own list."""
    first, *rest = module.split(".")
    if first != _LIBRARY or not rest:
        return None
    place = (ROOT / "src" / _LIBRARY).joinpath(*rest)
    paths = (place / "__init__.py", place.with_suffix(".py"))
    return next((path for path in paths if path.is_file()), None)


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
