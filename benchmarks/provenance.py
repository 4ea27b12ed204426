"""Where a figure comes from and whether it is good enough; for benchmarks and reproductions alike."""

import datetime
import json
import os
import platform
import subprocess
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

ROOT = Path(__file__).parent.parent

Better = Literal["lower", "higher"]


def misses(value: float | None, must: float | None, better: Better) -> bool:
    """Whether there is a bound and it isn't shown to be met; what wasn't measured isn't met."""
    if must is None:
        return False
    if value is None:
        return True
    return not (value <= must if better == "lower" else value >= must)


def check_better(better: str) -> None:
    """Raise unless `better` is one of the two words."""
    if better not in ("lower", "higher"):
        raise ValueError(f"better must be 'lower' or 'higher', got {better!r}.")


def bound(must: float | None, better: Better) -> str:
    """What a value must reach, in signs; empty where there is no bound."""
    return "" if must is None else f"{'<=' if better == 'lower' else '>='} {must:g}"


def write_json(path: Path, value: Any) -> Path:
    """Write a JSON file, all or nothing; numbers must be finite."""
    return write_bytes(path, (json.dumps(value, indent=2, allow_nan=False) + "\n").encode())


def write_bytes(path: Path, data: bytes) -> Path:
    """Write a file, all or nothing, also beside other processes that write it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    part.write_bytes(data)
    part.replace(path)
    return path


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


def versions() -> dict[str, str]:
    """The versions of what decides a number beside the code of a benchmark or a reproduction."""
    return {name: import_module(name).__version__ for name in ("jax", "numpy", "veilflow")}


def today() -> str:
    """The date, as records have it."""
    return datetime.date.today().isoformat()


def commit(*paths: str) -> str:
    """The short commit, with a plus sign where `paths` have changed since.

    A copy of the sources without their history is told its commit by `VEILFLOW_COMMIT`.
    """
    told = os.environ.get("VEILFLOW_COMMIT")
    if told:  # it may lie inside the working tree of something else
        return told
    git = ["git", "--no-optional-locks"]
    try:
        head = _output([*git, "rev-parse", "--short", "HEAD"])
        return head + ("+" if _output([*git, "status", "--porcelain", "--", *paths]) else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _output(command: list[str]) -> str:
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return run.stdout.strip()
