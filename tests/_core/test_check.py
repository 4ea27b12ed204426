"""Checks name the argument, what was given and what is allowed."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from veilflow._core import check

SOUND = {
    check.positive: [1, 0.5, 5e-324, 1e308, np.float32(2), np.int64(3), Fraction(1, 3)],
    check.nonnegative: [0, 0.0, 1.5, np.float64(0)],
    check.finite: [-1e308, 0, 7, np.float32(-2)],
    check.rate: [1, 1.0, 1e-12, np.float64(0.5)],
    check.fraction: [0.5, 1e-300, 1 - 1e-16, np.float32(0.25)],
    check.count: [1, 10**30, np.int32(4), np.uint8(1)],
}
WRONG = {
    check.positive: [0, -1, -0.0, math.inf, -math.inf],
    check.nonnegative: [-1e-300, math.inf],
    check.finite: [math.inf, -math.inf],
    check.rate: [0, -0.5, 1 + 1e-15, math.inf],
    check.fraction: [0, 1, -0.1, 2],
    check.count: [0, -3],
}
PAIRS = [(one, value) for one, values in SOUND.items() for value in values]
WRONG_PAIRS = [(one, value) for one, values in WRONG.items() for value in values]
NAMES = [one for one in SOUND if one is not check.count]


def named(pair) -> str | None:
    return getattr(pair, "__name__", None)


@pytest.mark.parametrize(("one", "value"), PAIRS, ids=named)
def test_sound_values_pass(one, value):
    one(clip_norm=value)


@pytest.mark.parametrize(("one", "value"), WRONG_PAIRS, ids=named)
def test_wrong_values_raise_with_name_value_and_hint(one, value):
    with pytest.raises(ValueError) as caught:
        one(clip_norm=value, hint="Use another.")
    message = str(caught.value)
    assert message.startswith("clip_norm must be ")
    assert message.endswith(f"got {value}. Use another.")


@pytest.mark.parametrize("one", NAMES, ids=named)
def test_nan_is_called_nan(one):
    with pytest.raises(ValueError, match="clip_norm must be a number, got NaN"):
        one(clip_norm=math.nan)


@pytest.mark.parametrize("value", ["1", None, True, 1j, [1.0], np.ones(2), np.bool_(True)])
@pytest.mark.parametrize("one", NAMES, ids=named)
def test_what_is_no_number_is_refused_by_its_type(one, value):
    with pytest.raises(TypeError, match=f"must be a number, got {type(value).__name__}"):
        one(clip_norm=value)


@pytest.mark.parametrize("value", [1.0, "1", None, True, np.float64(2), math.nan])
def test_a_count_must_be_whole(value):
    with pytest.raises(TypeError, match="steps must be a whole number"):
        check.count(steps=value)


def test_a_count_may_start_elsewhere():
    check.count(num_rows=0, at_least=0)
    with pytest.raises(ValueError, match="num_rows must be at least 2, got 1"):
        check.count(num_rows=1, at_least=2)


def test_the_first_wrong_one_of_several_is_named():
    with pytest.raises(ValueError, match="learning_rate"):
        check.positive(clip_norm=1.0, learning_rate=0.0)


@given(st.floats(allow_nan=False))
def test_positive_agrees_with_comparison(value: float):
    if 0 < value < math.inf:
        check.positive(x=value)
    else:
        with pytest.raises(ValueError):
            check.positive(x=value)


def test_one_of_lists_what_is_allowed():
    check.one_of(("a", "b"), schedule="a")
    with pytest.raises(ValueError, match="schedule must be one of 'a', 'b', got 'c'"):
        check.one_of(("a", "b"), schedule="c")
    with pytest.raises(ValueError, match="got None"):
        check.one_of(("a", "b"), schedule=None)


def test_an_object_of_another_class_is_named_with_what_is_allowed():
    check.instance(int, first=1, second=True)
    check.instance(int | str, first=1, second="x")
    with pytest.raises(TypeError, match=r"^second must be int, got list\. Count it\.$"):
        check.instance(int, first=1, second=[], hint="Count it.")
    with pytest.raises(TypeError, match=r"^value must be int or str, got NoneType\.$"):
        check.instance(int | str, value=None)
