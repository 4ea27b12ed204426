"""Through how many functions a row of a CSV file passes, to a model and back.

A small table is written to a CSV file, a `TableFlow` is fitted to it for two steps, and rows are
drawn from the model, while every call of a function of veilflow is observed. A *hop* is a function
that takes or returns the rows: an array, frame or list with as many entries as the file has rows or as
are drawn, also inside of a wrapper, a mapping or a list. Neither number is likely to be the size of
anything else. Not counted are lambdas and comprehensions, double-underscore methods, and `_core`
(random bits are drawn for every row). A chunk of the rows has another size and is not seen.
"""

import csv
import os
import random
import sys
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import veilflow as vf

READ, DRAWN = 977, 613
PACKAGE = os.path.dirname(vf.__file__) + os.sep


@dataclass(frozen=True)
class Hops:
    """Functions of veilflow, as (file, name), in the order in which they were first entered.

    Args:
        entered: All that ran.
        hops: Those that took or returned the rows.
    """

    entered: list[tuple[str, str]]
    hops: list[tuple[str, str]]


def hops() -> Hops:
    """The functions on the way of a row. Jax must not have compiled the model before."""
    entered: dict[tuple[str, str], bool] = {}

    def observe(frame: FrameType, event: str, value: Any) -> None:
        code = frame.f_code
        if event not in ("call", "return") or not code.co_filename.startswith(PACKAGE):
            return
        function = (code.co_filename.removeprefix(PACKAGE), code.co_qualname)
        arguments = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        held = [frame.f_locals.get(name) for name in arguments] if event == "call" else [value]
        sys.setprofile(None)  # looking at a value may run functions of veilflow
        try:
            entered[function] = entered.get(function, False) or any(_rows(x) for x in held)
        finally:
            sys.setprofile(observe)

    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimator, rows = _estimator(), _write_rows(Path(folder) / "rows.csv")
        sys.setprofile(observe)
        try:
            estimator.fit(rows, progress=False).sample(DRAWN)
        finally:
            sys.setprofile(None)
    return Hops(list(entered), [f for f, has_rows in entered.items() if has_rows and _counts(f)])


def _estimator() -> vf.TableFlow:
    schema = vf.Schema(age=vf.Numeric(0, 100, integer=True), sex=vf.Categorical("F", "M"))
    return vf.TableFlow(
        schema=schema,
        budget=vf.Budget(epsilon=1.0, delta=1e-5),
        num_records=READ,
        warm_start=False,
        flow=vf.codes(hidden=(4,)),
        training=vf.Training(steps=2, batch_size=64),
    )


def _write_rows(path: Path) -> Path:
    rng = random.Random(0)
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = [(rng.randrange(101), rng.choice("FM")) for _ in range(READ)]
        csv.writer(file).writerows([("age", "sex"), *rows])
    return path


def _counts(function: tuple[str, str]) -> bool:
    file, name = function
    last = name.rsplit(".", 1)[-1]
    return not (file.startswith("_core") or last.startswith("<") or last.endswith("__"))


def _rows(value: Any, depth: int = 2) -> bool:
    """Whether a value holds one entry for each row, itself or down to `depth` wrappers."""
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple):
        return bool(shape) and shape[0] in (READ, DRAWN)
    if isinstance(value, list | tuple) and len(value) in (READ, DRAWN):
        return True
    return depth > 0 and any(_rows(part, depth - 1) for part in _parts(value))


def _parts(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    if isinstance(value, list | tuple):
        return list(value)
    if type(value).__module__.startswith("veilflow"):
        slots = [getattr(value, name, None) for name in getattr(type(value), "__slots__", ())]
        return [*getattr(value, "__dict__", {}).values(), *slots]
    return []
