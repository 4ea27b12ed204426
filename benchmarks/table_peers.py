"""The command `python -m benchmarks table_peers`: AIM and MST of dpmm beside table flows.

All methods get the same rows, bounds, lists, epsilon and delta, and the number of rows as a public
fact. Finished cells are kept in `benchmarks/results/table_peers/` and not run again, so that a run may
be stopped at any time. `make dpmm` makes the environment of AIM and MST.
"""

import argparse
import itertools
import subprocess
import sys
from dataclasses import asdict

from benchmarks import peer_cells, peer_page
from benchmarks.peer_cells import Cell, Key
from benchmarks.peer_data import NAMES, load
from benchmarks.peer_fit import DELTA, METHODS, OURS, REAL, fit
from benchmarks.provenance import commit, machine, today, versions
from benchmarks.table_measures import measure

EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)
ROWS = 20_000
DEFAULT_METHODS = ("tableflow", "mst", "aim")


def main(arguments: list[str]) -> int:
    """Run the command; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks table_peers", description=__doc__)
    add = parser.add_argument
    add("--tables", nargs="+", choices=NAMES, default=NAMES, metavar="TABLE", help=_of(NAMES))
    add("--epsilons", nargs="+", type=float, default=EPSILONS, metavar="EPSILON")
    add(
        "--methods",
        nargs="+",
        choices=METHODS[1:],
        default=DEFAULT_METHODS,
        metavar="METHOD",
        help=_of(METHODS[1:]),
    )
    add("--rows", type=int, default=ROWS, help="training rows, at most")
    add("--seeds", nargs="+", type=int, default=[1], help="of fits, one cell for each")
    add("--limit", type=float, default=7200.0, help="seconds that a fit may take")
    add(
        "--again",
        nargs="+",
        choices=METHODS,
        default=(),
        metavar="METHOD",
        help="methods whose cells are measured again where another commit measured them",
    )
    add("--page", action="store_true", help="write the page and its figures, and stop")
    given = parser.parse_args(arguments)
    if not given.page:
        for key in wanted(given, peer_cells.read()):
            cell = measured(key, limit=given.limit)
            peer_cells.keep(cell)
            print(told(cell), flush=True)
    print(f"wrote {peer_page.write().name}")
    return 0


def _of(names: tuple[str, ...]) -> str:
    return f"of {', '.join(names)}"


def wanted(given: argparse.Namespace, kept: dict[Key, Cell]) -> list[Key]:
    """The cells to measure: those that there are not yet, and those to measure again."""
    keys: list[Key] = []
    for table in given.tables:
        keys.append((table, REAL, None, given.rows, 0))
        keys += [
            (table, method, epsilon, given.rows, seed)
            for epsilon, method, seed in itertools.product(
                given.epsilons, given.methods, given.seeds
            )
        ]
    now = _commit()
    old = [key for key in keys if key in kept and kept[key].commit != now and key[1] in OURS]
    if old and not given.again:
        print(
            f"{len(old)} cells of ours are of other commits; --again {' '.join(OURS)} measures "
            "them again",
            file=sys.stderr,
        )
    return [
        key
        for key in keys
        if key not in kept or (key[1] in given.again and kept[key].commit != now)
    ]


def measured(key: Key, *, limit: float) -> Cell:
    """Fit and measure one cell; a method that fails leaves a cell that says why."""
    table, method, epsilon, rows, seed = key
    found = load(table, rows)
    about = {
        "table": table,
        "method": method,
        "epsilon": epsilon,
        "delta": None if epsilon is None else DELTA,
        "rows": rows,
        "seed": seed,
        "machine": machine(),
        "date": today(),
        "commit": _commit(),
    }
    try:
        fitted = fit(table, rows, method, epsilon, seed, limit=limit)
    except subprocess.TimeoutExpired:
        return Cell(**about, synthetic_rows=0, failed=f"not done in {limit:,.0f} seconds")
    except RuntimeError as error:
        last = str(error).strip().splitlines()[-1]
        return Cell(**about, synthetic_rows=0, failed=last)
    measures, structures = measure(table, found, fitted.rows)
    return Cell(
        **about,
        synthetic_rows=len(fitted.rows),
        measures=measures,
        structures=[asdict(one) for one in structures],
        seconds=fitted.seconds,
        gigabytes=fitted.gigabytes,
        settings=fitted.settings,
        versions=versions() | fitted.versions,
    )


def told(cell: Cell) -> str:
    """A line about a cell."""
    budget = "" if cell.epsilon is None else f", epsilon {cell.epsilon:g}"
    if cell.failed:
        return f"{cell.table}, {cell.method}{budget}: {cell.failed}"
    shown = ", ".join(f"{name} {value:.3f}" for name, value in cell.measures.items())
    took = "" if cell.seconds is None else f"; {cell.seconds:,.0f} s, {cell.gigabytes:.2f} GB"
    return f"{cell.table}, {cell.rows:,} rows, {cell.method}{budget}: {shown}{took}"


def _commit() -> str:
    return commit("src", "benchmarks", "reproductions", ":!benchmarks/results")
