"""A barrier that the compiler does not fuse across: values before it are computed once.

A norm and the vector that is clipped by it must be computed from the very same numbers. A compiler may
compute a number twice, fused into each of its uses, and where a function is steep the two copies can
round far apart. The clipped vector is then longer than its norm says, and the claimed sensitivity is
wrong.
"""

# JAX and jaxtyping leave types open (trees, loops, new arrays); see [tool.pyright] in pyproject.toml
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportUnknownLambdaType=false

from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, PyTree

T = TypeVar("T")


def after_barrier(
    fn: Callable[[T, Int[Array, ""] | int], PyTree], values: T, *, needed: Bool[Array, ""]
) -> Any:
    """`fn(values, 0)` with `values` computed once, or zeros if the result is not needed.

    On an accelerator this is an optimization barrier. XLA's CPU compiler drops barriers early, so
    there it is a loop that runs once, because the inputs of a loop have to be in memory. That
    compiler also moves loop-invariant code out of a loop and would then fuse it again, so the values
    are selected by the loop's index, which changes none of their bits.

    Args:
        fn: Maps the values and the loop index, which is 0, to arrays.
        values: Arrays, all of which are computed before `fn` begins.
        needed: False if `fn` may be skipped, which saves its work on a CPU.
    """
    if jax.default_backend() != "cpu":
        return fn(jax.lax.optimization_barrier(values), 0)

    def once(index: Int[Array, ""], nothing: PyTree) -> PyTree:
        first = index == 0
        return fn(jax.tree.map(lambda x: jnp.where(first, x, jnp.zeros_like(x)), values), index)

    shapes = jax.eval_shape(once, jax.ShapeDtypeStruct((), jnp.int32), None)
    zeros = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shapes)
    return jax.lax.fori_loop(0, needed.astype(jnp.int32), once, zeros)
