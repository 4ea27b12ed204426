"""`python -m reproductions probes`: what the probes of all systems should give, measured anew.

With `--check` nothing is written: each probe runs once, and the command fails where a number is off.
"""

import argparse
from collections.abc import Callable, Sequence

from reproductions import SYSTEMS, get, probing
from reproductions.probing import Probe


def all_probes(systems: Sequence[str] = ()) -> dict[str, Probe]:
    """The probes of some systems, or of all, by `SYSTEM/NAME`."""
    return {
        f"{name}/{probe.name}": probe for name in systems or SYSTEMS for probe in get(name).probes
    }


def remake(
    systems: Sequence[str], *, draws: int = probing.DRAWS, say: Callable[[str], None] = print
) -> None:
    """Measure what the probes of some systems give now, and write it among the others'."""
    known = probing.read()
    for name, probe in all_probes(systems).items():
        known[name] = probing.expect(probe, name, draws=draws)
        say(f"{name}: {known[name].seconds:.1f} s a draw")
        probing.write([known[each] for each in all_probes() if each in known])


def check(systems: Sequence[str], *, say: Callable[[str], None] = print) -> bool:
    """Whether the probes of some systems give what they should."""
    expected, fine = probing.read(), True
    for name, probe in all_probes(systems).items():
        try:
            found = probe.measure()
            off = expected[name].misses(found) if name in expected else ["nothing to expect"]
        except Exception as error:  # the others are still to be compared
            off = [f"failed: {type(error).__name__}: {error}"]
        say(f"{name}: {'; '.join(off) or 'as expected'}")
        fine &= not off
    return fine


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; with `--check`, 1 where a number is off."""
    parser = argparse.ArgumentParser(prog="python -m reproductions probes", description=__doc__)
    parser.add_argument("systems", nargs="*", metavar="SYSTEM", help=f"of {', '.join(SYSTEMS)}")
    parser.add_argument("--draws", type=int, default=probing.DRAWS, help="behind each number")
    parser.add_argument("--check", action="store_true", help="write nothing, compare")
    asked = parser.parse_args(arguments)
    if asked.check:
        return int(not check(asked.systems))
    remake(asked.systems, draws=asked.draws)
    return 0
