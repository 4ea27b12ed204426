"""One set of parameters used several times by each record: shared networks, recurrences.

The gradient of one record is then a sum over its uses, and its norm is not the sum of their norms:
layers inside a `Reused` module keep one tap for every use.
"""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import equinox as eqx
import jax

from veilflow._core import check
from veilflow.nn.tap import Tap, is_layer

Module = TypeVar("Module")


class Reused(eqx.Module, Generic[Module]):
    """`module`, through which every record passes exactly `uses` times, by way of `scan`."""

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

        This is the only way to call the module: a use outside it would share a tap with another
        use and be clipped as if the two were one.
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
    # `uses` is static, so it is no leaf of the pytree and is set on a copy
    copy = object.__new__(type(layer))
    for name, value in vars(layer).items():
        object.__setattr__(copy, name, uses if name == "uses" else value)
    return copy
