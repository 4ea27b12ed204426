"""Noise on a grid: the law, the grid, and arithmetic that loses nothing."""

import itertools
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from veilflow._core.keys import Secret
from veilflow._core.threefry import KEY_WORDS
from veilflow.privacy import discrete_gaussian_table as table
from veilflow.privacy.grid_noise import (
    GridNoise,
    closeness,
    grid_for,
    noisy_on_host,
)
from veilflow.privacy.unit import Adjacency

FALSE_ALARM = 1e-9  # of every statistical test here
GRID = grid_for(1.0, noise_multiplier=1.0, num_coordinates=6)


def words(seed: int = 0, index: int = 0) -> np.ndarray:
    return Secret.from_seed(seed).words("noise", index, 1, size=KEY_WORDS)[0]


def on_host(total, grid, *, seed=0, index=0):
    secret = Secret.from_seed(seed)
    return noisy_on_host(total, grid=grid, secret=secret, purpose="test", index=index)


@eqx.filter_jit
def on_device(noise, total, key):
    return noise.added(total, key)


@eqx.filter_jit
def drawn_on_device(noise, key, size):
    return noise.draws(key, size)


def draws(where: str, shape: tuple[int, int], grid) -> np.ndarray:
    """Whole numbers of several releases, in grid units."""
    if where == "host":
        rows = [on_host(np.zeros(shape[1]), grid, index=i) / grid.spacing for i in range(shape[0])]
    else:
        noise = GridNoise.on(grid)
        rows = [noise.draws(jnp.asarray(words(0, i)), shape[1]) for i in range(shape[0])]
    return np.stack([np.asarray(row, float) for row in rows])


@pytest.mark.parametrize("where", ["host", "device"])
def test_noise_is_whole_numbers_of_the_promised_law(where):
    grid = grid_for(1.0, noise_multiplier=1.1, num_coordinates=40_000)
    noise = draws(where, (10, 40_000), grid)
    assert (noise == np.rint(noise)).all()
    standard = noise.ravel() / grid.sigma
    n = standard.size
    assert abs(standard.mean()) < 6.2 / math.sqrt(n)
    assert abs(standard.var() - 1) < 6.2 * math.sqrt(2 / n)
    assert stats.kstest(standard[:100_000], "norm").pvalue > FALSE_ALARM
    # nothing of the widening shows: residues are uniform
    residues, _ = np.histogram(noise.ravel() % grid.widening, 16, (0, grid.widening))
    cells, _ = np.histogram(np.arange(grid.widening), 16, (0, grid.widening))
    assert stats.chisquare(residues, n * cells / grid.widening).pvalue > FALSE_ALARM
    # releases and coordinates are unrelated
    steps = noise / grid.sigma
    assert abs(np.mean(steps[:-1] * steps[1:])) < 6.2 / math.sqrt(n)
    assert abs(np.mean(steps[:, :-1] * steps[:, 1:])) < 6.2 / math.sqrt(n)


def test_arrays_of_one_release_have_noise_of_their_own():
    grid = grid_for(1.0, noise_multiplier=1.0, num_coordinates=20_000)
    one, two = jnp.split(GridNoise.on(grid).draws(jnp.asarray(words()), 20_000), 2)
    correlation = np.corrcoef(np.asarray(one, float), np.asarray(two, float))[0, 1]
    assert abs(correlation) < 6.2 / math.sqrt(10_000)


@pytest.mark.parametrize("release", ["host", "device"])
def test_a_key_repeats_its_noise_and_another_key_does_not(release):
    grid = grid_for(1.0, noise_multiplier=1.0, num_coordinates=100)
    if release == "host":
        first, again, other = (on_host(np.zeros(100), grid, index=i) for i in (0, 0, 1))
    else:
        noise = GridNoise.on(grid)
        first, again, other = (on_device(noise, jnp.zeros(100), words(0, i)) for i in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert (np.asarray(first) != np.asarray(other)).mean() > 0.9


def test_no_neighboring_count_is_excluded_by_what_was_released():
    """A float32 normal has 2^23 values: which counts a released number may come from can be told.

    On a grid every whole number is possible, so every candidate stays one.
    """
    grid = grid_for(2.0**0.5, noise_multiplier=0.7, num_coordinates=64)
    counts = np.random.default_rng(0).integers(0, 1000, 64)
    released = on_host(counts.astype(float), grid)
    for candidate in (-1, 0, 1, 12):
        noise = (released - (counts + candidate)) / grid.spacing
        assert (noise == np.rint(noise)).all(), "the noise that this needs is no whole number"
        reach = (table.REACH - 1) * (1 + grid.widening)
        assert np.abs(noise).max() < reach


def test_the_largest_possible_noise_and_sum_fit_int32():
    assert table.REACH * (1 + 2**11) + 2**30 < 2**31


@given(
    clip=st.floats(1e-6, 1e6),
    multiplier=st.floats(0.05, 50),
    size=st.integers(1, 10**8),
    adjacency=st.sampled_from(Adjacency),
)
def test_grid_noise_is_never_less_and_hardly_more_than_asked(clip, multiplier, size, adjacency):
    grid = grid_for(clip, noise_multiplier=multiplier, num_coordinates=size, adjacency=adjacency)
    doubled = 2 if adjacency is Adjacency.REPLACE_ONE else 1
    rounded = clip * doubled + grid.spacing * math.sqrt(size)
    # the reference of the proof has a variance of 1/12 less
    reference = grid.spacing * math.sqrt(grid.sigma**2 - 1 / 12)
    assert multiplier * rounded <= reference
    assert grid.noise_stddev <= multiplier * rounded * (1 + 1.1 / 1024)
    assert math.frexp(grid.spacing)[0] == 0.5
    assert 2**22 <= grid.sigma <= 2**23 * 1.000001


def test_the_noise_in_units_of_the_sum_is_the_multiplier_times_the_sensitivity_or_little_more():
    for grid in (GRID, grid_for(3.0, noise_multiplier=0.7, num_coordinates=10)):
        promised = grid.noise_multiplier * grid.sensitivity
        assert promised <= grid.noise_stddev <= 1.002 * promised


def test_a_grid_that_cannot_exist_is_refused():
    with pytest.raises(ValueError, match="num_coordinates"):
        grid_for(1.0, noise_multiplier=1e4, num_coordinates=10**9)
    with pytest.raises(ValueError, match="float32"):
        grid_for(1e-40, noise_multiplier=1.0, num_coordinates=1)
    with pytest.raises(ValueError, match="noise_multiplier"):
        grid_for(1.0, noise_multiplier=0.0, num_coordinates=1)


@given(total=hnp.arrays(np.float32, 6, elements=st.floats(width=32)), seed=st.integers(0, 2**31))
def test_a_device_release_is_the_integer_sum_computed_exactly(total, seed):
    noise = GridNoise.on(GRID)
    got = np.asarray(on_device(noise, total, words(seed)))
    added = np.asarray(drawn_on_device(noise, jnp.asarray(words(seed)), 6))
    for value, add, result in zip(total.tolist(), added.tolist(), got.tolist(), strict=True):
        units = 0 if math.isnan(value) else max(-(2**30), min(2**30, value / GRID.spacing))
        assert result == np.float32((round(units) + add) * GRID.spacing)
        assert math.isfinite(result)


@given(rows=hnp.arrays(np.float64, (2, 6), elements=st.floats(-3e3, 3e3)))
def test_rounding_moves_neighbors_apart_by_at_most_what_the_grid_allows(rows):
    neighbor = rows[0] + np.clip(rows[1], -1, 1) / math.sqrt(6)
    moved = np.linalg.norm(on_host(rows[0], GRID) - on_host(neighbor, GRID))
    allowed = np.linalg.norm(rows[0] - neighbor)
    assert moved <= allowed + GRID.spacing * math.sqrt(6)


def test_a_tree_keeps_its_shapes_and_types():
    grid = grid_for(1.0, noise_multiplier=1.0, num_coordinates=6)
    tree = {"a": jnp.zeros((2, 2)), "b": jnp.zeros(2, jnp.float16)}
    got = GridNoise.on(grid).added(tree, jnp.asarray(words()))
    assert jax.tree.map(lambda x: (x.shape, x.dtype), got) == jax.tree.map(
        lambda x: (x.shape, x.dtype), tree
    )


def test_a_sum_of_another_size_than_the_grid_is_refused():
    with pytest.raises(ValueError, match="6 coordinates"):
        GridNoise.on(GRID).added(jnp.zeros(5), jnp.asarray(words()))


@pytest.mark.parametrize("sigma", [6.0, 12.0, 40.0])
def test_the_bound_behind_closeness_holds(sigma):
    """Rounded Gaussian against the discrete one with the variance of rounding on top, cell by cell."""
    from mpmath import erfc, exp, log, mp, mpf, sqrt

    with mp.workdps(120):
        s, wide = mpf(sigma), sqrt(mpf(sigma) ** 2 + mpf(1) / 12)
        ks = range(int(14 * sigma) + 1)
        upper = [erfc((mpf(k) - mpf(1) / 2) / (s * sqrt(2))) / 2 for k in (*ks, ks[-1] + 1)]
        rounded = [a - b for a, b in itertools.pairwise(upper)]
        discrete = [exp(-(mpf(k) ** 2) / (2 * wide**2)) for k in ks]
        total = discrete[0] + 2 * sum(discrete[1:])
        for k, p, q in zip(ks, rounded, discrete, strict=True):
            z = k / s
            # once for the error itself, once for that of the constant, whose mean is below at z = 2
            allowed = (z**4 / 2880 + z**2 / 160 + mpf(1) / 128) / s**4 + mpf(5) / 100 / s**4
            assert abs(log(p * total / q)) < allowed


def test_closeness_is_tiny_and_adds_up():
    assert closeness(4) == 4 * closeness(1)
    assert closeness(10**9) < 1e-12


def test_closeness_covers_what_the_table_and_the_grid_leave_open():
    """The sum at the top of the module: h and excess for one draw, and twice what they come to."""
    smallest = table.SIGMA * 2**10
    ripple = 4 * math.exp(-2 * math.pi**2 * (table.SIGMA / 2**11) ** 2 * (1 - 1e-6))
    rounding = (16**4 / 2880 + 16**2 / 160 + 1 / 128 + 0.05) / smallest**4
    h = 2 * table.SPARED + ripple + rounding
    assert h < 2.0**-75
    assert 2 * table.EXCESS <= 2.0**-78
    assert 2 * (2 * table.EXCESS + 3.1 * h + h) <= closeness(1)
