"""What a compiled program computes where: inside its loops, or before and after them."""

import re
from typing import Any

import jax

_CALLS = re.compile(r"(?:calls|to_apply|body|condition)=%([\w.\-]+)")


def operations(fn: Any, *args: Any) -> dict[str, list[str]]:
    """The operations of the optimized program of `fn`: those of loop bodies, and all others."""
    program = fn if hasattr(fn, "lower") else jax.jit(fn)
    text = program.lower(*args).compile().as_text()
    bodies: dict[str, list[str]] = {}
    name = ""
    for line in text.splitlines():
        opened = re.match(r"(?:ENTRY )?%([\w.\-]+) .*\{$", line)
        if opened:
            name = opened[1]
            bodies[name] = []
        elif name:
            bodies[name].append(line)
    looped = {body for lines in bodies.values() for line in lines for body in _loops(line)}
    inside = set().union(*(_reached(body, bodies) for body in looped))
    found: dict[str, list[str]] = {"loop": [], "outside": []}
    for name, lines in bodies.items():
        where = "loop" if name in inside else "outside"
        for line in lines:
            operation = re.search(r"= (?:\([^)]*\)|\S+) ([\w\-]+)\(", line)
            found[where] += [operation[1]] if operation else []
    return found


def _loops(line: str) -> list[str]:
    return re.findall(r"body=%([\w.\-]+)", line)


def _reached(name: str, bodies: dict[str, list[str]]) -> set[str]:
    called = {found for line in bodies.get(name, ()) for found in _CALLS.findall(line)}
    return {name}.union(*(_reached(one, bodies) for one in called))
