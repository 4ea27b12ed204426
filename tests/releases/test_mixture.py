"""DP-EM as a release: the price of its steps, their noise, and rows that are no numbers."""

import math
from dataclasses import replace

import numpy as np
import pytest

from veilflow._core.keys import Secret
from veilflow.privacy.events import Gaussian, NonPrivate, Repeated
from veilflow.privacy.guarantees import Released, Sensitive
from veilflow.releases.em import Mixture
from veilflow.releases.mixture import ExpectationMaximization, sizes
from veilflow.releases.release import Tools


def planned(noise: float, *, dim: int = 2, k: int = 2, steps: int = 12) -> ExpectationMaximization:
    return ExpectationMaximization(
        dim=dim, num_components=k, steps=steps, spread=1.0, noise_multiplier=noise
    )


def fitted(rows: np.ndarray, noise: float, *, seed: int = 0, **sizes_: int) -> Released[Mixture]:
    release = planned(noise, dim=rows.shape[1], **sizes_)
    released = release.run(Sensitive(rows), Tools(Secret.from_seed(seed)))
    return released.map(lambda value: release.result(value)[0])


def test_the_event_says_what_was_released():
    assert planned(3.0, k=1, steps=5).event == Repeated(5, Gaussian(3.0))
    rows = np.zeros((5, 2))
    assert fitted(rows, 3.0).event == planned(3.0).event == Repeated(12, Gaussian(3.0))
    assert fitted(rows, 0.0).event == planned(0.0).event == NonPrivate()


@pytest.mark.parametrize(("k", "steps"), [(1, 7), (8, 24), (50, 24), (3, 1)])
def test_shares_of_the_noise_add_up_to_that_of_equal_ones(k, steps):
    noises = planned(5.0, k=k, steps=steps).noise_multipliers(k)
    assert len(noises) == steps
    assert sum(noise**-2 for noise in noises) == pytest.approx(steps * 5.0**-2)
    assert math.fsum(noise**-2 for noise in noises) <= steps * 5.0**-2
    largest = np.argmax(sizes(k, steps))
    assert noises[largest] == min(noises)


def test_the_number_of_components_may_follow_from_a_released_number_of_records():
    release = replace(planned(5.0, k=20), records_per_component=100.0)
    numbers = (-50.0, 1.0, 740.0, 760.0, 1e9)
    assert [release.components(number) for number in numbers] == [2, 2, 7, 8, 20]
    with pytest.raises(ValueError, match="follows from num_records"):
        release.components(None)
    rows = Sensitive(np.random.default_rng(0).normal(size=(50, 2)))
    for number in numbers:
        released = release.run(rows, Tools(Secret.from_seed(0)), num_records=number)
        assert len(released.value["weights"]) == release.components(number)
        assert released.event == release.event  # whatever was counted


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan, 1e308])
def test_rows_that_are_no_numbers_cannot_spoil_a_release(bad):
    rows = np.random.default_rng(0).normal(size=(3000, 2))
    rows[0] = bad
    assert all(np.isfinite(part).all() for part in fitted(rows, 5.0).value)


def test_components_are_where_the_rows_are():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(6000, 2))
    rows[:3000] = 0.3 * rows[:3000] + [-2, 0]
    rows[3000:] += [2, 1]
    mixture = fitted(rows, 2.0, steps=24).value
    order = np.argsort(mixture.means[:, 0])
    np.testing.assert_allclose(mixture.means[order], [[-2, 0], [2, 1]], atol=0.15)
    np.testing.assert_allclose(mixture.weights, 0.5, atol=0.05)
    spreads = np.sqrt(np.trace(mixture.covariances[order], axis1=1, axis2=2) / 2)
    np.testing.assert_allclose(spreads, [0.3, 1.0], rtol=0.2)
