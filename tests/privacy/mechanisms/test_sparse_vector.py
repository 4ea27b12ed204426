"""Sparse vector: the scales, the budget and the refusal."""

import copy
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from veilflow._core.errors import PrivacyError
from veilflow.privacy.events import PureDP
from veilflow.privacy.guarantees import Sensitive
from veilflow.privacy.mechanisms import SparseVector, _opendp, sparse_vector
from veilflow.privacy.unit import Adjacency


def test_clear_cases_are_answered_rightly_and_paid_once():
    sparse = SparseVector(threshold=500.0, sensitivity=1.0, epsilon=1.0, max_positives=2)
    answers = [sparse.above(Sensitive(x)) for x in (0.0, 10.0, 1000.0, -5.0, 2000.0)]
    # wrong only if noise of scale < 11 exceeds 250 somewhere: below 1e-9
    assert answers == [False, False, True, False, True]
    assert sparse.left == 0
    assert sparse.event == PureDP(1.0)


def test_it_refuses_after_its_positives_are_spent():
    sparse = SparseVector(threshold=0.0, sensitivity=1.0, epsilon=1.0, max_positives=2)
    assert sparse.event == PureDP(1.0)
    assert not sparse.above(Sensitive(-1e6))
    assert sparse.above(Sensitive(1e6))
    assert sparse.above(Sensitive(1e6))
    assert sparse.left == 0
    for value in (1e6, -1e6, math.nan):
        with pytest.raises(PrivacyError, match="spent"):
            sparse.above(Sensitive(value))


@pytest.mark.parametrize("positives", [1, 2, 10])
@pytest.mark.parametrize(
    ("adjacency", "moved"), [(Adjacency.ADD_REMOVE, 0.3), (Adjacency.REPLACE_ONE, 0.6)]
)
def test_noise_scales_are_those_of_the_proof(monkeypatch, positives, adjacency, moved):
    scales = []
    monkeypatch.setattr(
        _opendp, "discrete_laplace_noise", lambda *, scale: scales.append(scale) or 0
    )
    sparse = SparseVector(
        threshold=1.0, sensitivity=0.3, epsilon=0.8, max_positives=positives, adjacency=adjacency
    )
    sparse.above(Sensitive(0.0))
    sparse.above(Sensitive(0.0))
    threshold_scale, query_scale, again = np.array(scales) * sparse._unit
    assert query_scale == again
    # the spending of Lyu, Su and Li: sensitivity / scale on the threshold, twice per positive
    spent = moved / threshold_scale + 2 * positives * moved / query_scale
    assert 0.8 * (1 - 1e-5) < spent <= 0.8
    assert query_scale / threshold_scale == pytest.approx((2 * positives) ** (1 / 3), rel=1e-2)


def test_every_query_gets_fresh_noise():
    # Against a fixed threshold, equal queries must not all get one answer. 400 queries at the
    # threshold with P(above) well inside (0.01, 0.99) for all but 1e-4 of the noisy thresholds.
    mixed = 0
    for _ in range(10):
        sparse = SparseVector(threshold=0.0, sensitivity=1.0, epsilon=1.0, max_positives=400)
        mixed += len({sparse.above(Sensitive(0.0)) for _ in range(40)}) == 2
    assert mixed >= 9


@given(
    a=st.floats(),
    step=st.floats(-1, 1),
    sensitivity=st.sampled_from([1.0, 0.3, 7e-3, 1e10]),
)
def test_rounding_to_the_grid_keeps_the_sensitivity(a, step, sensitivity):
    sparse = SparseVector(threshold=0.0, sensitivity=sensitivity, epsilon=1.0)
    b = a + step * sensitivity
    if math.isfinite(a) and abs(b - a) <= sensitivity:
        one, two = (sparse_vector._on_grid(x, sparse._unit) for x in (a, b))
        assert abs(one - two) <= math.ceil(sensitivity / sparse._unit) + 1


@pytest.mark.parametrize("value", [math.nan, None, "x", -math.inf, -1e308])
def test_a_query_that_is_no_number_is_far_below(value):
    sparse = SparseVector(threshold=0.0, sensitivity=1.0, epsilon=1.0)
    assert sparse.above(Sensitive(value)) is False


def test_infinite_queries_are_above():
    sparse = SparseVector(threshold=0.0, sensitivity=1.0, epsilon=1.0, max_positives=2)
    assert sparse.above(Sensitive(math.inf)) is True
    assert sparse.above(Sensitive(1e308)) is True


def test_the_noisy_threshold_is_neither_copied_nor_shown():
    sparse = SparseVector(threshold=3.0, sensitivity=1.0, epsilon=1.0)
    with pytest.raises(TypeError, match="secret"):
        copy.copy(sparse)
    assert repr(sparse) == "SparseVector(max_positives=1, left=1)"
