import numpy as np
import pandas as pd

import veilflow as vf
from veilflow.tabular import encode, satisfied

SCHEMA = vf.Schema(
    first=vf.Numeric(0, 100, integer=True, nullable=True),
    last=vf.Numeric(-50, 1000, nullable=True),
    born=vf.Datetime("1900-01-01", "2000-01-01", resolution="day"),
    died=vf.Datetime("1950-01-01", "2050-01-01", nullable=True),
    status=vf.Categorical("single", "married"),
    spouse=vf.Boolean(nullable=True),
    city=vf.OpenCategorical(),
    constraints=[
        vf.AtMost("first", "last"),
        vf.AtMost("born", "died"),
        vf.Allowed(["spouse", "status"], [[None, "single"], [True, "married"], [False, "married"]]),
    ],
)
GOOD = {
    "first": 10,
    "last": 11.0,
    "born": "1960-01-01",
    "died": "1990-01-01",
    "status": "married",
    "spouse": True,
    "city": "Ulm",
}


def kept(**changes):
    frame = pd.DataFrame([{**GOOD, **changes}]).astype(object)
    return bool(satisfied(frame, SCHEMA)[0])


def test_rows_fulfill_all_constraints_or_not():
    assert kept()
    assert not kept(last=9.0)
    assert not kept(first=90, last=-50)
    assert not kept(died="1959-12-31")
    assert kept(died="1960-01-01")
    assert not kept(status="single")
    assert kept(status="single", spouse=None)
    assert not kept(status="married", spouse=None)


def test_a_missing_cell_is_neither_below_nor_above():
    assert kept(first=None, last=-50)
    assert kept(last=None)
    assert kept(died=None)


def test_encoded_rows_are_judged_by_what_they_decode_to():
    rows = encode(
        pd.DataFrame([GOOD, {**GOOD, "last": 9.5}, {**GOOD, "last": 10.5}]),
        SCHEMA,
        vocabularies={"city": ("Ulm",)},
    )
    mask = satisfied(rows, SCHEMA)
    np.testing.assert_array_equal(mask, [True, False, True])
    assert satisfied(rows.take(mask), SCHEMA).all()


def test_without_constraints_every_row_is_fine():
    schema = vf.Schema(a=vf.Boolean())
    assert satisfied(pd.DataFrame({"a": [True, False]}), schema).tolist() == [True, True]
    assert len(satisfied(pd.DataFrame({"a": []}), schema)) == 0
