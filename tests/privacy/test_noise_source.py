"""Hardened noise: the exact law, the grid, and arithmetic that loses nothing."""

import functools
import itertools
import math
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from veilflow.privacy.noise_source import (
    TABLE_SIGMA,
    DiscreteGaussianTable,
    closeness,
    draw,
    hardened_grid,
    release_on_grid,
)
from veilflow.privacy.unit import Adjacency

FALSE_ALARM = 1e-9  # of every statistical test here: operating-system entropy has no seed to fix


@functools.cache
def table(sigma: int) -> DiscreteGaussianTable:
    return DiscreteGaussianTable(sigma)


def boundaries(law: DiscreteGaussianTable) -> list[int]:
    return [int(h) << 64 | int(w) for h, w in zip(law.high, law.low, strict=True)]


@pytest.mark.parametrize("sigma", [4, 37])
def test_table_holds_the_exact_cumulative_probabilities(sigma):
    law = table(sigma)
    support = np.arange(-law.reach, law.reach + 1)
    weights = np.exp(-(support.astype(np.longdouble) ** 2) / (2 * sigma**2))
    exact = np.cumsum(weights) / weights.sum()
    got = np.array([float(Fraction(b, 2**128)) for b in boundaries(law)])
    np.testing.assert_allclose(got, exact[:-1].astype(float), rtol=1e-13, atol=2.0**-128)


def test_table_is_symmetric_and_increasing_at_128_bits():
    bounds = boundaries(table(TABLE_SIGMA))
    assert all(a <= b for a, b in itertools.pairwise(bounds))
    flipped = [2**128 - b for b in reversed(bounds)]
    assert max(abs(a - b) for a, b in zip(bounds, flipped, strict=True)) <= 1


def test_mass_left_out_of_the_table_is_below_2_to_the_minus_128():
    law = table(TABLE_SIGMA)
    assert stats.norm.logsf(law.reach / law.sigma) + math.log(2) < -128 * math.log(2)


@pytest.mark.parametrize("sigma", [4, 64])
def test_draws_follow_the_probability_mass_function(sigma):
    law = table(sigma)
    draws = law.sample(300_000)
    edges = np.arange(-3 * sigma, 3 * sigma + 2)
    inside = np.array([np.sum(draws == k) for k in edges[:-1]])
    counts = np.concatenate([[np.sum(draws < edges[0])], inside, [np.sum(draws >= edges[-1])]])
    support = np.arange(-law.reach, law.reach + 1)
    mass = np.exp(-(support**2) / (2 * sigma**2))
    mass /= mass.sum()
    middle = mass[edges[:-1] + law.reach]
    tail = (1 - middle.sum()) / 2
    expected = draws.size * np.concatenate([[tail], middle, [tail]])
    assert stats.chisquare(counts, expected).pvalue > FALSE_ALARM


def test_every_word_inverts_to_what_a_full_comparison_of_128_bits_says():
    law, rng = table(4), np.random.default_rng(0)
    bounds = boundaries(law)
    # words on, just below and just above the boundaries, low halves likewise: all paths
    near = [(b + shift) % 2**128 for b in bounds for shift in (-1, 0, 1)]
    near += [0, 1, 2**128 - 1, 2**64 - 1, 2**128 - 2**64]
    near += [int(x) << 64 | int(y) for x, y in rng.integers(0, 2**64, (500, 2), dtype=np.uint64)]
    high = np.array([u >> 64 for u in near], dtype=np.uint64)
    low = np.array([u & (2**64 - 1) for u in near], dtype=np.uint64)
    expected = [sum(b <= u for b in bounds) - law.reach for u in near]
    np.testing.assert_array_equal(law.invert(high, low), expected)


def test_ties_without_given_low_words_draw_them_fresh():
    law = table(4)
    boundary = law.reach  # the high half of P(X <= 0) = a little over one half
    answers = law.invert(np.full(4000, law.high[boundary]))
    assert set(np.unique(answers)) == {0, 1}
    share = float(Fraction(int(law.low[boundary]), 2**64))
    assert stats.binomtest(int(np.sum(answers == 0)), 4000, share).pvalue > FALSE_ALARM


def test_wide_draws_have_the_deviation_of_their_grid_and_fit_int32():
    grid = hardened_grid(1.0, noise_multiplier=1.1, num_coordinates=100)
    noise = draw((1000, 400), grid=grid)
    assert noise.dtype == np.int32
    assert noise.shape == (1000, 400)
    standard = noise.ravel() / grid.sigma
    n = standard.size
    assert abs(standard.mean()) < 6.2 / math.sqrt(n)
    assert abs(standard.var() - 1) < 6.2 * math.sqrt(2 / n)
    assert stats.kstest(standard[:100_000], "norm").pvalue > FALSE_ALARM
    # nothing of the widening shows: residues are uniform
    residues, _ = np.histogram(noise.ravel() % grid.widening, 16, (0, grid.widening))
    cells, _ = np.histogram(np.arange(grid.widening), 16, (0, grid.widening))
    assert stats.chisquare(residues, n * cells / grid.widening).pvalue > FALSE_ALARM
    # rows (steps) and columns (coordinates) are unrelated
    steps = noise / grid.sigma
    assert abs(np.mean(steps[:-1] * steps[1:])) < 6.2 / math.sqrt(n)
    assert abs(np.mean(steps[:, :-1] * steps[:, 1:])) < 6.2 / math.sqrt(n)


def test_the_largest_possible_noise_and_sum_fit_int32():
    reach = table(TABLE_SIGMA).reach
    assert reach * (1 + 2**11) + 2**30 < 2**31


@given(
    clip=st.floats(1e-6, 1e6),
    multiplier=st.floats(0.05, 50),
    size=st.integers(1, 10**9),
    adjacency=st.sampled_from(Adjacency),
    float_error=st.sampled_from([0.0, 1e-3]),
)
def test_grid_noise_is_never_less_and_hardly_more_than_asked(
    clip, multiplier, size, adjacency, float_error
):
    grid = hardened_grid(
        clip,
        noise_multiplier=multiplier,
        num_coordinates=size,
        adjacency=adjacency,
        float_error=float_error,
    )
    doubled = 2 if adjacency is Adjacency.REPLACE_ONE else 1
    sensitivity = clip * doubled + 2 * float_error
    rounded = sensitivity + grid.spacing * math.sqrt(size)
    assert multiplier * rounded <= grid.noise_stddev <= multiplier * rounded * (1 + 1.1 / 1024)
    assert math.frexp(grid.spacing)[0] == 0.5
    assert 2**23 <= grid.sigma <= 2**24 * 1.000001


def test_a_grid_that_cannot_exist_is_refused():
    with pytest.raises(ValueError, match="num_coordinates"):
        hardened_grid(1.0, noise_multiplier=1e4, num_coordinates=10**9)
    with pytest.raises(ValueError, match="float32"):
        hardened_grid(1e-40, noise_multiplier=1.0, num_coordinates=1)
    with pytest.raises(ValueError, match="noise_multiplier"):
        hardened_grid(1.0, noise_multiplier=0.0, num_coordinates=1)


GRID = hardened_grid(1.0, noise_multiplier=1.0, num_coordinates=6)
hostile = hnp.arrays(np.float32, 6, elements=st.floats(width=32))


@jax.jit
def on_grid(total, noise):
    return release_on_grid(total, GRID, noise)


@given(total=hostile, seed=st.integers(0, 2**31))
def test_release_is_the_integer_sum_computed_exactly(total, seed):
    noise = np.random.default_rng(seed).integers(-(2**28), 2**28, 6, dtype=np.int32)
    got = np.asarray(on_grid(total, noise))
    for value, add, result in zip(total.tolist(), noise.tolist(), got.tolist(), strict=True):
        units = 0 if math.isnan(value) else max(-(2**30), min(2**30, value / GRID.spacing))
        exact = (round(units) + add) * GRID.spacing
        assert result == np.float32(exact)
        assert math.isfinite(result)


@given(rows=hnp.arrays(np.float32, (2, 6), elements=st.floats(-3e3, 3e3, width=32)))
def test_rounding_moves_neighbors_apart_by_at_most_what_the_grid_allows(rows):
    neighbor = rows[0] + np.clip(rows[1], -1, 1) / np.float32(math.sqrt(6))
    none = np.zeros(6, np.int32)
    # in float64 so that going back to floating point rounds nothing
    with jax.enable_x64(True):
        sums = [
            np.asarray(release_on_grid(jnp.asarray(x.astype(np.float64)), GRID, none))
            for x in (rows[0], neighbor)
        ]
    moved = np.linalg.norm(sums[0] - sums[1])
    allowed = np.linalg.norm(rows[0].astype(float) - neighbor.astype(float))
    assert moved <= allowed + GRID.spacing * math.sqrt(6)


def test_a_tree_takes_its_noise_leaf_by_leaf_and_keeps_its_types():
    grid = hardened_grid(1.0, noise_multiplier=1.0, num_coordinates=6)
    noise = np.arange(6, dtype=np.int32) * 1000
    tree = {"a": jnp.zeros((2, 2)), "b": jnp.zeros(2, jnp.float16)}
    got = release_on_grid(tree, grid, noise)
    np.testing.assert_array_equal(got["a"], noise[:4].reshape(2, 2) * grid.spacing)
    assert got["b"].dtype == jnp.float16


def test_noise_of_the_wrong_size_or_type_is_refused():
    with pytest.raises(ValueError, match="6 coordinates"):
        release_on_grid(jnp.zeros(6), GRID, np.zeros(5, np.int32))
    with pytest.raises(ValueError, match="6 coordinates"):
        release_on_grid(jnp.zeros(5), GRID, np.zeros(5, np.int32))
    with pytest.raises(ValueError, match="int32"):
        release_on_grid(jnp.zeros(6), GRID, np.zeros(6, np.float32))


@pytest.mark.parametrize("sigma", [8.0, 32.0, 128.0])
def test_the_divergence_bound_behind_closeness_holds(sigma):
    k = np.arange(-int(12 * sigma), int(12 * sigma) + 1)
    rounded = stats.norm.cdf((k + 0.5) / sigma) - stats.norm.cdf((k - 0.5) / sigma)
    upper = k > 0  # cancellation-free upper tail
    rounded[upper] = stats.norm.sf((k[upper] - 0.5) / sigma) - stats.norm.sf(
        (k[upper] + 0.5) / sigma
    )
    discrete = np.exp(-(k**2) / (2 * sigma**2))
    discrete /= discrete.sum()
    chi_squared = np.sum((rounded - discrete) ** 2 / discrete)
    assert 0.9 * 2 / (576 * sigma**4) < chi_squared < 5 / (576 * sigma**4)


def test_closeness_grows_like_the_root_of_the_draws_and_is_tiny():
    assert closeness(400) == pytest.approx(2 * closeness(100), rel=1e-6)
    assert closeness(10**10) < 1e-10
    assert closeness(100, grid=GRID) <= closeness(100)
