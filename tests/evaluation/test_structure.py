"""What always holds in a table: each kind is found where it was put, and nowhere else."""

import math

import numpy as np
import pandas as pd
import pytest

import veilflow as vf
from veilflow.evaluation.structure import find_structure, share_kept, shares_kept

ROWS = 3000


def numbers(rng, low=0, high=1000):
    return rng.integers(low, high, ROWS).astype(float)


def number(**facts):
    return vf.Numeric(-1e7, 1e8, nullable=True, **facts)


def cases(rng):
    """By text: columns in which the statement of that text holds, and their declarations."""
    x, y, codes = numbers(rng), numbers(rng), rng.choice(10_000, 40, replace=False)
    time = rng.integers(0, 24, ROWS) * 100 + rng.integers(0, 60, ROWS)
    born = pd.date_range("1930-01-01", "2004-12-31", periods=ROWS)[rng.permutation(ROWS)]
    gap, more = rng.random(ROWS) < 0.1, rng.random(ROWS) < 0.2
    city = rng.choice(list("abcd"), ROWS)
    status = rng.choice(["married", "single"], ROWS)
    empty = [np.where(rng.random(ROWS) < 0.05, np.nan, 1.0)]
    together = np.isnan(empty[0])
    rounded = np.where(rng.random(ROWS) < 0.3, 100 * numbers(rng, 1, 200), numbers(rng, 1, 20_000))
    return {
        "a and b are missing together": {
            "a": np.where(together, np.nan, x),
            "b": np.where(together, np.nan, y),
        },
        "b is missing wherever a is": {
            "a": np.where(gap, np.nan, x),
            "b": np.where(gap | more, np.nan, y),
        },
        "b is missing exactly where a is single": {
            "a": status,
            "b": np.where(status == "single", np.nan, y),
        },
        "a = b": {"a": x, "b": x},
        "a and b differ by at most 3": {"a": x, "b": x + rng.integers(-3, 4, ROWS)},
        "a <= b": {"a": x, "b": x + y},
        "b = a // 100": {"a": time, "b": time // 100},
        "b = a % 100": {"a": time, "b": time % 100},
        "b = a / 100": {"a": x, "b": x / 100},
        "b = year of a": {"a": born, "b": born.year.to_numpy()},
        "c = a + b": {"a": x, "b": y, "c": x + y},
        "c = a * b": {"a": x, "b": y, "c": x * y},
        "d = a + b + c": {"a": x, "b": y, "c": x[::-1], "d": x + y + x[::-1]},
        "b follows from a": {"a": city, "b": np.where(np.isin(city, ["a", "c"]), "u", "v")},
        "a is a multiple of 10,000": {"a": 10_000 * x},
        "a is a multiple of 100": {"a": rounded},
        "a is 0": {"a": np.where(rng.random(ROWS) < 0.4, 0, x)},
        "a is one of 40 values": {"a": codes[rng.integers(0, 40, ROWS)]},
        "a is always 7": {"a": np.full(ROWS, 7.0)},
        "a is a time of day, hhmm": {"a": time},
        "a is a day, yyyymmdd": {"a": born.strftime("%Y%m%d").astype(int)},
    }


TEXTS = tuple(cases(np.random.default_rng(0)))


def table(columns):
    frame = pd.DataFrame(columns)
    declared = {
        name: vf.Datetime("1900-01-01", "2020-01-01")
        if cells.dtype.kind == "M"
        else vf.Categorical(*sorted(set(cells)))
        if not pd.api.types.is_numeric_dtype(cells)
        else number(integer=bool(np.all(np.nan_to_num(cells) % 1 == 0)))
        for name, cells in frame.items()
    }
    return frame, vf.Schema(declared)


@pytest.mark.parametrize("text", TEXTS)
def test_what_was_put_into_a_table_is_found(text):
    frame, schema = table(cases(np.random.default_rng(1))[text])
    found = {one.text: one for one in find_structure(frame, schema)}
    assert text in found
    one = found[text]
    assert one.share == share_kept(one, frame)
    assert one.share > 0.99 if one.is_rule else one.share < 0.9


@pytest.mark.parametrize("text", TEXTS)
def test_independent_columns_keep_what_they_cannot_keep_together(text):
    """Shuffling columns breaks a statement about several of them, and none about a single one."""
    rng = np.random.default_rng(2)
    frame, schema = table(cases(rng)[text])
    one = next(s for s in find_structure(frame, schema) if s.text == text)
    shuffled = frame.apply(lambda cells: cells.to_numpy()[rng.permutation(ROWS)])
    kept = share_kept(one, shuffled)
    assert kept == one.share if len(one.columns) == 1 else kept < 0.92


def test_independent_columns_have_no_structure():
    rng = np.random.default_rng(3)
    frame, schema = table(
        {
            "age": rng.integers(17, 90, ROWS).astype(float),
            "children": rng.poisson(1.5, ROWS).astype(float),
            "income": rng.lognormal(10, 1, ROWS),
            "weight": np.where(rng.random(ROWS) < 0.3, np.nan, rng.normal(70, 10, ROWS)),
            "height": np.where(rng.random(ROWS) < 0.3, np.nan, rng.normal(1.7, 0.1, ROWS)),
            "sex": rng.choice(["f", "m"], ROWS),
            "color": rng.choice(["red", "green", "blue"], ROWS),
        }
    )
    assert find_structure(frame, schema) == ()


def test_errors_in_few_rows_do_not_hide_a_rule():
    rng = np.random.default_rng(4)
    x = numbers(rng)
    y = np.where(rng.random(ROWS) < 0.004, numbers(rng), x // 10)
    frame, schema = table({"x": x, "y": y})
    found = find_structure(frame, schema)
    assert [one.text for one in found] == ["y = x // 10"]
    assert 0.99 < found[0].share < 1


def test_a_statement_that_speaks_of_no_row_has_no_share():
    frame, schema = table(cases(np.random.default_rng(5))["a and b are missing together"])
    one = find_structure(frame, schema)[0]
    assert math.isnan(share_kept(one, frame.fillna(1.0)))
    assert shares_kept((one,), frame.fillna(1.0))[0][1] == 0


def test_text_and_numbers_are_read_by_their_declaration():
    """A file has text where a frame has numbers; both say the same."""
    frame, schema = table(cases(np.random.default_rng(6))["b = a // 100"])
    as_text = frame.astype(str)
    for one in find_structure(frame, schema):
        assert share_kept(one, as_text) == share_kept(one, frame)


def test_chains_of_orders_and_gaps_are_told_once():
    rng = np.random.default_rng(7)
    a = numbers(rng)
    b = a + numbers(rng)
    frame, schema = table({"a": a, "b": b, "c": b + rng.exponential(500, ROWS).round()})
    texts = [one.text for one in find_structure(frame, schema) if one.kind == "order"]
    assert texts == ["a <= b", "b <= c"]
