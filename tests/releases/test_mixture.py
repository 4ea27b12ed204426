"""DP-EM as a release: the price of its steps, their noise, and rows that are no numbers."""

import numpy as np
import pytest

from veilflow._core.keys import Secret
from veilflow.privacy.events import Gaussian, NonPrivate, Repeated, Together
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
    release = planned(3.0, k=1, steps=5)
    assert release.event == Together((Repeated(5, Gaussian(3.0)),))
    rows = np.zeros((5, 2))
    event = fitted(rows, 3.0).event
    assert event == planned(3.0).event
    steps = [(one.times, one.event.noise_multiplier) for one in event.events]
    assert [noise for times, noise in steps for _ in range(times)] == list(
        planned(3.0).noise_multipliers
    )
    assert fitted(rows, 0.0).event == planned(0.0).event == NonPrivate()


@pytest.mark.parametrize(("k", "steps"), [(1, 7), (8, 24), (50, 24), (3, 1)])
def test_shares_of_the_noise_add_up_to_that_of_equal_ones(k, steps):
    noises = planned(5.0, k=k, steps=steps).noise_multipliers
    assert len(noises) == steps
    assert sum(noise**-2 for noise in noises) == pytest.approx(steps * 5.0**-2)
    largest = np.argmax(sizes(k, steps))
    assert noises[largest] == min(noises)


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
