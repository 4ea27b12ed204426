"""Lessons about facts of the data: sizes, bounds, categories, values that are none."""

import numpy as np
import pytest

import veilflow as vf
from tests.lessons import small
from veilflow import audit
from veilflow.privacy.guarantees import Sensitive
from veilflow.privacy.mechanisms.undeclared import discover_categories
from veilflow.releases.training import PrivateTraining
from veilflow.tabular.codec import encode
from veilflow.tabular.io import read_rows


def test_d01_the_number_of_records_is_in_no_public_quantity():
    one, two = (small.fitted(name).to_artifact() for name in ("table", "extreme"))
    assert one.manifest == two.manifest  # rate, divisor and steps among them
    assert one.ledger == two.ledger
    assert one.guarantee == two.guarantee
    rate = small.estimator().training.sampling_rate
    (training,) = one.manifest["plan"]["releases"]
    assert training["settings"]["sampling_rate"] == rate
    # the divisor follows from the declared number, whatever is in the file
    assert len(small.TABLE) == 37
    for declared in (1000, 37):
        release = small.estimator(num_records=declared).plan(2).release(PrivateTraining)
        assert release.sampling_rate == rate
        assert release.plan(declared).expected_batch_size == rate * declared


def test_d02_noise_is_for_the_sum_and_divided_by_the_public_batch_size():
    nobody = small.moved(small.ROWS, rate=2.0**-31)
    expected = small.NOISE * small.CLIP / small.BATCH
    # 660 entries: a standard deviation is off by 3 %
    assert np.std(small.flat(nobody)) == pytest.approx(expected, rel=0.15)
    twice = small.moved(np.concatenate([small.ROWS, small.ROWS]), rate=2.0**-31)
    np.testing.assert_array_equal(small.flat(nobody), small.flat(twice))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e38, 1e-40])
def test_d03_nan_and_infinity_do_not_pass_the_clip(value):
    hostile = np.zeros((8, 3), np.float32)
    hostile[3] = value
    without = np.zeros((8, 3), np.float32)
    everybody, others = np.ones(8, bool), np.arange(8) != 3
    share = small.clipped_sum(hostile, everybody) - small.clipped_sum(without, others)
    assert np.isfinite(share).all()
    assert np.linalg.norm(share) <= small.CLIP
    if not np.isfinite(value):
        assert np.linalg.norm(share) == 0  # all of the example, not its bad elements
    released = small.flat(small.moved(hostile))
    assert np.isfinite(released).all()
    assert np.std(released) > 0.1  # and noise is still there


def test_d03_at_the_door_nan_is_refused_by_column_and_no_value_is_shown():
    rows = small.TABLE.copy()
    rows[5, 1] = np.nan
    with pytest.raises(ValueError, match="column 2 of 2 has missing cells") as error:
        read_rows(rows)
    assert not any(f"{cell:.3f}" in str(error.value) for cell in rows[5:6, 0])


def test_d04_bounds_are_declared_and_not_fitted():
    fits = {id(rows): name for name, rows in (("table", small.TABLE), ("extreme", small.EXTREME))}
    fit = lambda rows: small.fitted(fits[id(rows)])  # noqa: E731
    assert audit.unpaid_differences(fit, small.TABLE, small.EXTREME) == ()
    with pytest.raises(ValueError, match="bounds"):
        vf.DensityFlow(budget=small.BUDGET)
    schema = vf.Schema(a=vf.Numeric())
    with pytest.raises((ValueError, vf.PrivacyError)):
        encode(_frame(a=[1.0, 5.0]), schema)


def test_d05_a_category_of_one_person_is_released_with_probability_delta_at_most():
    epsilon, delta, runs = 1.0, 0.05, 2000
    values = Sensitive(np.array(["common"] * 60 + ["unique"]), description="category")
    found = [
        {name for name, _ in discover_categories(values, epsilon=epsilon, delta=delta).value}
        for _ in range(runs)
    ]
    assert all("common" in names for names in found)
    released = sum("unique" in names for names in found)
    # more than this happens once in 10^6 times at probability delta
    assert released <= runs * delta + 5 * (runs * delta) ** 0.5


def test_d05_missing_cells_and_constant_columns_are_declared_and_not_looked_at():
    schema = vf.Schema(a=vf.Categorical("x", "y", nullable=True), b=vf.Categorical("p", "q"))
    tables = {"gap": ["x", None, "y"], "none": ["x", "x", "y"]}
    codes = {name: encode(_frame(a=a, b=["q"] * 3), schema).codes for name, a in tables.items()}
    # the code of a missing cell is there whether or not a cell is missing, and no other code moves
    np.testing.assert_array_equal(codes["gap"][[0, 2]], codes["none"][[0, 2]])
    assert codes["gap"][1, 0] not in codes["none"][:, 0]
    # a constant column keeps the place of its value in the declared list
    assert set(codes["none"][:, 1]) == {1}


def _frame(**columns):
    import pandas as pd

    return pd.DataFrame(columns)
