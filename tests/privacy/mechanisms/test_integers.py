"""Counts, histograms, bounded sums and integer queries, on friendly and hostile records."""

import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import stats

from veilflow.privacy.events import PureDP, ZeroConcentrated
from veilflow.privacy.guarantees import Sensitive
from veilflow.privacy.mechanisms import count_records, discrete_gaussian, histogram
from veilflow.privacy.unit import Adjacency

FALSE_ALARM = 1e-9  # of every statistical test here: operating-system entropy has no seed to fix
ANYTHING = st.one_of(
    st.floats(width=32),
    st.floats(),
    st.none(),
    st.text(max_size=3),
    st.integers(),
    st.just(10**400),
    st.lists(st.integers(), max_size=2),
)
SHARED_FIXTURE = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def geometric_mass(k, epsilon):
    ratio = math.exp(-epsilon)
    return (1 - ratio) / (1 + ratio) * ratio ** np.abs(k)


def test_count_has_geometric_noise_and_pays_pure_epsilon():
    records = Sensitive(np.zeros(50))
    released = [count_records(records, epsilon=0.8) for _ in range(4000)]
    noise = np.array([r.value for r in released]) - 50
    k = np.arange(-5, 6)
    counts = np.array([np.sum(noise == i) for i in k] + [np.sum(np.abs(noise) > 5)])
    mass = geometric_mass(k, 0.8)
    expected = 4000 * np.append(mass, 1 - mass.sum())
    assert stats.chisquare(counts, expected).pvalue > FALSE_ALARM
    assert released[0].event == PureDP(0.8)


def test_histogram_gives_every_declared_cell_noise_and_drops_the_rest():
    values = Sensitive(["a"] * 1000 + ["b"] * 500 + ["undeclared"] * 99 + [math.nan, None, ["x"]])
    released = histogram(values, categories=("b", "a", "never"), epsilon=1.0)
    assert released.value.dtype == np.int64
    # the noise exceeds 40 with probability 2 exp(-40) per cell
    assert np.abs(released.value - [500, 1000, 0]).max() < 40
    assert released.event == PureDP(1.0)
    empty = [histogram(Sensitive([]), categories=(0, 1), epsilon=0.5).value for _ in range(40)]
    assert np.any(empty)


@SHARED_FIXTURE
@given(rows=st.lists(ANYTHING, max_size=6), extra=ANYTHING)
def test_a_record_moves_the_histogram_by_at_most_its_sensitivity(recorder, rows, extra):
    categories = ("", "a", 0, 1, 2.5)
    for adjacency, neighbor in (
        (Adjacency.ADD_REMOVE, [*rows, extra]),
        (Adjacency.REPLACE_ONE, [*rows[1:], extra] if rows else rows),
    ):
        recorder.take()
        for data in (rows, neighbor):
            histogram(Sensitive(data), categories=categories, epsilon=1.0, adjacency=adjacency)
        (one, sensitivity), (two, _) = recorder.take()
        assert np.abs(np.subtract(one, two)).sum() <= sensitivity


def test_discrete_gaussian_noise_has_its_scale_and_pays_concentrated_privacy():
    query = Sensitive(np.zeros((100, 100), dtype=np.int32))
    for adjacency, stddev in ((Adjacency.ADD_REMOVE, 6.0), (Adjacency.REPLACE_ONE, 12.0)):
        released = discrete_gaussian(
            query, sensitivity=2.0, noise_multiplier=3.0, adjacency=adjacency
        )
        noise = released.value
        assert noise.shape == (100, 100)
        assert noise.dtype == np.int64
        # six standard errors: false-alarm rate below 1e-8
        assert abs(noise.mean()) < 6.2 * stddev / 100
        assert abs(noise.var() / stddev**2 - 1) < 6.2 * math.sqrt(2) / 100
        assert isinstance(released.event, ZeroConcentrated)
        assert released.event.rho == pytest.approx(1 / 18, rel=1e-12)
        assert released.event.rho >= 1 / 18


def test_discrete_gaussian_survives_extreme_and_no_integers():
    extreme = np.array([2**63 - 1, -(2**63)], dtype=np.int64)
    for query in (extreme, np.array([2**64 - 1], np.uint64), np.zeros((0, 3), np.int64)):
        released = discrete_gaussian(Sensitive(query), sensitivity=1.0, noise_multiplier=1.0)
        assert released.value.shape == query.shape


def test_wrong_kinds_of_query_are_refused_whatever_the_records_are():
    with pytest.raises(TypeError, match="integers"):
        discrete_gaussian(Sensitive(np.zeros(2)), sensitivity=1.0, noise_multiplier=1.0)
    with pytest.raises(TypeError, match="Sensitive"):
        discrete_gaussian(np.zeros(2, int), sensitivity=1.0, noise_multiplier=1.0)  # pyright: ignore
    with pytest.raises(ValueError, match="epsilon"):
        count_records(Sensitive([]), epsilon=0.0)
    with pytest.raises(ValueError, match="categories"):
        histogram(Sensitive([]), categories=("a", "a"), epsilon=1.0)
