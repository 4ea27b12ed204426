"""Figures are data: the records a benchmark leaves, and whether they reach what they must."""

import datetime
import json
import os
import platform
import subprocess
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

ROOT = Path(__file__).parent.parent
RESULTS = Path(__file__).parent / "results"

PEERS_HINT = "pip install -c constraints.txt -e '.[peers]'"


@dataclass(frozen=True, kw_only=True)
class Record:
    """One measured figure. `value` is None when it could not be measured here."""

    name: str
    value: float | None
    unit: str
    better: Literal["lower", "higher"]
    must: float | None = None
    peer: str | None = None
    """What the figure is measured against."""
    machine: str
    date: str
    commit: str

    def __post_init__(self) -> None:
        if self.better not in ("lower", "higher"):
            raise ValueError(f"better must be 'lower' or 'higher', got {self.better!r}.")

    @property
    def misses(self) -> bool:
        """Whether there is a bound and it isn't shown to be met; what wasn't measured isn't met."""
        if self.must is None:
            return False
        if self.value is None:
            return True
        return not (self.value <= self.must if self.better == "lower" else self.value >= self.must)


def record(
    name: str,
    value: float | None,
    unit: str,
    *,
    better: Literal["lower", "higher"] = "lower",
    must: float | None = None,
    peer: str | None = None,
) -> Record:
    """A record of here and now, its value rounded to four digits."""
    return Record(
        name=name,
        value=None if value is None else float(f"{value:.4g}"),
        unit=unit,
        better=better,
        must=must,
        peer=peer,
        machine=machine(),
        date=datetime.date.today().isoformat(),
        commit=commit(),
    )


def write(name: str, records: list[Record]) -> Path:
    """Write the records of one benchmark; returns the file."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    text = json.dumps([asdict(r) for r in records], indent=2) + "\n"
    part = path.with_suffix(".part")
    part.write_text(text, "utf-8")
    part.replace(path)
    return path


def read(folder: Path = RESULTS) -> dict[str, list[Record]]:
    """All records by benchmark, in alphabetical order.

    Raises:
        ValueError: A file does not hold records; the message names it.
    """
    found = {}
    for path in sorted(folder.glob("*.json")):
        try:
            found[path.stem] = [Record(**item) for item in json.loads(path.read_text("utf-8"))]
        except (TypeError, ValueError) as error:
            raise ValueError(f"{path.name} does not hold benchmark records: {error}") from error
    return found


def machine() -> str:
    """Processor, cores and, where JAX computes on one, the GPU: never a name or an address."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
        model = next(
            line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")
        )
    except (OSError, StopIteration):
        model = platform.processor() or platform.machine()
    text = f"{model}, {cores()} cores"
    import jax

    if jax.default_backend() == "gpu":
        text += f", {jax.devices()[0].device_kind}"
    return text


def cores() -> int:
    """Cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def commit() -> str:
    """The short commit, with a plus sign where measured code has changed since."""
    git = ["git", "--no-optional-locks"]
    changed = ["status", "--porcelain", "--", "src", "benchmarks", ":!benchmarks/results"]
    try:
        head = _output([*git, "rev-parse", "--short", "HEAD"])
        return head + ("+" if _output([*git, *changed]) else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _output(command: list[str]) -> str:
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return run.stdout.strip()
