"""How often a record passes through a layer: once, or a declared number of times (`Reused`).

A layer called twice under one tap would report the sum of its inputs and the sum of its cotangents,
whose product is not its gradient. The clip would still hold, because what is summed is also what is
measured, but the model would learn nonsense. `check_taps_used_once` therefore reads the traced program,
without running it, and refuses such a model.

Layers inside a `Reused` module keep one tap for every use: the gradient of one record is a sum over its
uses, and its norm is not the sum of their norms.
"""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import equinox as eqx
import jax

from veilflow._core import check
from veilflow.nn.tap import Tap, is_layer

Module = TypeVar("Module")


class Reused(eqx.Module, Generic[Module]):
    """A module through which every record passes exactly `uses` times, by `scan`."""

    module: Module
    uses: int = eqx.field(static=True)

    def __init__(self, module: Module, *, uses: int):
        check.count(uses=uses)
        self.uses = uses
        self.module = jax.tree.map(
            lambda node: _set_uses(node, uses) if is_layer(node) else node, module, is_leaf=is_layer
        )

    def scan(
        self, body: Callable[[Module, Any, Any], tuple[Any, Any]], carry: Any, xs: Any = None
    ) -> tuple[Any, Any]:
        """`carry, y = body(module, carry, x)` for each use, like `jax.lax.scan`.

        This is the only way to call the module: a use outside of it would share a tap with another use
        and be clipped as if the two were one.
        """
        taps, rest = eqx.partition(self.module, _is_tap, is_leaf=_is_tap)

        def one_use(carry: Any, slices: tuple[Any, Any]) -> tuple[Any, Any]:
            tap, x = slices
            return body(eqx.combine(tap, rest, is_leaf=_is_tap), carry, x)

        return jax.lax.scan(one_use, carry, (taps, xs), length=self.uses)


def _is_tap(node: Any) -> bool:
    return isinstance(node, Tap)


def _set_uses(layer: Any, uses: int) -> Any:
    if layer.uses is not None:
        raise ValueError(f"{type(layer).__name__} is already inside a Reused module.")
    # `uses` is static and not a leaf of the pytree, so it is set on a copy
    copy = object.__new__(type(layer))
    for name, value in vars(layer).items():
        object.__setattr__(copy, name, uses if name == "uses" else value)
    return copy


def check_taps_used_once(fn: Callable[[tuple[Tap, ...]], Any], taps: tuple[Tap, ...]) -> None:
    """Raise if `fn(taps)` uses one of the taps for more than one output.

    Raises:
        ValueError: A layer is called more than once for a record outside `Reused`.
    """
    jaxpr = _program(jax.make_jaxpr(fn)(taps))
    for i, tap in enumerate(taps):
        # a tap has two leaves; the second one, `d`, is never empty
        if _uses(jaxpr, jaxpr.invars[2 * i + 1]) > 1:
            raise ValueError(
                f"a layer with {tap.d.shape[-1]} outputs is called more than once for each record. "
                "Wrap the module that holds it in nn.Reused(module, uses=...) and call it by `scan`."
            )


def _uses(jaxpr: Any, variable: Any) -> int:
    """How often `variable` is used, including inner programs; every iteration of a loop counts."""
    count = 0
    for eqn in jaxpr.eqns:
        for place, operand in enumerate(eqn.invars):
            if operand is variable:
                count += _uses_in(eqn, place)
    return count


def _uses_in(eqn: Any, place: int) -> int:
    # names of the parameters of primitives differ between versions of JAX; shapes do not
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
    for value in params.values():  # jit, remat and the like pass their operands on one to one
        inner = _program(value)
        if hasattr(inner, "eqns") and len(inner.invars) == len(eqn.invars):
            return _uses(inner, inner.invars[place])
    return 1


def _program(jaxpr: Any) -> Any:
    """The program itself, whether or not it is wrapped with its constants."""
    return getattr(jaxpr, "jaxpr", jaxpr)
