"""A hunt in a process of its own: memory is limited there, and a crash of it is a finding.

Libraries in C that meet hostile bytes may not raise but die. The process that dies is replaced by
another, which goes on behind the input that did it.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from tests.hostile.hunt import LONGEST, Found, hunt
from tests.hostile.loaders import loaders

ROOT = Path(__file__).parents[2]
MEMORY = 4 * 2**30
"""Bytes of address space that loading may take beyond what the process has."""
_MOST_DEATHS = 20


def hunt_apart(
    name: str, *, count: int, seed: int = 0, kinds: tuple[str, ...], seconds: float = 3600
) -> Found:
    """Hunt with one of `loaders`; what kills the process or does not end is among the findings."""
    found, first = Found(), 0
    while first < count and len(found.crashes) < _MOST_DEATHS:
        with tempfile.TemporaryDirectory() as folder:
            asked = {"name": name, "count": count - first, "first": first, "seed": seed}
            command = [sys.executable, "-m", "tests.hostile.apart", folder]
            environment = {**os.environ, "JAX_PLATFORMS": "cpu", "TMPDIR": folder}
            with subprocess.Popen(
                command,
                cwd=ROOT,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            ) as process:
                try:
                    out, err = process.communicate(
                        json.dumps({**asked, "kinds": kinds}), timeout=seconds
                    )
                except subprocess.TimeoutExpired:
                    process.kill()
                    out, err = process.communicate()
            progress = Path(folder) / "number"
            reached = int(progress.read_text()) if progress.exists() else None
        if process.returncode == 0:
            part = Found(**json.loads(out.splitlines()[-1]))
            first = count
        elif reached is None:
            raise RuntimeError(f"the hunt for {name} did not begin: {err[-2000:]}")
        else:
            what = f"input {reached}: the process died ({process.returncode})"
            part = Found(inputs=reached + 1 - first)
            (part.hangs if "Timeout (" in err else part.crashes).append(what)
            first = reached + 1
        _add(found, part)
    return found


def _add(found: Found, part: Found) -> None:
    found.inputs += part.inputs
    found.loaded += part.loaded
    found.crashes += part.crashes
    found.hangs += part.hangs
    found.outside += part.outside
    found.slowest = max(found.slowest, part.slowest)


def _main(folder: Path) -> None:
    import faulthandler

    asked = json.loads(sys.stdin.read())
    made = loaders(tuple(asked.pop("kinds")))[asked.pop("name")]()
    now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + MEMORY, now + MEMORY))
    root = folder / "hunt"
    root.mkdir()
    handle = os.open(folder / "number", os.O_CREAT | os.O_WRONLY)

    def told(number: int) -> None:
        os.pwrite(handle, f"{number:012d}".encode(), 0)
        # a loop in C does not hear signals; this ends the process from another thread
        faulthandler.dump_traceback_later(2 * LONGEST, exit=True, file=sys.stderr)

    found = hunt(made, root, told=told, **asked)
    faulthandler.cancel_dump_traceback_later()
    print(json.dumps(asdict(found)))


if __name__ == "__main__":
    _main(Path(sys.argv[1]))
