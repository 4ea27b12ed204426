"""Probes: runs of seconds that tell whether today's code still gives the numbers it gave.

A probe goes through the code of a kind of run on generated data and with small sizes. What it should
give is the mean over several draws, with their spread. Noise of the operating system cannot
be repeated, and noise of another generator with the same distribution is as good: so a probe notices
what moves a number by more than its noise, not what changes its last bit.
"""

import json
import math
import statistics
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

from benchmarks.provenance import commit, machine, today, versions, write_json

from reproductions.blocks import at
from reproductions.cache import MEASURED
from reproductions.records import FOLDER

EXPECTED = FOLDER / "probes.json"
DRAWS = 20
"""Runs behind an expected number."""
SPREADS, FLOOR = 6.0, 1e-3
"""How far a number may be off: so many spreads, and so large a part of itself, which is for numbers
without noise. With 20 normal draws, one number in 100,000 is a false alarm."""

Sizes = Sequence[tuple[Any, str, Any]]
"""Objects, names of their attributes, and what these are while a probe runs."""


@dataclass(frozen=True, kw_only=True)
class Probe:
    """A run of seconds.

    Attributes:
        name: Unlike that of any other probe of the system.
        kind: The kind of run, among those of the system.
        perform: From the number of a draw, from 1, to what is measured. Draws differ in their noise.
        numbers: Which of the measured numbers are compared: names on the way to each, with slashes.
        sizes: What makes the run small.
    """

    name: str
    kind: str
    perform: Callable[[int], dict[str, Any]]
    numbers: tuple[str, ...]
    sizes: Sizes = ()

    def measure(self, draw: int = 1) -> dict[str, float]:
        """The numbers of one draw."""
        with ExitStack() as stack:
            stack.enter_context(warnings.catch_warnings())
            warnings.simplefilter("ignore")  # data as small as this gives rise to many
            for where, attribute, value in self.sizes:
                stack.enter_context(patch.object(where, attribute, value))
            result = self.perform(draw)
        found = {name: at(*name.split("/"))(result) for name in self.numbers}
        if missing := [name for name, value in found.items() if value is None]:
            raise ValueError(f"the probe {self.name} did not measure {', '.join(missing)}.")
        return {name: float(value) for name, value in found.items() if value is not None}


@dataclass(frozen=True)
class Number:
    """What a number of a probe should be."""

    mean: float
    spread: float

    def allows(self, value: float, *, draws: int) -> bool:
        """Whether a further draw may have this value."""
        noise = SPREADS * self.spread * math.sqrt(1 + 1 / draws)
        return abs(value - self.mean) <= noise + FLOOR * abs(self.mean)


@dataclass(frozen=True, kw_only=True)
class Expected:
    """What a probe should give, and how that was measured."""

    probe: str
    numbers: dict[str, Number]
    draws: int
    seconds: float
    device: str
    commit: str
    date: str
    versions: dict[str, str]

    def misses(self, found: dict[str, float]) -> list[str]:
        """A line for each number that is off."""
        return [
            f"{name} is {found[name]:.6g}, not {number.mean:.6g} ± {number.spread:.2g}"
            for name, number in self.numbers.items()
            if not number.allows(found[name], draws=self.draws)
        ]


def smaller(fit: Callable[[Any, Any], Any], **settings: Any) -> Callable[[Any, Any], Any]:
    """How to fit the same estimator with settings that take less time."""
    return lambda estimator, records: fit(replace(estimator, **settings), records)


def expect(probe: Probe, name: str, *, draws: int = DRAWS) -> Expected:
    """What a probe gives now, over several draws."""
    start = time.perf_counter()
    found = [probe.measure(draw) for draw in range(1, draws + 1)]
    seconds = (time.perf_counter() - start) / draws
    numbers = {}
    for number in probe.numbers:
        values = [one[number] for one in found]
        numbers[number] = Number(statistics.fmean(values), statistics.stdev(values))
    return Expected(
        probe=name,
        numbers=numbers,
        draws=draws,
        seconds=round(seconds, 2),
        device=machine(),
        commit=commit(*MEASURED, f":!{EXPECTED.relative_to(FOLDER.parent)}"),
        date=today(),
        versions=versions(),
    )


def write(expected: list[Expected], path: Path = EXPECTED) -> Path:
    """Write what probes should give."""
    return write_json(path, [asdict(one) for one in expected])


def read(path: Path = EXPECTED) -> dict[str, Expected]:
    """What probes should give, by their names with those of their systems; none without a file."""
    if not path.exists():
        return {}
    items = json.loads(path.read_text("utf-8"))
    for item in items:
        item["numbers"] = {name: Number(**number) for name, number in item["numbers"].items()}
    return {item["probe"]: Expected(**item) for item in items}
