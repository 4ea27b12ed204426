"""Values of the log-likelihood: exact without noise, limited, and of known deviation."""

import numpy as np
import pytest

from tests.models.posterior import line
from veilflow._core.keys import Secret
from veilflow.privacy.guarantees import Sensitive
from veilflow.releases.release import Tools
from veilflow.releases.rounds.values import LikelihoodValues

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
