"""The door of all starts: the noise that was promised, whatever the sum."""

import jax
import numpy as np
import pytest

from tests.models.start.releases import assert_standard
from veilflow._core.keys import Secret
from veilflow.models.start.release import release
from veilflow.privacy.events import Gaussian, NonPrivate
from veilflow.privacy.guarantees import ClippedSum

SIZE = 20_000
both = pytest.mark.parametrize("hardened", [False, True], ids=["float", "hardened"])


def noisy(total, *, noise_multiplier=2.0, clip_norm=1.5, seed=0, hardened=False):
    return release(
        ClippedSum(total, clip_norm),
        noise_multiplier=noise_multiplier,
        key=Secret.from_seed(seed).key("test"),
        hardened=hardened,
    )


@both
def test_noise_has_the_promised_deviation_and_the_event_says_so(hardened):
    found = noisy(np.zeros((SIZE // 4, 4)), hardened=hardened)
    assert found.event == Gaussian(2.0)
    assert found.value.shape == (SIZE // 4, 4)
    # the grid of a hardened release takes up to 0.1 % more
    assert_standard(found.value.ravel() / 3.0 / (1.0005 if hardened else 1))


@both
def test_no_two_numbers_and_no_two_releases_share_noise(hardened):
    one, two = (noisy(np.zeros(SIZE), seed=seed, hardened=hardened).value for seed in (0, 1))
    assert abs(np.corrcoef(one, two)[0, 1]) < 5 / SIZE**0.5
    assert abs(np.corrcoef(one[1:], one[:-1])[0, 1]) < 5 / SIZE**0.5


def test_a_key_repeats_its_noise_unless_the_release_is_hardened():
    total = np.arange(5.0)
    np.testing.assert_array_equal(noisy(total).value, noisy(total).value)
    same = noisy(total, hardened=True).value == noisy(total, hardened=True).value
    assert not same.any()


@both
def test_sums_far_beyond_the_noise_do_not_saturate(hardened):
    total = np.array([1e9, -1e9, 3e5, 0.0])
    found = noisy(total, hardened=hardened).value
    np.testing.assert_allclose(found, total, atol=3.0 * 6 + 128)  # 128: float32 at 1e9, both ways


@both
def test_a_row_is_not_rounded_away_before_the_noise_comes(hardened):
    """2^26 + 1 is no float32: a sum that passed through one would not know its last row."""
    found = noisy(np.full(SIZE, 2.0**26 + 1), noise_multiplier=8.0, hardened=hardened).value
    deviation = 12 / SIZE**0.5
    assert np.mean(np.float64(found) - 2.0**26) == pytest.approx(1.0, abs=5 * deviation)
    assert 5 * deviation < 0.5


def test_digits_finer_than_the_noise_do_not_come_out():
    """Noise is float32; added to a double it would leave the digits below those of the noise bare."""
    assert noisy(np.full(3, 1 / 3)).value.dtype == np.float32
    grid = noisy(np.full(SIZE, 1 / 3), hardened=True).value
    spacing = np.unique(np.abs(grid))[1:] - np.unique(np.abs(grid))[:-1]
    steps = spacing / spacing.min()
    np.testing.assert_array_equal(steps, np.round(steps))


@both
def test_a_broken_sum_still_comes_out_as_noise(hardened):
    found = noisy(np.array([np.nan, np.inf, -np.inf, 1.0]), hardened=hardened).value
    assert np.isfinite(found).all()
    assert np.abs(found).max() < 50


def test_without_noise_the_sum_comes_out_and_the_event_confesses():
    total = np.array([1 / 3, 2.0**53])
    found = noisy(total, noise_multiplier=0.0)
    assert found.event == NonPrivate()
    np.testing.assert_array_equal(found.value, total)


@both
@pytest.mark.parametrize("noise_multiplier", [-1.0, np.nan, np.inf])
def test_a_noise_that_is_none_is_refused(hardened, noise_multiplier):
    with pytest.raises(ValueError, match="noise_multiplier"):
        noisy(np.zeros(3), noise_multiplier=noise_multiplier, hardened=hardened)


def test_a_key_is_spent_by_a_release_with_its_noise_and_left_alone_by_a_hardened_one():
    query, key = ClippedSum(np.zeros(2), 1.0), Secret.from_seed(0).key("test")
    release(query, noise_multiplier=1.0, key=key, hardened=True)
    release(query, noise_multiplier=1.0, key=key)
    with pytest.raises(jax.errors.KeyReuseError):
        release(query, noise_multiplier=1.0, key=key)
