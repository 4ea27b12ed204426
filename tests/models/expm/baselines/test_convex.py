"""The minimum of logistic regression, and how far one record moves it, whatever that record holds."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from veilflow._core.errors import VeilflowError
from veilflow.models.domain import Ball, Box
from veilflow.models.expm.baselines import convex

NUM, WIDTH = 40, 3


def signed_rows(seed=0):
    rng = np.random.default_rng(seed)
    rows = convex.with_one(rng.uniform(-1, 1, (NUM, WIDTH - 1)))
    return convex.signed(rows, rng.integers(0, 2, NUM))


@pytest.mark.parametrize("pull", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("tilt", [None, [30.0, -4.0, 1.0]])
def test_the_minimum_has_no_gradient(pull, tilt):
    rows = signed_rows()
    tilt = None if tilt is None or pull < 0.1 else np.array(tilt)
    found = convex.minimum(rows, regularization=pull, tolerance=1e-9, tilt=tilt)
    slope = pull * found - (rows / (1 + np.exp(rows @ found))[:, None]).sum(axis=0)
    assert np.linalg.norm(slope + (0 if tilt is None else tilt)) < 1e-8


def test_separable_records_have_a_minimum_all_the_same():
    rows = np.tile([[0.5, 1.0]], (30, 1))
    found = convex.minimum(rows, regularization=1e-4, tolerance=1e-9)
    assert np.isfinite(found).all()
    assert found[1] > 5


def test_what_is_not_reached_is_not_returned():
    with pytest.raises(VeilflowError, match="larger regularization"):
        convex.minimum(signed_rows(), regularization=1.0, tolerance=-1.0)


@settings(max_examples=40, deadline=None)
@given(
    row=st.lists(
        st.floats(allow_nan=True, allow_infinity=True), min_size=WIDTH - 1, max_size=WIDTH - 1
    ),
    label=st.integers(0, 1),
    pull=st.sampled_from([0.01, 1.0, 50.0]),
    seed=st.integers(0, 3),
)
def test_a_hostile_record_moves_the_minimum_by_no_more_than_the_bound(row, label, pull, seed):
    norm = convex.radius(Box.declared((-1, 1)), WIDTH - 1)
    joining = convex.bounded(np.array([row]), norm=norm)
    assert np.linalg.norm(joining) <= norm
    rows = signed_rows(seed)
    more = np.concatenate([rows, convex.signed(joining, np.array([label]))])
    before, after = (
        convex.minimum(each, regularization=pull, tolerance=1e-9) for each in (rows, more)
    )
    assert np.linalg.norm(after - before) <= convex.gradient_bound(norm) / pull + 1e-6


def test_the_bound_on_curvature_holds_and_is_met():
    # at z = 0 the loss bends by a quarter
    row = np.array([1.0, -1.0, 1.0])
    bend = np.linalg.eigvalsh(0.25 * np.outer(row, row)).max()
    assert bend == pytest.approx(convex.curvature_bound(np.linalg.norm(row)))


def test_a_ball_has_one_radius_and_a_box_that_of_its_corners():
    assert convex.radius(Ball(7.0), 100) == pytest.approx(math.sqrt(2))
    assert convex.radius(Box.declared((0, 9)), 8) == pytest.approx(3)
