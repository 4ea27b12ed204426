"""Programs and weights that are there sooner, for tests of mathematics at small sizes.

Most of the time of such a test is the compiler's. `jit` asks it to take the shortest way to a
program that does the same. How it rounds may differ a little, so what must hold to the last bit, or
for numbers at the ends of their range, is compiled as it is for users: with `jax.jit`. `weights`
draws the weights of a new network without a program for each of their shapes.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, wraps
from typing import Any

import equinox as eqx
import jax
import numpy as np
import pytest

_OPTIONS = {"xla_backend_optimization_level": 0, "xla_cpu_use_fusion_emitters": False}


@cache
def options() -> dict[str, Any]:
    """What asks for the shortest way; nothing, where the compiler knows no such options."""
    try:
        jax.jit(lambda x: x + 1, compiler_options=_OPTIONS)(np.float32(0))
    except jax.errors.JaxRuntimeError:
        return {}
    return _OPTIONS


def jit(function: Callable) -> Callable:
    """`eqx.filter_jit`, compiled in a hurry."""
    compiled = None

    def plain(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)  # a name for what `jax.vmap` and others made of methods

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        nonlocal compiled
        if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves((args, kwargs))):
            return function(*args, **kwargs)  # part of a program, and options are of whole ones
        if compiled is None:
            compiled = eqx.filter_jit(plain, compiler_options=options())
        return compiled(*args, **kwargs)

    return call


@contextmanager
def weights(seed: int = 0) -> Iterator[None]:
    """Uniform and normal draws come from NumPy, whatever the key."""
    rng = np.random.default_rng(seed)

    def uniform(key, shape=(), dtype=np.float32, minval=0.0, maxval=1.0):
        return jax.numpy.asarray(rng.uniform(minval, maxval, shape), dtype)

    def normal(key, shape=(), dtype=np.float32):
        return jax.numpy.asarray(rng.normal(size=shape), dtype)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jax.random, "uniform", uniform)
        patch.setattr(jax.random, "normal", normal)
        yield
