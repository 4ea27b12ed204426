"""Gaussian noise on clipped sums, in float32 and on the grid."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from veilflow.privacy.events import Gaussian
from veilflow.privacy.guarantees import ClippedSum
from veilflow.privacy.mechanisms import gaussian, hardened_gaussian
from veilflow.privacy.noise_source import draw, hardened_grid
from veilflow.privacy.unit import Adjacency

ZEROS = {"weight": jnp.zeros((300, 300)), "bias": jnp.zeros(90_000), "again": jnp.zeros(90_000)}


@pytest.mark.parametrize(
    ("adjacency", "sensitivity"), [(Adjacency.ADD_REMOVE, 2.5), (Adjacency.REPLACE_ONE, 5.0)]
)
def test_noise_scales_with_the_sensitivity_of_the_adjacency(adjacency, sensitivity, key):
    query = ClippedSum(ZEROS, clip_norm=2.5)
    released = gaussian(query, noise_multiplier=1.2, adjacency=adjacency, key=key)
    for leaf in jax.tree.leaves(released.value):
        # 90,000 draws: one percent is 4.2 standard errors; the key is fixed
        assert np.std(leaf) == pytest.approx(1.2 * sensitivity, rel=0.01)
        assert abs(np.mean(leaf)) < 0.02 * 1.2 * sensitivity
    assert released.event == Gaussian(1.2)


def test_noise_is_independent_across_tensors_and_steps(key):
    def step(carry, step_key):
        released = gaussian(ClippedSum(ZEROS, clip_norm=1.0), noise_multiplier=1.0, key=step_key)
        return carry, released.value

    _, noise = jax.jit(lambda keys: jax.lax.scan(step, 0, keys))(jax.random.split(key, 2))
    rows = np.concatenate([np.asarray(leaf).reshape(2, -1) for leaf in jax.tree.leaves(noise)])
    correlation = np.corrcoef(rows) - np.eye(len(rows))
    assert rows.shape == (6, 90_000)
    assert np.abs(correlation).max() < 5 / np.sqrt(90_000)


def test_the_sum_itself_is_inside_and_types_are_kept(key):
    total = {"a": jnp.full(3, 1e6), "b": (jnp.ones((), jnp.float16), None)}
    released = gaussian(ClippedSum(total, clip_norm=1.0), noise_multiplier=0.1, key=key)
    np.testing.assert_allclose(released.value["a"], 1e6, atol=2)
    assert released.value["b"][0].dtype == jnp.float16
    assert released.value["b"][1] is None


def test_event_is_static_inside_a_compiled_step(key):
    query = ClippedSum(jnp.zeros(3), clip_norm=1.0)
    released = jax.jit(lambda q, k: gaussian(q, noise_multiplier=0.7, key=k))(query, key)
    assert released.event == Gaussian(0.7)


def test_a_sum_that_broke_its_contract_still_comes_out_finite(key):
    total = jnp.array([jnp.nan, jnp.inf, -jnp.inf, 1e-45, 3e38])
    released = gaussian(ClippedSum(total, clip_norm=1.0), noise_multiplier=1.0, key=key)
    assert np.all(np.isfinite(released.value))


def test_an_empty_tree_is_released_as_such(key):
    assert gaussian(ClippedSum({}, clip_norm=1.0), noise_multiplier=1.0, key=key).value == {}


@pytest.mark.parametrize("noise_multiplier", [0.0, -1.0, float("nan"), float("inf")])
def test_noise_that_would_not_protect_is_refused(noise_multiplier, key):
    with pytest.raises(ValueError, match="noise_multiplier"):
        gaussian(
            ClippedSum(jnp.zeros(2), clip_norm=1.0), noise_multiplier=noise_multiplier, key=key
        )


def test_a_sum_without_a_clip_norm_is_refused(key):
    with pytest.raises(ValueError, match="clip_norm"):
        gaussian(ClippedSum(jnp.zeros(2), clip_norm=0.0), noise_multiplier=1.0, key=key)


def test_hardened_release_works_in_a_compiled_scan_with_noise_as_data():
    grid = hardened_grid(2.0, noise_multiplier=1.5, num_coordinates=40_000)
    total = {"a": jnp.full((100, 300), 5.0), "b": jnp.full(10_000, -5.0)}

    def step(carry, noise):
        released = hardened_gaussian(ClippedSum(total, clip_norm=2.0), grid=grid, noise=noise)
        return carry, released.value

    _, values = jax.jit(lambda noise: jax.lax.scan(step, 0, noise))(draw((3, 40_000), grid=grid))
    for leaf, mean in ((values["a"], 5.0), (values["b"], -5.0)):
        error = np.asarray(leaf).ravel() - mean
        # false-alarm rate below 1e-9: six standard errors
        assert abs(error.mean()) < 6.2 * 3.0 / np.sqrt(error.size)
        assert abs(error.std() / 3.0 - 1) < 6.2 / np.sqrt(2 * error.size) + 1e-3


def test_hardened_release_pays_the_noise_multiplier_of_its_grid():
    grid = hardened_grid(1.0, noise_multiplier=1.5, num_coordinates=2)
    query = ClippedSum(jnp.zeros(2), clip_norm=1.0)
    assert hardened_gaussian(query, grid=grid, noise=draw(2, grid=grid)).event == Gaussian(1.5)


def test_a_grid_for_less_sensitivity_is_refused():
    grid = hardened_grid(1.0, noise_multiplier=1.0, num_coordinates=2)
    query = ClippedSum(jnp.zeros(2), clip_norm=1.0)
    with pytest.raises(ValueError, match="sensitivity"):
        hardened_gaussian(
            query, grid=grid, noise=draw(2, grid=grid), adjacency=Adjacency.REPLACE_ONE
        )
