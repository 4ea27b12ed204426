"""What a program would compute, without running it."""

import math

import jax


def largest_array(fn, *args) -> int:
    """How many numbers the largest array has that `fn` makes on the way."""
    return max(_sizes(jax.make_jaxpr(fn)(*args).jaxpr))


def _sizes(jaxpr):
    for equation in jaxpr.eqns:
        yield from (math.prod(getattr(var.aval, "shape", ())) for var in equation.outvars)
        for value in jax.tree.leaves(tuple(equation.params.values()), is_leaf=_is_program):
            if _is_program(value):
                yield from _sizes(getattr(value, "jaxpr", value))


def _is_program(value) -> bool:
    return hasattr(value, "eqns")
