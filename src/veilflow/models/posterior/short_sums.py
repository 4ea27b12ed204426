"""Sums of a few numbers written out as additions, which compilers fuse with what is around them.

On a CPU a sum along an axis is a kernel of its own, and takes about ten nanoseconds however short the
axis is. The gradient of a likelihood has such sums, over a person's few measures for instance, and a
step needs it half a million times. Written out, it is a few times faster; the numbers are the same but
for rounding.
"""

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal

_SHORT = 16
"""Longer sums are left to the kernel."""


def with_short_sums(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, computed with short sums written out. For one example: `vmap` comes afterwards."""

    def written_out(*args: Any) -> Any:
        closed, shape = jax.make_jaxpr(function, return_shape=True)(*args)
        found = _evaluated(closed.jaxpr, closed.consts, jax.tree.leaves(args))
        return jax.tree.unflatten(jax.tree.structure(shape), found)

    return written_out


def _evaluated(jaxpr: Jaxpr, consts: Sequence[Any], args: Sequence[Any]) -> list[Any]:
    known = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *args], strict=True))

    def value(of: Any) -> Any:
        return of.val if isinstance(of, Literal) else known[of]

    for equation in jaxpr.eqns:
        inputs, inner = [value(of) for of in equation.invars], equation.params.get("jaxpr")
        if equation.primitive.name == "reduce_sum" and _is_short(equation):
            found = [_added(inputs[0], equation.params["axes"])]
        elif equation.primitive.name in ("jit", "pjit") and isinstance(inner, ClosedJaxpr):
            found = _evaluated(inner.jaxpr, inner.consts, inputs)
        else:
            params = equation.primitive.get_bind_params(equation.params)
            found = equation.primitive.bind(*inputs, **params)
            found = found if equation.primitive.multiple_results else [found]
        known.update(zip(equation.outvars, found, strict=True))
    return [value(of) for of in jaxpr.outvars]


def _is_short(equation: Any) -> bool:
    shape = equation.invars[0].aval.shape
    return all(0 < shape[axis] <= _SHORT for axis in equation.params["axes"])


def _added(x: Any, axes: Sequence[int]) -> Any:
    for axis in sorted(axes, reverse=True):
        parts = [jax.lax.index_in_dim(x, i, axis, keepdims=False) for i in range(x.shape[axis])]
        x = reduce(jax.lax.add, parts)
    return x
