"""Descent: to the lowest point of a convex bowl, and no step up."""

import numpy as np
import pytest

from veilflow.releases.marginals.descent import minimized


def bowl(seed: int, size: int, condition: float):
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.normal(size=(size, size)))[0]
    curvature = (basis * np.geomspace(1, condition, size)) @ basis.T
    lowest = rng.normal(size=size)

    def function(x):
        off = x - lowest
        return 0.5 * off @ curvature @ off, curvature @ off

    return function, lowest


@pytest.mark.parametrize("condition", [1.0, 100.0, 1e4])
def test_the_lowest_point_of_a_bowl(condition):
    function, lowest = bowl(0, 12, condition)
    found = minimized(function, np.zeros(12), iterations=200, tolerance=1e-14)
    np.testing.assert_allclose(found, lowest, atol=1e-4)


def test_a_function_that_is_not_quadratic_and_steep():
    def function(x):
        return float(np.exp(3 * x).sum() - 5 * x.sum()), 3 * np.exp(3 * x) - 5

    found = minimized(function, np.array([6.0, -4.0]), iterations=300, tolerance=1e-14)
    np.testing.assert_allclose(found, np.log(5 / 3) / 3, atol=1e-4)


def test_no_step_goes_up():
    function, _ = bowl(1, 30, 1e5)
    values = [
        function(minimized(function, np.zeros(30), iterations=n, tolerance=0.0))[0]
        for n in range(12)
    ]
    assert (np.diff(values) <= 0).all()
    assert values[-1] < values[0]


def test_at_the_lowest_point_it_stays():
    function, lowest = bowl(2, 4, 10.0)
    found = minimized(function, lowest, iterations=50, tolerance=0.0)
    np.testing.assert_array_equal(found, lowest)
