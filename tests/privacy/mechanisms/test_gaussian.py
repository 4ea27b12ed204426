"""Gaussian noise on clipped sums: on the device step by step, on the host once."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from veilflow._core.keys import Secret
from veilflow._core.threefry import KEY_WORDS
from veilflow.privacy.events import Gaussian, NonPrivate
from veilflow.privacy.grid_noise import GridNoise, grid_for
from veilflow.privacy.guarantees import ClippedSum
from veilflow.privacy.mechanisms import gaussian, gaussian_once
from veilflow.privacy.unit import Adjacency

ZEROS = {"weight": jnp.zeros((300, 300)), "bias": jnp.zeros(90_000), "again": jnp.zeros(90_000)}
SIZE = 20_000


def words(steps: int = 1, seed: int = 0) -> np.ndarray:
    return Secret.from_seed(seed).words("noise", 0, steps, size=KEY_WORDS)


def released(total, *, clip_norm=1.0, noise_multiplier=1.0, adjacency=Adjacency.ADD_REMOVE):
    size = sum(leaf.size for leaf in jax.tree.leaves(total))
    grid = grid_for(
        clip_norm, noise_multiplier=noise_multiplier, num_coordinates=size, adjacency=adjacency
    )
    query = ClippedSum(total, clip_norm)
    return gaussian(query, noise=GridNoise.on(grid), words=words()[0], adjacency=adjacency)


@pytest.mark.parametrize(
    ("adjacency", "sensitivity"), [(Adjacency.ADD_REMOVE, 2.5), (Adjacency.REPLACE_ONE, 5.0)]
)
def test_noise_scales_with_the_sensitivity_of_the_adjacency(adjacency, sensitivity):
    found = released(ZEROS, clip_norm=2.5, noise_multiplier=1.2, adjacency=adjacency)
    for leaf in jax.tree.leaves(found.value):
        # 90,000 draws: one percent is 4.2 standard errors; the key is fixed
        assert np.std(leaf) == pytest.approx(1.2 * sensitivity, rel=0.01)
        assert abs(np.mean(leaf)) < 0.02 * 1.2 * sensitivity
    assert found.event == Gaussian(1.2)


def test_noise_is_independent_across_tensors_and_steps():
    grid = grid_for(1.0, noise_multiplier=1.0, num_coordinates=270_000)

    def step(noise, key):
        return noise, gaussian(ClippedSum(ZEROS, 1.0), noise=noise, words=key).value

    _, found = jax.jit(lambda n, keys: jax.lax.scan(step, n, keys))(GridNoise.on(grid), words(2))
    rows = np.concatenate([np.asarray(leaf).reshape(2, -1) for leaf in jax.tree.leaves(found)])
    correlation = np.corrcoef(rows) - np.eye(len(rows))
    assert rows.shape == (6, 90_000)
    assert np.abs(correlation).max() < 5 / np.sqrt(90_000)


def test_the_sum_itself_is_inside_and_types_are_kept():
    total = {"a": jnp.full(3, 1e2), "b": (jnp.ones((), jnp.float16), None)}
    found = released(total, noise_multiplier=1.0).value
    np.testing.assert_allclose(found["a"], 1e2, atol=7)
    assert found["b"][0].dtype == jnp.float16
    assert found["b"][1] is None


def test_a_sum_that_broke_its_contract_still_comes_out_finite():
    total = jnp.array([jnp.nan, jnp.inf, -jnp.inf, 1e-45, 3e38])
    assert np.all(np.isfinite(released(total).value))


def test_a_grid_for_less_sensitivity_is_refused():
    noise = GridNoise.on(grid_for(1.0, noise_multiplier=1.0, num_coordinates=2))
    query = ClippedSum(jnp.zeros(2), clip_norm=1.0)
    with pytest.raises(ValueError, match="sensitivity"):
        gaussian(query, noise=noise, words=words()[0], adjacency=Adjacency.REPLACE_ONE)


def once(total, *, noise_multiplier=2.0, clip_norm=1.5, seed=0, index=0):
    return gaussian_once(
        ClippedSum(total, clip_norm),
        noise_multiplier=noise_multiplier,
        secret=Secret.from_seed(seed),
        purpose="test",
        index=index,
    )


def test_what_is_released_once_has_the_promised_noise_and_the_event_says_so():
    found = once(np.zeros((SIZE // 4, 4)))
    assert found.event == Gaussian(2.0)
    assert found.value.shape == (SIZE // 4, 4)
    standard = found.value.ravel() / 3.0
    # false alarms below 1e-6; the grid takes up to 0.1 % more
    assert abs(standard.mean()) < 5 / SIZE**0.5
    assert abs(standard.std() / 1.0005 - 1) < 5 / (2 * SIZE) ** 0.5 + 5e-4


@pytest.mark.parametrize("change", [{"seed": 1}, {"index": 1}])
def test_no_two_numbers_and_no_two_releases_share_noise(change):
    one, two = once(np.zeros(SIZE)).value, once(np.zeros(SIZE), **change).value
    assert abs(np.corrcoef(one, two)[0, 1]) < 5 / SIZE**0.5
    assert abs(np.corrcoef(one[1:], one[:-1])[0, 1]) < 5 / SIZE**0.5


def test_a_resumed_run_has_the_same_noise():
    total = np.arange(5.0)
    np.testing.assert_array_equal(once(total).value, once(total).value)


def test_sums_far_beyond_the_noise_do_not_saturate():
    total = np.array([1e12, -1e12, 3e5, 0.0])
    np.testing.assert_allclose(once(total).value, total, rtol=0, atol=3.0 * 6)


def test_a_row_is_not_rounded_away_before_the_noise_comes():
    """2^26 + 1 is no float32: a sum that passed through one would not know its last row."""
    found = once(np.full(SIZE, 2.0**26 + 1), noise_multiplier=8.0).value
    deviation = 12 / SIZE**0.5
    assert np.mean(found - 2.0**26) == pytest.approx(1.0, abs=5 * deviation)
    assert 5 * deviation < 0.5


def test_digits_finer_than_the_grid_do_not_come_out():
    grid = grid_for(1.5, noise_multiplier=2.0, num_coordinates=SIZE)
    units = once(np.full(SIZE, 1 / 3)).value / grid.spacing
    np.testing.assert_array_equal(units, np.rint(units))


def test_a_broken_sum_still_comes_out_as_noise():
    found = once(np.array([np.nan, np.inf, -np.inf, 1.0])).value
    assert np.isfinite(found).all()
    assert np.abs(found).max() < 50


def test_without_noise_the_sum_comes_out_and_the_event_confesses():
    total = np.array([1 / 3, 2.0**53])
    found = once(total, noise_multiplier=0.0)
    assert found.event == NonPrivate()
    np.testing.assert_array_equal(found.value, total)


@pytest.mark.parametrize("noise_multiplier", [-1.0, np.nan, np.inf])
def test_noise_that_would_not_protect_is_refused(noise_multiplier):
    with pytest.raises(ValueError, match="noise_multiplier"):
        once(np.zeros(3), noise_multiplier=noise_multiplier)


def test_a_sum_without_a_clip_norm_is_refused():
    with pytest.raises(ValueError, match="clip_norm"):
        once(np.zeros(2), clip_norm=0.0)
