"""Which small faults the tests do not notice.

    python -m tools.mutants --list                        # what would be tried
    python -m tools.mutants --count 60 --jobs 8 --json mutants.json
    python -m tools.mutants privacy/accounting --count 20 --stages 1

A fault is put into a copy of the sources; the checkout stays as it is. Then the tests run that are
most likely to notice: first files of tests named after the module or importing it (stage 1), then
the rest of the tests of its folder (2), then contracts and lessons (3). The first failure ends the
run. Before that, the same tests run without a fault: those that fail anyway are left out, and the
time they take sets the limit. A run that exceeds its limit counts as noticed and is listed apart.
"""

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tools.mutations import Mutant, choose

ROOT = Path(__file__).parent.parent
FOLDERS = ("privacy", "engine", "releases")
EVERYWHERE = ("contracts", "lessons")
SLACK_S = 60.0
"""Added to three times what the tests take without a fault."""


@dataclass(frozen=True)
class Verdict:
    """What came of one fault.

    Args:
        mutant: The fault.
        outcome: "killed", "timeout", "survived", or "error" where no test ran.
        killed_by: The test that failed, or how the process ended.
        seconds: How long the tests ran.
    """

    mutant: Mutant
    outcome: str
    killed_by: str
    seconds: float

    def to_json(self) -> dict[str, object]:
        rest = {name: getattr(self, name) for name in ("outcome", "killed_by", "seconds")}
        return {**asdict(self.mutant), **rest}


@dataclass(frozen=True)
class Baseline:
    """Tests without a fault.

    Args:
        failing: Those that fail anyway.
        seconds: How long all take.
    """

    failing: tuple[str, ...] = ()
    seconds: float = field(default=0.0)


def files_of(folders: Iterable[str], root: Path = ROOT) -> list[tuple[Path, str]]:
    """Files to put faults into, each with its path from the package on."""
    package = root / "src" / "veilflow"
    starts = [package / name for name in folders]
    found = {
        path for start in starts for path in ([start] if start.suffix else start.rglob("*.py"))
    }
    return [(path, path.relative_to(package).as_posix()) for path in sorted(found)]


def likely_tests(file: str, stages: int, root: Path = ROOT) -> list[Path]:
    """Files of tests for a module, the likeliest to notice a fault first."""
    module, tests = Path(file), root / "tests"
    folder = sorted((tests / module.parts[0]).rglob("test_*.py"))
    stem = module.parent.name if module.stem == "__init__" else module.stem.strip("_")
    dotted = ".".join(["veilflow", *module.with_suffix("").parts]).removesuffix(".__init__")
    named = [path for path in folder if stem in path.stem]
    importing = [p for p in folder if re.search(rf"\b{dotted}\b", p.read_text("utf-8"))]
    found = [*named, *importing]
    if stages >= 2:
        found += folder
    if stages >= 3:
        found += [path for name in EVERYWHERE for path in sorted((tests / name).rglob("test_*.py"))]
    return list(dict.fromkeys(found))


def run_tests(
    tests: list[Path],
    mutant: Mutant | None,
    *,
    limit: float,
    skip: Iterable[str] = (),
    one_failure: bool = True,
    root: Path = ROOT,
) -> tuple[int | None, list[str], float]:
    """Run tests on a copy of the sources, with or without a fault.

    Returns:
        The exit status, or None past the limit; the tests that failed; and the seconds it took.
    """
    command = [sys.executable, "-m", "pytest", "-q", "--tb=no", "-rfE", "-m", "not slow"]
    command += ["-p", "no:cacheprovider", "-p", "no:xdist", *(["-x"] if one_failure else [])]
    command += [f"--deselect={name}" for name in skip] + [str(path) for path in tests]
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        copy = Path(folder) / "src"
        shutil.copytree(root / "src", copy, ignore=shutil.ignore_patterns("__pycache__"))
        if mutant is not None:
            file = copy / "veilflow" / mutant.file
            file.write_bytes(mutant.apply(file.read_bytes()))
        search = os.pathsep.join([str(copy), *filter(None, [os.environ.get("PYTHONPATH")])])
        environment = {
            **os.environ,
            "PYTHONPATH": search,
            "HYPOTHESIS_STORAGE_DIRECTORY": str(Path(folder) / "hypothesis"),
        }
        begin = time.monotonic()
        with (Path(folder) / "output").open("w+", encoding="utf-8", errors="replace") as output:
            process = subprocess.Popen(
                command,
                cwd=root,
                env=environment,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # so that what a test has started ends with it
            )
            try:
                status = process.wait(limit)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                status = None
            output.seek(0)
            failed = re.findall(r"^(?:FAILED|ERROR) (\S+)", output.read(), re.MULTILINE)
    return status, failed, time.monotonic() - begin


def baseline(tests: list[Path], limit: float) -> Baseline:
    """Run tests without a fault."""
    status, failed, seconds = run_tests(tests, None, limit=limit, one_failure=False)
    if status not in (0, 1):
        end = "did not end in time" if status is None else f"ended with status {status}"
        raise SystemExit(f"without a fault, the tests {end}: {' '.join(failed)}")
    return Baseline(tuple(failed), seconds)


def judge(
    mutant: Mutant, tests: list[Path], skip: tuple[str, ...], limit: float, root: Path = ROOT
) -> Verdict:
    """Try one fault."""
    if not tests:
        return Verdict(mutant, "error", "no tests for this file", 0.0)
    status, failed, seconds = run_tests(tests, mutant, limit=limit, skip=skip, root=root)
    if status is None:
        outcome, by = "timeout", f"more than {limit:.0f} s"
    elif status == 0:
        outcome, by = "survived", ""
    elif status in (1, 2) or status < 0:  # a failure, an error while collecting, a signal
        outcome, by = "killed", failed[0] if failed else f"status {status}"
    else:
        outcome, by = "error", f"pytest ended with status {status}"
    return Verdict(mutant, outcome, by, round(seconds, 1))


def summary(verdicts: list[Verdict]) -> str:
    """One line with the share that was noticed, then what was not."""
    by_outcome = {name: [v for v in verdicts if v.outcome == name] for name in _OUTCOMES}
    noticed = len(by_outcome["killed"]) + len(by_outcome["timeout"])
    judged = noticed + len(by_outcome["survived"])
    share = f"{noticed / judged:.0%}" if judged else "none"
    line = f"{noticed} of {judged} mutants killed ({share})"
    line += f", {len(by_outcome['timeout'])} of them by the time limit"
    line += f"; {len(by_outcome['error'])} could not be tried"
    rows = [f"  {v.outcome}: {v.mutant}" for name in _LISTED for v in by_outcome[name]]
    return "\n".join([line, *rows])


_OUTCOMES = ("killed", "timeout", "survived", "error")
_LISTED = ("survived", "timeout", "error")


def part_of(mutants: list[Mutant], part: str) -> list[Mutant]:
    """Every K-th mutant from the I-th on, for a part written as "I/K"."""
    index, parts = (int(word) for word in part.split("/"))
    if not 1 <= index <= parts:
        raise ValueError(f"part must be like 1/4, 2/4, 3/4 or 4/4, got {part!r}.")
    return mutants[index - 1 :: parts]


def main() -> None:
    """Choose faults, try each, print and write what came of them."""
    options = _options()
    folders = options.folders or [
        name for name in FOLDERS if (ROOT / "src/veilflow" / name).is_dir()
    ]
    chosen = part_of(choose(files_of(folders), options.count, options.seed), options.part)
    if options.list:
        print("\n".join(map(str, chosen)))
        return
    tests = {mutant.file: likely_tests(mutant.file, options.stages) for mutant in chosen}
    verdicts: list[Verdict] = []
    with ThreadPoolExecutor(options.jobs) as pool:
        bases = _baselines(tests, options, pool)
        futures = []
        for mutant in chosen:
            base = bases[frozenset(tests[mutant.file])]
            limit = options.limit or 3 * base.seconds + SLACK_S
            futures.append(pool.submit(judge, mutant, tests[mutant.file], base.failing, limit))
        for future in as_completed(futures):
            verdict = future.result()
            verdicts.append(verdict)
            print(f"{verdict.outcome:8} {verdict.seconds:6.1f} s  {verdict.mutant}", flush=True)
            if options.json:  # after each, as a machine may be taken away
                rows = sorted((v.to_json() for v in verdicts), key=str)
                options.json.write_text(json.dumps(rows, indent=1) + "\n", "utf-8")
    print(summary(sorted(verdicts, key=lambda v: str(v.mutant))))


def _baselines(
    tests: dict[str, list[Path]], options: argparse.Namespace, pool: ThreadPoolExecutor
) -> dict[frozenset[Path], Baseline]:
    """One for each set of tests; modules of one folder mostly share theirs."""
    sets = {frozenset(files): files for files in tests.values()}
    if options.no_baseline:
        return dict.fromkeys(sets, Baseline())
    print(f"running {len(sets)} set(s) of tests without a fault", flush=True)
    limit = options.limit or 3600.0
    futures = {key: pool.submit(baseline, files, limit) for key, files in sets.items() if files}
    bases = {key: future.result() for key, future in futures.items()}
    for base in bases.values():
        left_out = f", without {' '.join(base.failing)}" if base.failing else ""
        print(f"  {base.seconds:.0f} s{left_out}", flush=True)
    return {frozenset(): Baseline()} | bases


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Which small faults the tests do not notice.")
    parser.add_argument(
        "folders", nargs="*", help=f"folders or files of the package ({', '.join(FOLDERS)})"
    )
    parser.add_argument("--count", type=int, default=60, help="how many faults (60)")
    parser.add_argument("--seed", type=int, default=0, help="which faults (0)")
    parser.add_argument("--part", default="1/1", metavar="I/K", help="every K-th fault, from I on")
    parser.add_argument("--stages", type=int, choices=(1, 2, 3), default=3, help="how far to go")
    parser.add_argument(
        "-n", "--jobs", type=int, default=max(1, (os.cpu_count() or 2) // 2), help="runs at once"
    )
    parser.add_argument("--limit", type=float, help="seconds for a run of tests")
    parser.add_argument(
        "--no-baseline", action="store_true", help="trust that all tests pass; needs --limit"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write what came of each here")
    parser.add_argument("--list", action="store_true", help="show the faults and end")
    options = parser.parse_args()
    if options.no_baseline and options.limit is None:
        parser.error("--no-baseline needs --limit: there is no run to take the limit from.")
    return options


if __name__ == "__main__":
    main()
