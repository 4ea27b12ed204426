"""A hash of functions that users bring along, such as the likelihood of a model.

A plan cannot store a function, but a run that resumes with another function would add the same noise to
other numbers. So a plan stores a hash of the code and constants of the function instead.
"""

import dataclasses
import functools
import hashlib
import types
from collections.abc import Callable
from typing import Any

import numpy as np

_PLAIN = (type(None), bool, int, float, complex, str, bytes, type(Ellipsis))


def code_hash(function: Callable[..., Any]) -> str:
    """A hash of a function's code and constants, the same in every process of one version of Python.

    It covers default arguments, the closure, the numbers and arrays that the function reads from its
    module, and functions of the same module that it calls. Of other objects it covers the type only,
    and of other libraries the names in use, so it does not notice a change inside these.
    """
    parts = repr(_described(function, frozenset()))
    return hashlib.blake2b(parts.encode(), digest_size=16).hexdigest()


def _described(value: Any, inside: frozenset[int]) -> Any:
    """`value` as nested lists of strings; `inside` holds the ids of values that contain it."""
    if isinstance(value, _PLAIN):
        return repr(value)
    if id(value) in inside:
        return "itself"
    inside |= {id(value)}

    def every(values: Any) -> list[Any]:
        return [_described(one, inside) for one in values]

    if isinstance(value, types.FunctionType):
        cells = [cell.cell_contents for cell in value.__closure__ or () if _is_filled(cell)]
        return every(
            [value.__code__, value.__defaults__, value.__kwdefaults__, cells, _read(value)]
        )
    if isinstance(value, types.CodeType):
        return [value.co_code.hex(), value.co_names, *every(value.co_consts)]
    if isinstance(value, types.MethodType):
        return every([value.__func__, value.__self__])
    if isinstance(value, functools.partial):
        return every([value.func, value.args, value.keywords])
    if hasattr(value, "__wrapped__"):  # compiled or cached
        return every([value.__wrapped__])
    if _is_array(value):
        array = np.ascontiguousarray(value)
        content = hashlib.blake2b(array.tobytes(), digest_size=16).hexdigest()
        return [str(array.dtype), str(np.shape(value)), content]
    if isinstance(value, tuple | list):
        return every(value)
    if isinstance(value, dict):
        return sorted((repr(key), _described(one, inside)) for key, one in value.items())
    if isinstance(value, set | frozenset):
        return sorted(map(repr, value))
    name = getattr(value, "__qualname__", None) or type(value).__qualname__
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = (getattr(value, field.name) for field in dataclasses.fields(value))
        return [name, *every(fields)]
    return [name]


def _is_array(value: Any) -> bool:
    """Whether it is an array of numbers, of NumPy or JAX; random keys are not."""
    kind = getattr(getattr(value, "dtype", None), "kind", "O")
    return hasattr(value, "__array__") and not isinstance(value, type) and kind not in "OV"


def _is_filled(cell: types.CellType) -> bool:
    try:
        _ = cell.cell_contents
    except ValueError:  # the name is not bound yet
        return False
    return True


def _read(function: types.FunctionType) -> dict[str, Any]:
    """The global values that a function reads, and functions of the same module that it uses."""
    names, waiting = set(), [function.__code__]
    while waiting:
        code = waiting.pop()
        names |= set(code.co_names)
        waiting += [inner for inner in code.co_consts if isinstance(inner, types.CodeType)]
    module = function.__globals__
    values = {name: module[name] for name in names if name in module}
    home = function.__module__
    return {
        name: value
        for name, value in values.items()
        if not isinstance(value, types.ModuleType)
        and (not callable(value) or getattr(value, "__module__", None) == home)
    }
