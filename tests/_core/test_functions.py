"""A hash of a function sees what the function computes by, and nothing of where it stands."""

import functools
import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from veilflow._core.functions import code_hash

SCALE = 2.0


def helper(x):
    return x * SCALE


def calling(x):
    return helper(x) + 1


def closing(value):
    return lambda x: x + value


def with_default(x, by=1.0):
    return x + by


class Wrapper:
    """Stands for a function without being one."""

    def __init__(self, function):
        self.__wrapped__ = function


def test_the_same_code_has_the_same_hash_wherever_it_stands():
    one = lambda x: jnp.sum(x) * 3.0  # noqa: E731
    two = lambda x: jnp.sum(x) * 3.0  # noqa: E731
    assert code_hash(one) == code_hash(two)
    assert code_hash(closing(1.5)) == code_hash(closing(1.5))
    assert code_hash(closing(np.arange(3.0))) == code_hash(closing(np.arange(3.0)))


PAIRS = {
    "a constant": (lambda x: x * 2.0, lambda x: x * 2.5),
    "a name": (lambda x: jnp.sin(x), lambda x: jnp.cos(x)),
    "an operation": (lambda x: x + 1.0, lambda x: x - 1.0),
    "a constant inside": (lambda x: (lambda y: y + 1)(x), lambda x: (lambda y: y + 2)(x)),
    "what is closed over": (closing(1.0), closing(2.0)),
    "an array that is": (closing(jnp.arange(3.0)), closing(jnp.arange(3.0) + 1)),
    "its shape": (closing(np.zeros(2)), closing(np.zeros((2, 1)))),
    "one in a dictionary": (closing({"a": np.zeros(1)}), closing({"a": np.ones(1)})),
    "an argument of a partial": (
        functools.partial(with_default, by=1.0),
        functools.partial(with_default, by=2.0),
    ),
    "what is compiled": (jax.jit(closing(1.0)), jax.jit(closing(2.0))),
    "what an object stands for": (closing(Wrapper(closing(1.0))), closing(Wrapper(closing(2.0)))),
}


@pytest.mark.parametrize("what", PAIRS)
def test_another_function_has_another_hash(what):
    one, two = PAIRS[what]
    assert code_hash(one) != code_hash(two)


def test_numbers_and_functions_of_the_module_count(monkeypatch):
    before = code_hash(calling)
    monkeypatch.setitem(globals(), "SCALE", 2.5)
    assert code_hash(calling) != before
    monkeypatch.undo()
    assert code_hash(calling) == before
    monkeypatch.setitem(globals(), "helper", lambda x: x)
    assert code_hash(calling) != before


def test_a_function_that_calls_itself_ends():
    def again(x):
        return again(x - 1) if x else 0.0

    assert code_hash(again) == code_hash(again)


def test_keys_of_a_generator_and_other_objects_count_by_their_type():
    assert code_hash(closing(jax.random.key(0))) == code_hash(closing(jax.random.key(1)))
    assert code_hash(closing(object())) == code_hash(closing(object()))


def test_the_hash_is_the_same_in_another_process():
    code = (
        "from veilflow._core.functions import code_hash\n"
        "f = lambda x: x in {'a', 'b', 'c', 'd'} and x + 1.5\n"
        "print(code_hash(f))"
    )
    words = [sys.executable, "-c", code]
    texts = {
        subprocess.run(
            words,
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(texts) == 1
