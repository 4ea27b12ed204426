"""Peak memory of the private step against that of the plain step, batch 2048.

Two figures: what the compiler says the compiled program needs (arguments, results and temporaries), and
by how much the resident memory of a fresh process rises at its peak while the program runs.
"""

import ctypes
import gc
import json
import sys
from pathlib import Path
from typing import Any

import jax

from benchmarks import setting
from benchmarks.records import Record, record
from benchmarks.timing import in_fresh_process

BATCH, STEPS, MUST = 2048, 5, 1.5
_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def run(*, quick: bool = False) -> list[Record]:
    """Measure each side in a process of its own."""
    batch = 64 if quick else BATCH
    private, plain = (
        in_fresh_process("benchmarks.memory", side, str(batch)) for side in ("private", "plain")
    )
    what = f"private step / plain step, batch {batch}"
    found = []
    for field, name in (
        ("compiled", "memory of the compiled program"),
        ("resident", "rise of resident memory"),
    ):
        known = bool(private[field] and plain[field])
        ratio = private[field] / plain[field] if known else None
        found.append(record(f"{name}: {what}", ratio, "ratio", must=MUST, peer="plain Adam step"))
        for side, sizes in (("private", private), ("plain", plain)):
            size = sizes[field] / 2**20 if known else None
            found.append(record(f"{name}: {side} step, batch {batch}", size, "MiB"))
    return found


def measure(side: str, batch: int) -> dict[str, int | None]:
    """Bytes that a few steps take, by the compiler and by the operating system."""
    model, rows = setting.flow(), setting.records()
    make = setting.private_steps if side == "private" else setting.plain_steps
    state, steps = make(model, batch, STEPS)
    words = jax.numpy.asarray(setting.raw_keys(STEPS, seed=0))
    compiled = jax.jit(steps, donate_argnums=0).lower(state, rows, words).compile()
    return {"compiled": _compiled(compiled), "resident": _rise(compiled, state, rows, words)}


def _compiled(program: Any) -> int:
    sizes = program.memory_analysis()
    whole = sizes.argument_size_in_bytes + sizes.output_size_in_bytes + sizes.temp_size_in_bytes
    return whole - sizes.alias_size_in_bytes  # results that lie where arguments lay


def _rise(program: Any, *args: Any) -> int | None:
    """Peak resident bytes while `program` runs, less those before; None where it can't be known."""
    if not (_CLEAR.exists() and sys.platform == "linux"):
        return None
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # else what compiling left behind would be used again
    try:
        _CLEAR.write_text("5")  # from here on the peak counts anew
    except OSError:
        return None
    before = _status("VmRSS")
    jax.block_until_ready(program(*args))
    return _status("VmHWM") - before


def _status(field: str) -> int:
    lines = _STATUS.read_text("utf-8").splitlines()
    return 1024 * next(int(x.split()[1]) for x in lines if x.startswith(field + ":"))


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], int(sys.argv[2]))))
