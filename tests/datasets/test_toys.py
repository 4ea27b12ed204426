import math

import numpy as np
import pytest

from veilflow.datasets import correlated, gaussians, moons, pinwheel

PLANE = {"moons": moons, "gaussians": gaussians, "pinwheel": pinwheel}
N = 200_000


@pytest.mark.parametrize("make", PLANE.values(), ids=PLANE.keys())
def test_standardizing_uses_the_moments_of_the_generator(make):
    # Means and squares of 200,000 points of a bounded-kurtosis set have standard errors below
    # 0.0023 and 0.0045; at 6 of them a correct generator fails with probability below 1e-8.
    points = make(N, seed=0, standardize=True)
    np.testing.assert_allclose(points.mean(axis=0), 0, atol=0.0135)
    np.testing.assert_allclose((points**2).mean(axis=0), 1, atol=0.027)


@pytest.mark.parametrize("make", PLANE.values(), ids=PLANE.keys())
def test_standardizing_does_not_look_at_the_sample(make):
    raw, scaled = make(50, seed=3), make(50, seed=3, standardize=True)
    first, rest = raw[:1], raw[1:]
    slope = (scaled[1:] - scaled[:1]) / (rest - first)
    other = make(5, seed=4), make(5, seed=4, standardize=True)
    expected = (other[1][1:] - other[1][:1]) / (other[0][1:] - other[0][:1])
    np.testing.assert_allclose(slope, np.broadcast_to(expected[0], slope.shape), rtol=1e-6)


@pytest.mark.parametrize("make", [*PLANE.values(), correlated], ids=[*PLANE, "correlated"])
def test_a_seed_gives_the_same_rows_and_another_seed_others(make):
    np.testing.assert_array_equal(make(10, seed=1), make(10, seed=1))
    assert not np.array_equal(make(10, seed=1), make(10, seed=2))
    assert not np.array_equal(make(10), make(10))


@pytest.mark.parametrize("make", [*PLANE.values(), correlated], ids=[*PLANE, "correlated"])
@pytest.mark.parametrize("n", [0, -1, 2.5])
def test_a_number_of_rows_below_one_is_refused_by_name(make, n):
    with pytest.raises((ValueError, TypeError), match="n must be"):
        make(n, seed=0)


def test_moons_without_noise_lie_on_the_two_half_circles_evenly():
    points = moons(1001, noise=0.0, seed=0)
    upper = np.isclose(np.hypot(points[:, 0], points[:, 1]), 1) & (points[:, 1] >= 0)
    lower = np.isclose(np.hypot(points[:, 0] - 1, points[:, 1] - 0.5), 1) & (points[:, 1] <= 0.5)
    assert np.all(upper | lower)
    assert upper.sum() == 501
    assert lower.sum() == 500


def test_the_eight_gaussians_sit_on_a_circle_of_radius_two_around_three_three():
    points = gaussians(8 * 500, std=1e-9, seed=0) - 3
    angles = np.round(np.degrees(np.arctan2(points[:, 1], points[:, 0])) / 45, 6) % 8
    assert np.array_equal(np.bincount(angles.astype(int), minlength=8), [500] * 8)
    np.testing.assert_allclose(np.hypot(*points.T), 2)


def test_the_gaussians_have_a_standard_deviation_of_a_fifth():
    points = gaussians(80_000, seed=0) - 3
    distances = np.hypot(*points.T) - 2
    # Radial spread of a round Gaussian; standard error 0.0005, bias of the curvature 0.001.
    assert abs(distances.std() - 0.2) < 0.005


def test_the_pinwheel_without_bend_has_five_straight_arms_of_the_given_widths():
    points = pinwheel(50_000, rate=0.0, seed=0)
    turned = points @ np.array([[1, 0], [0, -1]])  # y points down in the rotation used
    angle = np.arctan2(turned[:, 1], turned[:, 0])
    arm = np.round(angle / (2 * math.pi / 5)) * (2 * math.pi / 5)
    along = turned[:, 0] * np.cos(arm) + turned[:, 1] * np.sin(arm)
    across = turned[:, 1] * np.cos(arm) - turned[:, 0] * np.sin(arm)
    near = along > 0.4  # close to the origin points of different arms mix
    assert abs(across[near].std() - 0.05) < 0.002
    assert abs(along.std() - 0.3) < 0.01


def test_correlated_features_depend_on_each_other_beyond_a_line():
    rows = correlated(20_000, seed=0)
    assert rows.shape == (20_000, 10)
    assert np.abs(rows[:, 1:]).max() < 4
    for j in range(1, 10):
        x, y = rows[:, j - 1], rows[:, j]
        line = np.polyval(np.polyfit(x, y, 1), x)
        assert np.var(y - np.sin(1.5 * x)) < 0.8 * np.var(y - line)


def test_correlated_takes_any_number_of_features():
    assert correlated(5, 1, seed=0).shape == (5, 1)
    assert correlated(5, 2, seed=0).shape == (5, 2)
