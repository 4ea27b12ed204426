import datetime as dt

import numpy as np
import pytest

import veilflow as vf
from veilflow.tabular.number_columns import KINDS
from veilflow.tabular.schema import replace_column

NUM_CODES = {
    "numeric": (vf.Numeric(0, 1), 1),
    "datetime": (vf.Datetime("2000-01-01", "2001-01-01"), 1),
    "boolean": (vf.Boolean(), 2),
    "categorical": (vf.Categorical("a", "b", "c"), 3),
    "ordinal": (vf.Ordinal(1, 2, 3, 4), 4),
    "open": (vf.OpenCategorical(), 3),
    "clock": (vf.Clock(), 1),
    "listed": (vf.ListedNumeric(1, 5), 1),
}


@pytest.mark.parametrize(("column", "expected"), NUM_CODES.values(), ids=NUM_CODES.keys())
def test_a_column_has_a_code_for_each_value_and_one_more_for_gaps(column, expected):
    vocabulary = ("x", "y") if isinstance(column, vf.OpenCategorical) else None
    assert column.num_codes(vocabulary) == expected
    assert replace_column(column, nullable=True).num_codes(vocabulary) == expected + 1


def test_every_kind_has_a_word_of_its_own():
    assert set(NUM_CODES) == set(KINDS)
    assert all(kind.kind == word for word, kind in KINDS.items())


def test_an_open_column_without_its_vocabulary_has_no_number_of_codes():
    with pytest.raises(ValueError, match="vocabulary"):
        vf.OpenCategorical().num_codes()


@pytest.mark.parametrize(
    ("column", "num_cells"),
    [
        (vf.Numeric(17, 90, integer=True), 74),
        (vf.Numeric(5, 5, integer=True), 1),
        (vf.Numeric(0, 100, integer=True, resolution=5), 21),
        (vf.Numeric(0, 0.3, resolution=0.1), 4),
        (vf.Numeric(-1, 1), None),
        (vf.Numeric(), None),
        (vf.Numeric(integer=True), None),
        (vf.Datetime("2000-01-01", "2000-01-31", resolution="day"), 31),
        (vf.Datetime("2000-01-01", "2000-01-01", resolution="hour"), 24),
        (vf.Datetime("2000-01-01", dt.datetime(2000, 1, 1), resolution="second"), 1),
        (vf.Categorical("a"), None),
    ],
)
def test_grids_count_both_ends(column, num_cells):
    assert column.num_cells == num_cells


BAD = {
    "low above high": (lambda: vf.Numeric(2, 1), "low must be below high"),
    "no width": (lambda: vf.Numeric(1, 1), "low must be below high"),
    "one bound": (lambda: vf.Numeric(1), "both"),
    "nan": (lambda: vf.Numeric(float("nan"), 1), "NaN"),
    "infinite": (lambda: vf.Numeric(0, float("inf")), "finite"),
    "too wide": (lambda: vf.Numeric(-1.7e308, 1.7e308), "too wide"),
    "text bound": (lambda: vf.Numeric("0", 1), "number"),
    "half an integer": (lambda: vf.Numeric(0, 1.5, integer=True), "whole number"),
    "resolution": (lambda: vf.Numeric(0, 1, resolution=0), "positive"),
    "too fine": (lambda: vf.Numeric(0, 1, resolution=1e-18), "resolution"),
    "integer is no flag": (lambda: vf.Numeric(0, 1, integer=1), "True or False"),
    "nullable is no flag": (lambda: vf.Boolean(nullable="no"), "True or False"),
    "no values": (lambda: vf.Categorical(), "at least one"),
    "a list": (lambda: vf.Categorical(["a", "b"]), "one by one"),
    "mixed": (lambda: vf.Categorical("a", 1), "all text or all whole"),
    "truths": (lambda: vf.Categorical(True, False), "all text or all whole"),
    "twice": (lambda: vf.Ordinal("a", "a"), "twice"),
    "spaces": (lambda: vf.Categorical(" a"), "spaces"),
    "empty": (lambda: vf.Categorical(""), "empty"),
    "the placeholder": (lambda: vf.Categorical("(other)"), "undiscovered"),
    "huge": (lambda: vf.Categorical(2**60), "2\\^53"),
    "no room": (lambda: vf.OpenCategorical(max_values=0), "max_values"),
    "order": (lambda: vf.Datetime("2001-01-01", "2000-01-01"), "after"),
    "no date": (lambda: vf.Datetime("01/31/2000", "2001-01-01"), "written like"),
    "a number": (lambda: vf.Datetime(0, 1), "datetime"),
    "resolution word": (lambda: vf.Datetime("2000", "2001", resolution="week"), "one of"),
    "no such fact": (lambda: vf.Boolean(unconfirmed=("low",)), "facts of a boolean"),
    "facts as text": (lambda: vf.Boolean(unconfirmed="nullable"), "list"),
}


@pytest.mark.parametrize(("make", "message"), BAD.values(), ids=BAD.keys())
def test_declarations_that_contradict_themselves_are_refused(make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make()


def test_columns_compare_hash_and_keep_plain_numbers():
    assert vf.Numeric(np.int32(1), np.float64(2)) == vf.Numeric(1, 2)
    assert type(vf.Numeric(np.float64(1), np.int8(2), integer=True).high) is int
    assert hash(vf.Categorical("a", "b")) == hash(vf.Categorical("a", "b"))
    assert vf.Categorical("a", "b") != vf.Ordinal("a", "b")
    assert vf.Categorical("a") != vf.Categorical("b")
    assert vf.Boolean() != vf.Boolean(nullable=True)


def test_a_repr_is_the_call_that_makes_the_column():
    for column in (
        vf.Numeric(17, 90, integer=True, nullable=True),
        vf.Numeric(0.0, 1.5, resolution=0.5),
        vf.Categorical("F", "M"),
        vf.Ordinal(1, 2, nullable=True),
        vf.OpenCategorical(max_values=7),
        vf.Boolean(nullable=True),
        vf.Datetime("1999-01-31 12:00:00", "2001-01-31 13:00:00", resolution="hour"),
        vf.Clock(),
        vf.Clock(700, 2400, nullable=True),
        vf.ListedNumeric(1, 5),
        vf.ListedNumeric(0.5, 2.5, nullable=True),
    ):
        assert eval(repr(column), {kind.__name__: kind for kind in KINDS.values()}) == column
    assert len(repr(vf.Categorical(*map(str, range(50_000))))) < 200


def test_what_is_not_public_is_not_shown():
    for column in (
        vf.Numeric(1234, 5678, unconfirmed=("low", "high")),
        vf.Categorical("1234", unconfirmed=("values",)),
        vf.Datetime("1234-01-01", "1235-01-01", unconfirmed=vf.Datetime.facts),
    ):
        assert "123" not in repr(column)
        assert "?" in repr(column)
        assert not column.confirmed


def test_moments_with_a_zone_are_taken_in_utc_and_start_at_their_step():
    column = vf.Datetime("2000-01-01T01:30:00+01:00", "2000-01-02T05:59", resolution="hour")
    assert (column.start, column.end) == (dt.datetime(2000, 1, 1), dt.datetime(2000, 1, 2, 5))
    assert vf.Datetime(dt.date(1, 1, 1), dt.date(9999, 12, 31)).num_cells > 3e11
