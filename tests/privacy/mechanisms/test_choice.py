"""The exponential mechanism and quantiles."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.special import softmax

from veilflow.privacy.events import ExponentialMechanism, Repeated
from veilflow.privacy.guarantees import Sensitive
from veilflow.privacy.mechanisms import choose, quantile, quantiles
from veilflow.privacy.unit import Adjacency

FALSE_ALARM = 1e-9  # of every statistical test here: operating-system entropy has no seed to fix
ANYTHING = st.one_of(st.floats(width=32), st.floats(), st.none(), st.text(max_size=3))
SHARED_FIXTURE = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.mark.parametrize(
    ("options", "factor"),
    [({}, 2), ({"monotonic": True}, 1), ({"adjacency": Adjacency.REPLACE_ONE}, 4)],
)
def test_choice_follows_the_exponential_law(options, factor):
    utilities = np.array([0.0, 1.0, 2.5, -3.0])
    released = [
        choose(Sensitive(utilities), sensitivity=0.5, epsilon=0.7, **options) for _ in range(4000)
    ]
    counts = np.bincount([r.value for r in released], minlength=4)
    expected = 4000 * softmax(0.7 * utilities / (factor * 0.5))
    assert stats.chisquare(counts, expected).pvalue > FALSE_ALARM
    assert released[0].event == ExponentialMechanism(0.7)


def test_utilities_that_are_no_numbers_count_as_the_lowest():
    utilities = np.array([np.nan, -np.inf, 0.0, -1e308])
    chosen = {choose(Sensitive(utilities), sensitivity=1.0, epsilon=1.0).value for _ in range(50)}
    assert chosen == {2}
    many = choose(
        Sensitive(np.array([np.nan, 5.0])), sensitivity=1.0, epsilon=20.0, lowest=6.0
    ).value
    assert many in (0, 1)


def test_all_candidates_useless_is_a_uniform_choice():
    chosen = [
        choose(Sensitive(np.full(4, np.nan)), sensitivity=1.0, epsilon=1.0).value
        for _ in range(2000)
    ]
    assert stats.chisquare(np.bincount(chosen, minlength=4)).pvalue > FALSE_ALARM


def test_a_function_computes_utilities_behind_the_door():
    records = Sensitive(np.arange(1000) % 3 == 0)
    released = choose(
        records, utility_fn=lambda r: [r.sum(), (~r).sum()], sensitivity=1.0, epsilon=1.0
    )
    assert released.value == 1  # 667 against 333: wrong with probability exp(-167)


def test_a_monotonic_choice_is_refused_for_replacement_and_an_empty_one_always():
    with pytest.raises(ValueError, match="monotonic"):
        choose(
            Sensitive([1.0]),
            sensitivity=1.0,
            epsilon=1.0,
            monotonic=True,
            adjacency=Adjacency.REPLACE_ONE,
        )
    with pytest.raises(ValueError, match="candidate"):
        choose(Sensitive([]), sensitivity=1.0, epsilon=1.0)


@SHARED_FIXTURE
@given(
    rows=st.lists(ANYTHING, max_size=6),
    extra=ANYTHING,
    probability=st.sampled_from([0.0, 0.1, 0.5, 0.75, 1.0]),
)
def test_a_record_moves_quantile_utilities_by_at_most_what_the_noise_is_for(
    recorder, rows, extra, probability
):
    for adjacency, neighbor in (
        (Adjacency.ADD_REMOVE, [*rows, extra]),
        (Adjacency.REPLACE_ONE, [*rows[1:], extra] if rows else rows),
    ):
        recorder.take()
        for data in (rows, neighbor):
            released = quantile(
                Sensitive(data),
                probability=probability,
                lower=-1.0,
                upper=2.0,
                epsilon=0.5,
                num_candidates=13,
                adjacency=adjacency,
            )
            assert -1.0 <= released.value <= 2.0
        (one, scale), (two, _) = recorder.take()
        assert np.abs(np.subtract(one, two)).max() <= 0.5 * scale / 2


def test_quantiles_are_accurate_in_order_and_paid_in_equal_parts():
    rng = np.random.default_rng(1)
    values = rng.normal(size=20_000)
    probabilities = (0.9, 0.1, 0.5)
    released = quantiles(
        Sensitive(values), probabilities=probabilities, lower=-10, upper=10, epsilon=1.0
    )
    # rank error above 2 * 3 * (log 4096 + 22) = 182 of 20,000 has probability below 3e-10
    ranks = np.searchsorted(np.sort(values), released.value) / values.size
    np.testing.assert_allclose(ranks, probabilities, atol=0.015)
    assert released.event == Repeated(3, ExponentialMechanism(1.0 / 3))
    one = quantile(Sensitive(values), probability=0.5, lower=-10, upper=10, epsilon=1.0)
    assert abs(one.value) < 0.05
    assert one.event == ExponentialMechanism(1.0)


def test_quantiles_of_few_or_hostile_records_stay_within_the_bounds():
    for data in ([], [np.nan], [np.inf, -np.inf, 1e308, 5e-324], [None, "x"]):
        released = quantiles(
            Sensitive(data), probabilities=(0, 0.5, 1), lower=2, upper=3, epsilon=0.1
        )
        assert np.all((released.value >= 2) & (released.value <= 3))
        assert np.all(np.diff(released.value) >= 0)


@pytest.mark.parametrize(
    ("values", "settings", "message"),
    [
        (np.zeros((2, 2)), {}, "one column"),
        (np.zeros(2), {"lower": 1}, "lower"),
        (np.zeros(2), {"default": 2.0}, "default"),
    ],
)
def test_columns_and_bounds_that_cannot_be_are_refused(values, settings, message):
    settings = {"probability": 0.5, "lower": 0, "upper": 1, "epsilon": 1.0, **settings}
    with pytest.raises(ValueError, match=message):
        quantile(Sensitive(values), **settings)


@pytest.mark.parametrize("probability", [-0.1, 1.1, float("nan")])
def test_probabilities_outside_zero_to_one_are_refused(probability):
    with pytest.raises(ValueError, match="probability"):
        quantile(Sensitive([1.0]), probability=probability, lower=0, upper=1, epsilon=1.0)
