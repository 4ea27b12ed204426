"""Expressions: what Python's arithmetic gives, within the promised range, and nothing is run."""

import datetime as dt
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from veilflow.tabular.evaluation import Range, evaluate, range_of
from veilflow.tabular.expressions import FUNCTIONS, names_in, parse, quoted

ROWS = 40
BOUNDS = {"a": (-5.0, 7.0), "b c": (0.0, 3.0), "d": (1.0, 1000.0)}


def columns(seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    drawn = {name: rng.uniform(*ends, ROWS).round(rng.integers(3)) for name, ends in BOUNDS.items()}
    return {name: np.clip(values, *BOUNDS[name]) for name, values in drawn.items()}


def binary(inner):
    signs = st.sampled_from(["+", "-", "*", "/", "//", "%"])
    return st.tuples(inner, signs, inner).map(lambda x: f"({x[0]} {x[1]} {x[2]})")


def calls(inner):
    two = st.tuples(st.sampled_from(["min", "max"]), inner, inner)
    one = st.tuples(st.sampled_from(["abs", "-", "+"]), inner)
    return two.map(lambda x: f"{x[0]}({x[1]}, {x[2]})") | one.map(lambda x: f"{x[0]}({x[1]})")


WRITTEN = st.recursive(
    st.sampled_from(["a", "`b c`", '"b c"', "d", "2", "0.5", ".25", "1e2", "0"]),
    lambda inner: binary(inner) | calls(inner),
    max_leaves=12,
)


@given(text=WRITTEN, comparison=st.sampled_from(["", " < 3", " >= a", " == d", " != 0"]))
def test_a_value_is_that_of_python_and_lies_in_the_promised_range(text, comparison):
    text = text + comparison
    expression = parse(text)
    known = columns()
    values = evaluate(expression, known, ROWS)
    promised = range_of(expression, {name: Range(*ends) for name, ends in BOUNDS.items()})
    python = text.replace("`b c`", "b_c").replace('"b c"', "b_c")
    for row in range(ROWS):
        cells = {name.replace(" ", "_"): float(own[row]) for name, own in known.items()}
        try:
            expected = float(eval(python, {"min": min, "max": max, "abs": abs}, cells))
        except (ZeroDivisionError, OverflowError):
            expected = math.nan
        expected = expected if math.isfinite(expected) else math.nan
        np.testing.assert_allclose(values[row], expected, rtol=1e-9, atol=1e-9)
        if math.isnan(values[row]):
            assert promised.gaps
        else:
            slack = 1e-9 * max(1, abs(values[row]))
            assert promised.low - slack <= values[row] <= promised.high + slack


@given(text=WRITTEN)
def test_what_is_computed_from_a_missing_number_is_missing(text):
    known = columns() | {"a": np.full(ROWS, np.nan)}
    expression = parse(text)
    values = evaluate(expression, known, ROWS)
    if "a" in names_in(expression):
        assert np.isnan(values).all()
        ranges = {name: Range(*ends, gaps=name == "a") for name, ends in BOUNDS.items()}
        assert range_of(expression, ranges).gaps


@given(moment=st.datetimes(dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31)))
def test_dates_are_those_of_the_calendar(moment):
    moment = moment.replace(microsecond=0)
    seconds = np.array([(moment - dt.datetime(1970, 1, 1)).total_seconds(), np.nan])
    wanted = {
        "year": moment.year,
        "month": moment.month,
        "day": moment.day,
        "hour": moment.hour,
        "minute": moment.minute,
        "weekday": moment.weekday(),
        "days": (moment - dt.datetime(1970, 1, 1)).days,
        "seconds": seconds[0],
    }
    ends = Range(seconds[0], seconds[0], moment=True)
    for name, value in wanted.items():
        found = evaluate(parse(f"{name}(t)"), {"t": seconds}, 2)
        assert found[0] == value
        assert np.isnan(found[1])
        promised = range_of(parse(f"{name}(t)"), {"t": ends})
        assert promised.low <= value <= promised.high


def test_rounding_takes_digits():
    known = {"a": np.array([1.256, -2.5])}
    np.testing.assert_array_equal(evaluate(parse("round(a, 2)"), known, 2), [1.26, -2.5])
    np.testing.assert_array_equal(evaluate(parse("round(a)"), known, 2), [1, -2])
    np.testing.assert_array_equal(evaluate(parse("floor(a) + ceil(a)"), known, 2), [3, -5])


@given(name=st.text(min_size=1, max_size=12))
def test_any_name_can_be_written(name):
    assert names_in(parse(f"1 + {quoted(name)}")) == (name,)


HOSTILE = (
    "",
    "()",
    "a.b",
    "a[0]",
    "a b",
    "a ** 2",
    "a and b",
    "a if b else c",
    "lambda: a",
    "__import__('os').system('true')",
    "__import__(`os`)",
    "eval(a)",
    "year(a, b)",
    "min(a)",
    "round(a, b)",
    "round(a, 99)",
    "round(a, 0.5)",
    "1 < a < 3",
    "a; b",
    "a = b",
    "f'{a}'",
    "`a",
    '"a',
    "``",
    "1e999",
    "1abc",
    "0x10",
    "a,b",
    "a +",
    "* a",
    "(" * 10_000 + "a" + ")" * 10_000,
    "-" * 30_000 + "a",
    "+".join(["a"] * 9_000),
    "9" * 25_000,
    "9" * 19_000 + "x",
    "a\x00",
    "\N{ARABIC-INDIC DIGIT ONE}",
    "a # b",
    "a \\ b",
)


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_text_is_refused(text):
    with pytest.raises(ValueError, match=r"expression|round|takes"):
        parse(text)


PIECES = st.sampled_from(
    [
        *FUNCTIONS,
        "a",
        "(",
        ")",
        ",",
        "+",
        "-",
        "//",
        "<",
        "`",
        '"',
        "1",
        ".",
        "e",
        " ",
        "\n",
        "**",
        "[",
    ]
)


@settings(max_examples=300)
@given(text=st.lists(PIECES, max_size=30).map("".join) | st.text(max_size=30))
def test_any_text_is_an_expression_or_refused(text):
    try:
        expression = parse(text)
    except ValueError:
        return
    known = dict.fromkeys(names_in(expression), np.array([1.0, 0.0, np.nan]))
    assert evaluate(expression, known, 3).shape == (3,)


def test_long_and_deep_expressions_are_computed_without_recursion():
    long = parse("+".join(["a"] * 500))
    np.testing.assert_array_equal(evaluate(long, {"a": np.ones(2)}, 2), [500, 500])
    deep = parse("(" * 40 + "a" + ")" * 40)
    np.testing.assert_array_equal(evaluate(deep, {"a": np.ones(2)}, 2), [1, 1])


def test_a_date_is_no_number_and_a_number_no_date():
    moment, number = Range(0, 1, moment=True), Range(0, 1)
    for text, known in (("a + 1", moment), ("abs(a)", moment), ("year(a)", number)):
        with pytest.raises(ValueError, match="takes"):
            range_of(parse(text), {"a": known})
