"""The minimum of logistic regression, and how far one record moves it, whatever that record holds."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reproductions.expm_nf.baselines import convex

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


def test_where_double_precision_ends_the_best_point_is_the_answer_and_nothing_is_raised():
    exact = convex.minimum(signed_rows(), regularization=1.0, tolerance=1e-12)
    found = convex.minimum(signed_rows(), regularization=1.0, tolerance=-1.0)
    np.testing.assert_allclose(found, exact, atol=1e-12)


@pytest.mark.parametrize("pull", [1e-300, 1e-20, 1e-9, 1e9])
@pytest.mark.parametrize("kind", ["none", "one", "the same", "alike columns", "zeros", "many"])
def test_no_records_make_the_minimum_fail(kind, pull):
    rows = {
        "none": np.empty((0, 3)),
        "one": np.ones((1, 3)),
        "the same": np.tile([[1.0, -1.0, 1.0]], (500, 1)),
        "alike columns": np.repeat(signed_rows()[:, :1], 3, axis=1),  # a singular curvature
        "zeros": np.zeros((5, 3)),
        "many": np.tile(signed_rows(), (2500, 1)),
    }[kind]
    found = convex.minimum(rows, regularization=pull, tolerance=1e-7)
    assert found.shape == (3,)
    assert np.isfinite(found).all()
    if pull >= 1e-9 and kind != "many":
        slope = convex.gradient(found, rows, regularization=pull)
        assert np.linalg.norm(slope) <= 1e-7


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
    norm = convex.radius(WIDTH - 1)
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


def test_no_row_is_longer_than_a_corner():
    corner = convex.with_one(np.ones((1, 8)))
    assert np.linalg.norm(corner) == convex.radius(8) == 3
