"""How long one waits: for the command line's help, for the import, for the first private step."""

import json
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from statistics import median

from benchmarks.records import ROOT, Record, record
from benchmarks.timing import clock, in_fresh_process

REPEATS, MUST = 7, 0.7


def run(*, quick: bool = False) -> list[Record]:
    """Measure in fresh processes, in turns."""
    repeats = 1 if quick else REPEATS
    beside = shutil.which("veilflow", path=str(Path(sys.executable).parent))
    program = [beside] if beside else [sys.executable, "-m", "veilflow"]
    commands = {
        "help": [*program, "--help"],
        "import": [sys.executable, "-c", "import veilflow"],
        "nothing": [sys.executable, "-c", "pass"],
    }
    times: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(repeats):
        for name, command in commands.items():
            times[name].append(clock(lambda command=command: _finish(command)))
    first = [in_fresh_process("benchmarks.startup") for _ in range(min(repeats, 3))]
    step = "first private step of the 2x256 MAF, batch 512"
    return [
        record("veilflow --help", median(times["help"]), "s", must=MUST),
        record("python -c 'import veilflow'", median(times["import"]), "s"),
        record("python -c pass", median(times["nothing"]), "s"),
        record(f"{step}: imports", median(f["imports"] for f in first), "s"),
        record(f"{step}: compiling and taking it", median(f["step"] for f in first), "s"),
    ]


def _finish(command: list[str]) -> None:
    # output to nowhere: how fast a terminal scrolls is not ours
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)


def first_step() -> dict[str, float]:
    """Seconds to import what training needs, and to compile and take one step."""
    seconds = clock(lambda: import_module("benchmarks.setting"))
    from benchmarks import setting

    def step() -> None:
        state, steps = setting.private_steps(setting.flow(), 512, 1)
        setting.as_call(state, steps, setting.records(), setting.raw_keys(1, seed=0))()

    return {"imports": seconds, "step": clock(step)}


if __name__ == "__main__":
    print(json.dumps(first_step()))
