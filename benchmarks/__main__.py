"""The command `python -m benchmarks`: measure, check, write the page."""

import argparse
import dataclasses
import sys
from importlib import import_module

from benchmarks import records, table

NAMES = (
    "step",
    "clipping",
    "memory",
    "accounting",
    "startup",
    "long_run",
    "sampling",
    "compile",
    "planner",
    "tables",
    "table_speed",
    "table_planner",
    "paper_flow",
    "numbers",
    "rehearsal",
    "rehearsal_time",
    "ablations",
    "correlated",
    "marginals",
    "images",
    "expm_batch",
    "zoom",
    "posterior",
    "posterior_shapes",
    "posterior_coverage",
    "audit",
    "detect",
    "fuzz",
    "kills",
)
ON_GPU = ("step", "tables", "images")
"""The benchmarks that say something about a GPU; their results have a file of their own."""
OWN = "table_peers"
"""Takes hours and flags, and has a page of its own; so only who names it runs it."""


def main(arguments: list[str] | None = None) -> int:
    """Run the command; returns the exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments[:1] == [OWN]:
        return import_module(f"benchmarks.{OWN}").main(arguments[1:])
    about = f"{__doc__} `python -m benchmarks {OWN} --help` tells of AIM and MST beside us."
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=about)
    parser.add_argument(
        "names", nargs="*", metavar="name", help=f"of {', '.join(NAMES)}; none: all"
    )
    parser.add_argument(
        "--quick", action="store_true", help="tiny settings, to see that all works; writes nothing"
    )
    parser.add_argument(
        "--check", action="store_true", help="print the written records that miss; exit 1 if any"
    )
    parser.add_argument("--page", action="store_true", help="write docs/benchmarks.md and stop")
    given = parser.parse_args(arguments)
    unknown = [name for name in given.names if name not in NAMES]
    if unknown:
        parser.error(f"unknown benchmark {', '.join(unknown)}; known: {', '.join(NAMES)}")
    if given.page:
        table.write_page()
        print("wrote docs/benchmarks.md")
    if given.check:
        return check()
    return 0 if given.page else measure(given.names, quick=given.quick)


def check() -> int:
    """Print the written records that miss what they must reach; 1 if there are any."""
    written = records.read()
    if not written:
        print("no results yet: run python -m benchmarks first", file=sys.stderr)
        return 1
    missing = [r for found in written.values() for r in found if r.misses]
    if missing:
        table.show("missed", missing)
    else:
        bounds = sum(r.must is not None for found in written.values() for r in found)
        print(f"all {bounds} records with a bound reach it")
    return 1 if missing else 0


def measure(names: list[str], *, quick: bool) -> int:
    """Run benchmarks one after the other, each leaving its table and its file."""
    import jax

    gpu = jax.default_backend() == "gpu"
    available = ON_GPU if gpu else NAMES
    for name in names or available:
        if name not in available:
            print(f"{name} is measured on the CPU: set JAX_PLATFORMS=cpu", file=sys.stderr)
            return 2
        found = import_module(f"benchmarks.{name}").run(quick=quick)
        if quick:  # the bounds are for the full settings
            found = [dataclasses.replace(r, must=None) for r in found]
        table.show(f"{name}{' on a GPU' if gpu else ''}", found)
        if not quick:
            path = records.write(f"{name}_gpu" if gpu else name, found)
            print(f"wrote benchmarks/results/{path.name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
