"""Differentially private normalizing flows.

Densities and synthetic data that may be published, with a guarantee a reviewer can recompute.

    import veilflow as vf
    model = vf.DensityFlow(budget=vf.Budget(epsilon=1.0, delta=1e-6), bounds=(0, 1)).fit(rows)
    model.sample(1000); model.log_prob(rows); model.guarantee; model.save("model.veil")

Names are imported when they are first used, so that `import veilflow` and the command line start fast.
Which names there are, and where they live, is listed in `__init__.pyi`.
"""

import ast
from importlib import import_module
from pathlib import Path
from typing import Any

__version__ = "0.1.0.dev0"

_HOMES = {
    alias.name: node.module or ""
    for node in ast.parse(Path(__file__).with_suffix(".pyi").read_text("utf-8")).body
    if isinstance(node, ast.ImportFrom)
    for alias in node.names
}
"""The module in which each public name is defined; a name may be a module itself."""

# uppercase before lowercase, which is how `sorted` orders them
__all__ = sorted(_HOMES)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'veilflow' has no attribute {name!r}")
    home = import_module(_HOMES[name])
    # not `getattr`, which would ask this function again for a module of this very package
    return vars(home)[name] if name in vars(home) else import_module(f"{_HOMES[name]}.{name}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
