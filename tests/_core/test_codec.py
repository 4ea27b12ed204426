"""The codec: settings come back as they were, and a file can say nothing but settings."""

import enum
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from veilflow._core.codec import Tagged, plain, restored


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Shape(Tagged):
    """A family."""


@dataclass(frozen=True)
class Circle(Shape):
    radius: float


@dataclass(frozen=True)
class Polygon(Shape):
    corners: tuple[tuple[float, float], ...] = ()
    inside: Shape | None = None


class Undressed(Shape):
    """A member that is no dataclass."""


@dataclass(frozen=True)
class Settings:
    count: int = 1
    rate: float = 0.5
    name: str = "x"
    on: bool = False
    color: Color = Color.RED
    pair: tuple[int, str] = (1, "a")
    many: tuple[float, ...] = ()
    some: Sequence[int] = ()
    maybe: float | tuple[float, ...] | None = None
    table: dict[str, int] = field(default_factory=dict)
    look: Mapping[str, float] = field(default_factory=dict)
    shape: Shape | None = None
    anything: Any = None
    follows: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        if self.count < 0:
            raise ValueError("count must not be negative.")


def there_and_back(value: Any, cls: Any = None) -> Any:
    text = json.dumps(plain(value), allow_nan=False)
    return restored(type(value) if cls is None else cls, json.loads(text))


RICH = Settings(
    count=2**70,
    rate=math.inf,
    name="ä\n",
    on=True,
    color=Color.BLUE,
    pair=(-3, ""),
    many=(0.1, -math.inf, 1e-300),
    some=(1, 2),
    maybe=(1.0, 2.0),
    table={"a": 1},
    look={"b": 2.5},
    shape=Polygon(((0.0, 1.0), (2.0, 3.0)), inside=Circle(0.25)),
    anything={"x": [1, None, "y"]},
)


@pytest.mark.parametrize("value", [Settings(), RICH], ids=["plain", "rich"])
def test_settings_come_back_as_they_were(value):
    again = there_and_back(value)
    assert again == value
    assert type(again.some) is tuple
    assert type(again.shape) is type(value.shape)


@given(st.floats(allow_nan=False), st.integers(), st.text(), st.booleans())
def test_no_digit_is_lost(rate, count, name, on):
    value = Settings(count=abs(count), rate=rate, name=name, on=on, maybe=rate)
    assert there_and_back(value) == value


def test_a_whole_number_may_stand_for_a_number():
    assert there_and_back({"radius": 2, "kind": "Circle"}, Shape) == Circle(2.0)
    assert type(restored(float, 3)) is float


def test_a_member_of_a_family_is_named():
    assert plain(Circle(1.0)) == {"kind": "Circle", "radius": 1.0}
    assert plain(Settings())["shape"] is None
    assert "follows" not in plain(Settings())
    assert restored(Shape, {"kind": "Circle", "radius": 1.0}) == Circle(1.0)
    assert restored(Circle, {"kind": "Circle", "radius": 1.0}) == Circle(1.0)


BAD: dict[str, list[Any]] = {
    "count": ["3", 3.0, True, None, [3], -1],
    "rate": ["3", "infinity", "nan", True, None, []],
    "name": [3, None, ["x"]],
    "on": [1, 0, "true", None],
    "color": ["green", 1, None, [], {}],
    "pair": [[1], [1, "a", 2], ["a", 1], "1a", {"0": 1}, None],
    "many": [[1, "2"], 1.0, "12", {"a": 1.0}, [[1.0]]],
    "some": [["1"], 1, "12", [1.5]],
    "maybe": ["x", [None], {"a": 1}, True],
    "table": [[], {"a": "1"}, {"a": 1.5}, "a"],
    "look": [{"b": "2"}, []],
    "shape": [
        {"kind": "Circle"},
        {"kind": "Circle", "radius": 1.0, "more": 1},
        {"kind": "Circle", "radius": "1"},
        {"kind": "Shape"},
        {"kind": "Undressed"},
        {"kind": "Settings", "radius": 1.0},
        {"kind": "os.system", "radius": 1.0},
        {"kind": None},
        {"kind": ["Circle"], "radius": 1.0},
        {"radius": 1.0},
        [],
        "Circle",
    ],
}


@pytest.mark.parametrize(("name", "value"), [(n, v) for n, vs in BAD.items() for v in vs], ids=str)
def test_nothing_is_coerced_and_nothing_is_guessed(name, value):
    with pytest.raises(ValueError):
        restored(Settings, {**plain(RICH), name: value})


@pytest.mark.parametrize("data", [None, [], "x", 1, {}, {"count": 1}], ids=str)
def test_fields_are_all_there_and_no_others(data):
    with pytest.raises(ValueError, match=r"expected Settings|has the fields"):
        restored(Settings, data)
    with pytest.raises(ValueError, match="no others"):
        restored(Settings, {**plain(RICH), "follows": 1})


def test_a_member_of_another_family_is_not_taken():
    class Other(Tagged):
        pass

    with pytest.raises(ValueError, match="unknown kind of Other: 'Circle'"):
        restored(Other, plain(Circle(1.0)))
    with pytest.raises(ValueError, match="unknown kind of Polygon"):
        restored(Polygon, plain(Circle(1.0)))


@pytest.mark.parametrize(
    "value",
    [np.zeros(2), object(), {1, 2}, b"x", Circle, 1j],
    ids=lambda x: type(x).__name__,
)
def test_what_json_has_no_word_for_is_refused_when_it_is_written(value):
    with pytest.raises(TypeError, match="no place in a file"):
        plain({"a": [value]})


def test_a_long_kind_is_not_shown_whole():
    with pytest.raises(ValueError, match="unknown kind") as error:
        restored(Shape, {"kind": "x" * 10_000})
    assert len(str(error.value)) < 100
