"""A check that every layer's tap is used at most once by a record.

A layer called twice under one tap would report the sum of its inputs and the sum of its cotangents,
whose product is not its gradient. The clip still holds, because the norm is that of what is summed,
but the model would learn nonsense. The check reads the traced program and runs nothing.
"""

from collections.abc import Callable
from typing import Any

import jax

from veilflow.nn.tap import Tap


def check_taps_used_once(fn: Callable[[tuple[Tap, ...]], Any], taps: tuple[Tap, ...]) -> None:
    """Raise if `fn(taps)` lays one of the taps beside more than one output.

    Raises:
        ValueError: A layer is called more than once for a record outside `Reused`.
    """
    jaxpr = _program(jax.make_jaxpr(fn)(taps))
    for i, tap in enumerate(taps):
        # two leaves a tap; the second, `d`, is never empty
        if _uses(jaxpr, jaxpr.invars[2 * i + 1]) > 1:
            raise ValueError(
                f"a layer with {tap.d.shape[-1]} outputs is called more than once for each record. "
                "Wrap the module that holds it in nn.Reused(module, uses=...) and call it by `scan`."
            )


def _uses(jaxpr: Any, variable: Any) -> int:
    """How often `variable` is consumed, looking into inner programs; loops count as many."""
    count = 0
    for eqn in jaxpr.eqns:
        for place, operand in enumerate(eqn.invars):
            if operand is variable:
                count += _uses_in(eqn, place)
    return count


def _uses_in(eqn: Any, place: int) -> int:
    # what each primitive calls its parameters differs between versions of jax; shapes do not
    name, params = eqn.primitive.name, eqn.params
    if name == "scan":
        inner = _program(params["jaxpr"])
        scanned = inner.invars[place].aval.shape != eqn.invars[place].aval.shape
        return (1 if scanned else params["length"]) * _uses(inner, inner.invars[place])
    if name == "while":
        return 2
    if name == "cond":
        branches = [_program(branch) for branch in params["branches"]]
        return max(_uses(branch, branch.invars[place - 1]) for branch in branches)
    if name.startswith("custom_vjp"):
        return 1
    for value in params.values():  # jit, remat and the like hand their operands on one to one
        inner = _program(value)
        if hasattr(inner, "eqns") and len(inner.invars) == len(eqn.invars):
            return _uses(inner, inner.invars[place])
    return 1


def _program(jaxpr: Any) -> Any:
    """The program itself, whether or not it comes wrapped with its constants."""
    return getattr(jaxpr, "jaxpr", jaxpr)
