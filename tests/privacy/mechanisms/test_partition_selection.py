"""Partition selection: a category of one record stays inside, a common one comes out."""

import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import stats

from veilflow.privacy.events import ApproximateDP
from veilflow.privacy.guarantees import Sensitive
from veilflow.privacy.mechanisms import discover_categories
from veilflow.privacy.mechanisms.undeclared import threshold_for
from veilflow.privacy.unit import Adjacency

ANYTHING = st.one_of(
    st.floats(),
    st.none(),
    st.text(max_size=2),
    st.integers(-2, 2),
    st.booleans(),
    st.binary(max_size=1),
)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("adjacency", Adjacency)
def test_a_category_of_one_record_is_released_with_probability_at_most_delta(epsilon, adjacency):
    # 4,000 canaries per run, each the only record of its category, independent noise: 20,000 trials
    delta, released = 0.01, 0
    records = Sensitive([f"canary {i}" for i in range(4000)])
    for _ in range(5):
        found = discover_categories(records, epsilon=epsilon, delta=delta, adjacency=adjacency)
        released += len(found.value)
    # false-alarm rate 1e-9
    assert released <= stats.binom.ppf(1 - 1e-9, 20_000, delta)
    # and not far below, else the threshold wastes accuracy: one step less would break the promise
    rate = epsilon / 2 if adjacency is Adjacency.REPLACE_ONE else epsilon
    excess = threshold_for(epsilon=epsilon, delta=delta, adjacency=adjacency) - 1

    def passes(m):
        return math.exp(-rate * m) / (1 + math.exp(-rate))

    assert passes(excess) <= delta < passes(excess - 1)


def test_common_categories_come_out_with_their_counts_in_a_public_order():
    values = ["b"] * 500 + ["a"] * 800 + [3] * 400 + [math.nan, None, np.float64("nan")] * 200
    released = discover_categories(Sensitive(values), epsilon=1.0, delta=1e-6)
    assert [category for category, _ in released.value] == [None, 3, "a", "b"]
    exact = np.array([600, 400, 800, 500])
    assert np.abs(np.array([count for _, count in released.value]) - exact).max() < 40
    assert released.event == ApproximateDP(1.0, 1e-6)


def test_equal_categories_have_one_spelling_whatever_came_first():
    for values in ([0.0, -0.0] * 300, [-0.0, 0.0] * 300):
        ((category, _),) = discover_categories(Sensitive(values), epsilon=1.0, delta=1e-6).value
        assert repr(category) == "0.0"


@pytest.mark.parametrize("adjacency", Adjacency)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(ANYTHING, max_size=6), extra=ANYTHING)
def test_a_record_moves_the_counts_by_at_most_the_sensitivity(recorder, adjacency, rows, extra):
    neighbor = [*rows, extra] if adjacency is Adjacency.ADD_REMOVE else [*rows[1:], extra]
    if adjacency is Adjacency.REPLACE_ONE and not rows:
        return
    recorder.take()
    for data in (rows, neighbor):
        discover_categories(Sensitive(data), epsilon=1.0, delta=0.1, adjacency=adjacency)
    (one, sensitivity), (two, _) = recorder.take()
    # counts are per category; sorted they can only be closer
    size = max(len(one), len(two))
    padded = [np.sort(np.pad(np.array(x, int), (size - len(x), 0))) for x in (one, two)]
    assert np.abs(padded[0] - padded[1]).sum() <= sensitivity
    assert sum(two) - sum(one) == (1 if adjacency is Adjacency.ADD_REMOVE else 0)


def test_no_records_no_categories():
    assert discover_categories(Sensitive([]), epsilon=1.0, delta=1e-6).value == ()
    assert discover_categories(Sensitive(np.array([])), epsilon=1.0, delta=1e-6).value == ()


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0.0, 0.1), (1.0, 0.0), (1.0, 1.0), (math.nan, 0.1)]
)
def test_parameters_that_promise_nothing_are_refused(epsilon, delta):
    with pytest.raises(ValueError, match=r"epsilon|delta"):
        discover_categories(Sensitive(["a"]), epsilon=epsilon, delta=delta)
