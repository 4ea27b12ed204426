"""Values of the log-likelihood: exact without noise, limited, and of known deviation."""

import jax.numpy as jnp
import numpy as np
import pytest

from tests.models.posterior import line
from tests.releases.registry import HOSTILE_POINTS
from veilflow._core.keys import Secret
from veilflow.privacy.guarantees import Sensitive
from veilflow.releases.release import Tools
from veilflow.releases.rounds.statistics import BINS
from veilflow.releases.rounds.values import LikelihoodValues, clipped_values, value_lengths

RECORDS = line.records(700)
POINTS = np.random.default_rng(2).standard_normal((5, 2))
WEIGHTS = np.array([1.0, 0.5, 1.0, 0.25, 1.0])


def asked(noise, records=RECORDS, *, seed=0, **known):
    release = LikelihoodValues(num_points=5, noise_multiplier=noise)
    known = {"points": POINTS, "weights": WEIGHTS, **known}
    tools = Tools(Secret.from_seed(seed))
    likelihood = {"log_likelihood": line.log_likelihood}
    return release.result(release.run(Sensitive(records), tools, **likelihood, **known).value)


def exact(points):
    x, y = map(np.float64, RECORDS)
    return np.array([line.log_likelihood(theta, (x, y)).sum() for theta in points])


def test_without_noise_differences_of_values_are_exact():
    found = asked(0.0)
    assert found.significant
    values, right = found.values - found.values[0], exact(POINTS) - exact(POINTS)[0]
    np.testing.assert_allclose(values, right, rtol=1e-3)
    assert not found.deviations.any()


def test_the_noise_has_the_deviation_that_is_told():
    plain = asked(0.0).values
    drawn = [asked(1.0, seed=seed) for seed in range(60)]
    off = np.array([(one.values - plain) / one.deviations for one in drawn])
    # the bound depends on noise, and may cut a little; the center of each record is the same
    assert np.std(off - off.mean(axis=0)) == pytest.approx(1.0, abs=0.2)
    ratio = drawn[0].deviations / drawn[0].deviations[0]
    np.testing.assert_allclose(ratio, WEIGHTS[0] / WEIGHTS)


def test_a_limit_keeps_a_far_point_from_setting_the_bound():
    far = POINTS.copy()
    far[3] = 1e3
    limited, free = (asked(1.0, points=far, limit=limit) for limit in (5.0, np.inf))
    assert limited.deviations[0] < 0.01 * free.deviations[0]
    assert limited.values[3] < limited.values[0] - 100  # and it looks hopeless all the same


def test_noise_alone_is_not_significant():
    assert not asked(500.0).significant


def test_points_are_as_many_as_were_planned():
    with pytest.raises(ValueError, match="5 points"):
        asked(1.0, points=POINTS[:3], weights=WEIGHTS[:3])


def beyond_one_is_nothing(theta, record):
    return jnp.where(jnp.abs(theta[0]) > 1.0, jnp.nan, line.log_likelihood(theta, record))


def question(records, *, log_likelihood=line.log_likelihood, limit=np.inf, points=POINTS):
    settings = {"points": points, "weights": WEIGHTS, "limit": limit}
    return (log_likelihood, Sensitive(records)), settings


def with_one_more(hostile, number=20):
    records = line.records(number)
    return records, [np.append(a, np.float32(one)) for a, one in zip(records, hostile, strict=True)]


@pytest.mark.parametrize("limit", [1e-6, 5.0, 1e30, np.inf])
@pytest.mark.parametrize("bound", [1e-6, 1.0, 1e30])
@pytest.mark.parametrize("hostile", HOSTILE_POINTS.values(), ids=HOSTILE_POINTS)
def test_no_record_moves_the_sum_by_more_than_one(hostile, bound, limit):
    sums = []
    for records in with_one_more(hostile):
        given, settings = question(tuple(records), limit=limit)
        sums.append(clipped_values(*given, bound=bound, **settings))
    assert all(one.clip_norm == 1.0 for one in sums)
    # sums of float32 differ by their rounding
    assert np.linalg.norm(sums[1].total - sums[0].total) <= 1 + 1e-5


@pytest.mark.parametrize("hostile", HOSTILE_POINTS.values(), ids=HOSTILE_POINTS)
def test_a_record_is_counted_once_whatever_its_length(hostile):
    counts = []
    for records in with_one_more(hostile):
        given, settings = question(tuple(records), limit=5.0)
        counts.append(value_lengths(*given, **settings).total)
    added = counts[1] - counts[0]
    assert added.shape == (BINS,)
    assert sorted(added)[-2:] == [0.0, 1.0]
    assert added.min() == 0.0


@pytest.mark.parametrize("number", [0, 1, 511, 512, 513, 1025])
def test_padding_is_no_record(number):
    given, settings = question(line.records(number))
    assert value_lengths(*given, **settings).total.sum() == number
    if not number:
        assert not clipped_values(*given, bound=1.0, **settings).total.any()


def test_parameters_without_a_likelihood_are_impossible_and_the_records_count():
    points = np.array([[0.5, -1.0], [0.6, -1.0], [2.0, 0.0], [0.4, -0.5], [0.0, 0.0]])
    given, settings = question(
        RECORDS, log_likelihood=beyond_one_is_nothing, limit=50.0, points=points
    )
    found = clipped_values(*given, bound=1e6, **settings).total * 1e6 / WEIGHTS
    found -= found[0]
    right = exact(points)
    others = [0, 1, 3, 4]
    np.testing.assert_allclose(found[others], (right - right[0])[others], rtol=1e-2, atol=0.5)
    assert found[2] == pytest.approx(-50.0 * len(RECORDS[0]), rel=1e-3)


def test_a_record_that_says_nothing_at_the_first_point_adds_nothing():
    points = POINTS.copy()
    points[0, 0] = 2.0
    given, settings = question(
        RECORDS, log_likelihood=beyond_one_is_nothing, limit=50.0, points=points
    )
    assert not clipped_values(*given, bound=1.0, **settings).total.any()
