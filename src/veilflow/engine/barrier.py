"""A point that no compiler fuses across: what stands before it is computed once.

A norm and the vector that is cut by it must be made from the very same numbers. A compiler is free to
compute a number twice, once fused into each use, and where a function is steep the two copies round far
apart: the cut vector is then longer than its norm says, and the claimed sensitivity is wrong.
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
    """`fn(values, 0)` with `values` computed once, or zeros where the result is not needed.

    On an accelerator that is an optimization barrier. The compiler for CPUs drops barriers early, so
    there it is a loop that runs once: what enters a loop has to be in memory. That compiler also moves
    out of a loop whatever is the same in every turn, and would then fuse it again; so the values are
    selected by the loop's index, which changes none of their bits.

    Args:
        fn: From values and the index of the turn, which is 0, to arrays.
        values: Arrays, all of them computed before `fn` begins.
        needed: False where `fn` may be left out; a CPU then saves its work.
    """
    if jax.default_backend() != "cpu":
        return fn(jax.lax.optimization_barrier(values), 0)

    def once(index: Int[Array, ""], nothing: PyTree) -> PyTree:
        first = index == 0
        return fn(jax.tree.map(lambda x: jnp.where(first, x, jnp.zeros_like(x)), values), index)

    shapes = jax.eval_shape(once, jax.ShapeDtypeStruct((), jnp.int32), None)
    zeros = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shapes)
    return jax.lax.fori_loop(0, needed.astype(jnp.int32), once, zeros)
