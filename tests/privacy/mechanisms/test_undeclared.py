"""Bounds and categories that nobody declared: what one record holds stays inside."""

import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import stats

from veilflow.privacy.events import ApproximateDP, PureDP
from veilflow.privacy.guarantees import Sensitive
from veilflow.privacy.mechanisms import discover_categories, private_bounds
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


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(100.0, 200.0, (64, 256)), (-5.0, 3.0, (-8, 4)), (0.01, 0.02, (2**-7, 2**-5))],
)
def test_bounds_are_found_within_a_factor_of_two(low, high, expected):
    values = np.random.default_rng(2).uniform(low, high, 50_000)
    released = private_bounds(Sensitive(values), epsilon=1.0)
    assert released.value == expected
    assert released.event == PureDP(1.0)


def test_bounds_ignore_a_few_wild_records_and_are_always_in_order():
    values = np.append(np.random.default_rng(3).uniform(1.1, 1.9, 50_000), [1e300, np.inf, -1e30])
    assert private_bounds(Sensitive(values), epsilon=1.0).value == (1, 2)
    for data in ([], [np.nan] * 1000, [0.0] * 1000, [np.inf] * 1000, ["text"]):
        lower, upper = private_bounds(Sensitive(data), epsilon=1.0).value
        assert np.isfinite(lower)
        assert np.isfinite(upper)
        assert lower < upper


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(ANYTHING, max_size=6), extra=ANYTHING)
def test_a_record_moves_the_cells_behind_the_bounds_by_at_most_the_sensitivity(
    recorder, rows, extra
):
    for adjacency, neighbor in (
        (Adjacency.ADD_REMOVE, [*rows, extra]),
        (Adjacency.REPLACE_ONE, [*rows[1:], extra] if rows else rows),
    ):
        recorder.take()
        for data in (rows, neighbor):
            private_bounds(Sensitive(data), epsilon=1.0, adjacency=adjacency)
        (one, sensitivity), (two, _) = recorder.take()
        assert np.abs(np.subtract(one, two)).sum() <= sensitivity


def test_bounds_with_impossible_settings_are_refused():
    for settings_ in ({"failure": 0.0}, {"smallest": 2.0, "largest": 1.0}, {"largest": 1e306}):
        with pytest.raises(ValueError, match=r"failure|smallest|magnitudes"):
            private_bounds(Sensitive([1.0]), epsilon=1.0, **settings_)  # pyright: ignore


def test_bounds_reach_the_largest_magnitude_also_between_powers_of_two():
    values = np.random.default_rng(3).uniform(2.1, 2.9, 50_000)
    assert private_bounds(Sensitive(values), epsilon=1.0, largest=3.0).value == (2, 4)
