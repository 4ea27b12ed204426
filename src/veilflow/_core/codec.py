"""The codec: frozen settings to plain JSON values and back, checked field by field.

A dataclass becomes an object with exactly its fields. A family of classes (`Tagged`) adds the name of
the member: `{"kind": "Count", "purpose": "number of records", "epsilon": 0.02}`. Reading runs no code
from a file: it can only name a class that is already imported and belongs to the expected family.
Nothing is coerced: "3" is not a number, and 1 is not a boolean. A class that people also write by
hand may define its own JSON format (`OwnFormat`).
"""

import dataclasses
import enum
import math
import types
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, ClassVar, Self, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")


class Tagged:
    """Base of a family of frozen dataclasses, which JSON distinguishes by class name."""

    kind: ClassVar[str]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.kind = cls.__name__


class OwnFormat(ABC):
    """Base of a class that writes and reads its own JSON."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Plain JSON values that `from_json` reads."""

    @classmethod
    @abstractmethod
    def from_json(cls, document: Any, /) -> Self:
        """The object that `to_json` wrote.

        Raises:
            ValueError: `document` is anything else.
        """


def plain(value: Any) -> Any:
    """`value` as JSON: dicts, lists, strings, numbers, booleans and None.

    Raises:
        TypeError: It holds something that has no JSON form.
    """
    if isinstance(value, enum.Enum):
        return value.value
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return str(value) if math.isinf(value) else value
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, OwnFormat):
        return value.to_json()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        kind = {"kind": value.kind} if isinstance(value, Tagged) else {}
        return kind | {name: plain(getattr(value, name)) for name in _fields(type(value))}
    raise TypeError(f"{type(value).__name__} has no place in a file of settings.")


def restored(cls: Any, data: Any) -> Any:
    """The `cls` that `plain` wrote.

    Args:
        cls: A dataclass, or any type that a field of one may have.
        data: The JSON values.

    Raises:
        ValueError: `data` does not describe a `cls`, or the class refuses its values.
    """
    origin, parts = get_origin(cls), get_args(cls)
    if cls is Any:
        return data
    if origin in (Union, types.UnionType):
        return _first(parts, data)
    if origin is tuple and isinstance(data, list):
        kinds = (parts[0],) * len(data) if parts[-1] is Ellipsis else parts
        if len(kinds) == len(data):
            return tuple(restored(kind, item) for kind, item in zip(kinds, data, strict=True))
    elif origin is Sequence and isinstance(data, list):
        return tuple(restored(parts[0], item) for item in data)
    elif origin in (dict, Mapping) and isinstance(data, dict):
        return {str(name): restored(parts[1], item) for name, item in data.items()}
    elif cls is float and (type(data) in (int, float) or data in ("inf", "-inf")):
        return float(data)
    elif cls in (bool, int, str, type(None)) and type(data) is cls:
        return data
    elif isinstance(cls, type) and issubclass(cls, enum.Enum):
        return cls(data)
    elif isinstance(cls, type) and issubclass(cls, OwnFormat):
        return cls.from_json(data)
    elif isinstance(cls, type) and isinstance(data, dict):
        return _made(_member(cls, data) if issubclass(cls, Tagged) else cls, data)
    raise ValueError(f"expected {getattr(cls, '__name__', cls)}, got {type(data).__name__}.")


def _first(kinds: tuple[Any, ...], data: Any) -> Any:
    """Restored by the first type that accepts `data`. Types are exact, so that is the right one."""
    for kind in kinds:
        try:
            return restored(kind, data)
        except ValueError:
            continue
    raise ValueError(f"none of {len(kinds)} types fits {type(data).__name__}.")


def _member(family: type[Tagged], data: dict[str, Any]) -> type:
    """The class of a family that `data` names."""
    kind, waiting = str(data.get("kind")), [family]
    while waiting:
        one = waiting.pop()
        if one.__name__ == kind and dataclasses.is_dataclass(one):
            return one
        waiting += one.__subclasses__()
    raise ValueError(f"unknown kind of {family.__name__}: {kind[:40]!r}.")


def _made(cls: type, data: dict[str, Any]) -> Any:
    if not dataclasses.is_dataclass(cls):
        raise ValueError(f"{cls.__name__} is not a dataclass.")
    fields = _fields(cls)
    names = set(fields) | ({"kind"} if issubclass(cls, Tagged) else set())
    if set(data) != names:
        raise ValueError(f"{cls.__name__} has the fields {', '.join(sorted(names))}, no others.")
    try:
        return cls(**{name: restored(kind, data[name]) for name, kind in fields.items()})
    except (TypeError, OverflowError) as error:
        raise ValueError(f"not a {cls.__name__}: {error}") from None


@cache
def _fields(cls: type) -> dict[str, Any]:
    """The names and types of the fields that the constructor takes."""
    hints = get_type_hints(cls)
    return {field.name: hints[field.name] for field in dataclasses.fields(cls) if field.init}
