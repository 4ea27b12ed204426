"""Every scalar map is increasing, invertible, finite on anything, and the identity at zero."""

from collections.abc import Callable
from functools import lru_cache

import jax
import numpy as np
import pytest
from scipy import special, stats

from tests import quick
from veilflow.flows import AbstractScalarMap, AffineMap, Composed, LogisticMixtureMap, SplineMap

MAPS: dict[str, AbstractScalarMap] = {
    "affine": AffineMap(),
    "spline": SplineMap(),
    "mixture": LogisticMixtureMap(),
    "composed": Composed((SplineMap(num_bins=2, bound=1.0), AffineMap())),
}
every = pytest.mark.parametrize("name", MAPS)
DIRECTIONS = ("forward_and_log_det", "inverse_and_log_det")

SPECIAL = (0.0, -0.0, 1.0, -1.0, 4.0, -4.0, 2.0, 1e-30, 17.0, -90.0, 1e3, 1e6, -1e6)
"""Knots, ends of boxes, and numbers where sigmoids and squares leave float32."""


@lru_cache
def jitted(scalar_map: AbstractScalarMap, direction: str = "inverse_and_log_det") -> Callable:
    return quick.jit(getattr(scalar_map, direction))


@lru_cache
def compiled(name: str, dtype=np.float32) -> Callable:
    """Both directions at many numbers: value, log-det, and the gradients of both.

    In float32 as for users, since some of the numbers are at the ends of their range.
    """

    def at(params, x):
        found = []
        for direction in DIRECTIONS:
            method = getattr(MAPS[name], direction)
            (value, value_grad), (log_det, log_det_grad) = (
                jax.value_and_grad(lambda x, p, k=k, m=method: m(x, p)[k], argnums=(0, 1))(
                    x, params
                )
                for k in (0, 1)
            )
            found.append((value, log_det, value_grad, log_det_grad))
        return found

    mapped = jax.vmap(at, in_axes=(1, 0))
    return jax.jit(mapped) if dtype == np.float32 else quick.jit(mapped)


@lru_cache
def seen(name: str, spread: float, dtype=np.float32) -> tuple:
    """Numbers, and what both directions give there, with random parameters of this spread."""
    random = np.random.default_rng(3)
    x = np.concatenate([SPECIAL, random.normal(size=40), 3 * random.normal(size=47)])
    params = spread * random.normal(size=(MAPS[name].num_params, x.size))
    with jax.enable_x64(dtype == np.float64):
        return (
            x.astype(dtype),
            params.astype(dtype),
            *compiled(name, dtype)(*map(dtype, (params, x))),
        )


@every
def test_parameters_of_zero_give_the_identity(name: str):
    x, _, forward, inverse = seen(name, 0.0)
    for value, log_det, *_ in (forward, inverse):
        np.testing.assert_allclose(value, x, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(log_det, 0, atol=1e-6)


@pytest.mark.few(5)
@every
@pytest.mark.parametrize("spread", [0.0, 0.5, 1.0])
def test_log_dets_are_log_derivatives_at_knots_and_ends_too(name: str, spread: float):
    _, _, forward, inverse = seen(name, spread, np.float64)
    for _, log_det, (slope, _), _ in (forward, inverse):
        np.testing.assert_allclose(log_det, np.log(slope), atol=1e-7)


@every
def test_each_direction_undoes_the_other(name: str):
    with jax.enable_x64(True):
        x, params, (image, log_det, *_), _ = seen(name, 0.7, np.float64)
        back, back_log_det = jitted(MAPS[name])(image, params)
    np.testing.assert_allclose(back, x, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(back_log_det, -log_det, atol=1e-7)


@every
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("spread", [1.0, 1e6])
def test_maps_increase_whatever_the_parameters(name: str, direction: str, spread: float):
    x = np.concatenate([[-1e6], np.linspace(-9, 9, 181), [1e6]])
    params = spread * np.random.default_rng(0).normal(size=(MAPS[name].num_params, 5, 1))
    with jax.enable_x64(True):
        columns = np.broadcast_to(params, (*params.shape[:2], x.size))
        rows = np.broadcast_to(x, (5, x.size))
        values, _ = jitted(MAPS[name], direction)(rows, columns)
    assert np.all(np.diff(values) > -1e-9 * (1 + np.abs(values[:, 1:])))
    assert np.all(values[:, -1] > values[:, 0])


@every
@pytest.mark.parametrize("spread", [0.0, 1.0, 10.0, 1e6])
def test_values_and_gradients_stay_finite_in_float32(name: str, spread: float):
    x, _, *directions = seen(name, spread)
    assert all(leaf.dtype == np.float32 for leaf in jax.tree.leaves(directions))
    for leaf in jax.tree.leaves(directions):
        assert leaf.shape[0] == x.size
        assert np.all(np.isfinite(leaf))


@every
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_one_not_a_number_stays_one_and_harms_no_other(name: str, direction: str):
    params = np.random.default_rng(1).normal(size=(MAPS[name].num_params, 3)).astype("f4")
    method = jax.jit(getattr(MAPS[name], direction))
    values, _ = method(np.array([0.5, np.nan, -1.0], "f4"), params)
    np.testing.assert_array_equal(np.isnan(values), [False, True, False])


@every
def test_float32_gives_what_float64_gives(name: str):
    *_, single = seen(name, 0.5)
    *_, double = seen(name, 0.5, np.float64)
    for a, b in zip(single[:2], double[:2], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


@every
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_maps_act_on_each_element_of_any_array(name: str, direction: str):
    method = jitted(MAPS[name], direction)
    params = np.random.default_rng(2).normal(size=(MAPS[name].num_params, 2, 3)).astype("f4")
    x = np.array([[0.1, -2.0, 0.7], [3.5, 0.0, 5.0]], "f4")
    values, log_dets = method(x, params)
    assert values.shape == log_dets.shape == (2, 3)
    value, log_det = method(x[1, 2], params[:, 1, 2])
    np.testing.assert_allclose([values[1, 2], log_dets[1, 2]], [value, log_det], atol=1e-5)


def spline_of_the_paper(x: float, params: np.ndarray, num_bins: int, bound: float) -> tuple:
    """Equations 4 and 5 of Durkan et al., with knots by our way of setting them."""
    sizes = np.exp(3.0 * np.tanh(params / 3.0))
    parts = [sizes[:num_bins], sizes[num_bins : 2 * num_bins]]
    steps = [2 * bound * (0.01 / num_bins + 0.99 * part / part.sum()) for part in parts]
    xs, ys = ([-bound, *(np.cumsum(step) - bound)] for step in steps)
    slopes = [1.0, *sizes[2 * num_bins :], 1.0]
    if not xs[0] < x < xs[-1]:
        return x, 0.0
    k = int(np.searchsorted(xs, x)) - 1
    s = (ys[k + 1] - ys[k]) / (xs[k + 1] - xs[k])
    xi = (x - xs[k]) / (xs[k + 1] - xs[k])
    below = s + (slopes[k + 1] + slopes[k] - 2 * s) * xi * (1 - xi)
    y = ys[k] + (ys[k + 1] - ys[k]) * (s * xi**2 + slopes[k] * xi * (1 - xi)) / below
    above = slopes[k + 1] * xi**2 + 2 * s * xi * (1 - xi) + slopes[k] * (1 - xi) ** 2
    return y, np.log(s**2 * above / below**2)


@pytest.mark.parametrize(("num_bins", "bound"), [(2, 1.0), (8, 4.0), (20, 3.0)])
def test_the_spline_is_the_one_of_the_paper(num_bins: int, bound: float):
    spline = SplineMap(num_bins=num_bins, bound=bound)
    random = np.random.default_rng(5)
    params = 0.8 * random.normal(size=(spline.num_params, 60))
    x = random.uniform(-1.2 * bound, 1.2 * bound, size=60)
    with jax.enable_x64(True):
        ours = jitted(spline)(x, params)
    theirs = [spline_of_the_paper(*pair, num_bins, bound) for pair in zip(x, params.T, strict=True)]
    np.testing.assert_allclose(np.stack(ours, 1), theirs, atol=1e-10)


def test_the_mixture_is_the_one_of_scipy():
    random = np.random.default_rng(6)
    weights, means, log_scales = 0.5 * random.normal(size=(3, 4))
    x = np.linspace(-6, 6, 25)
    with jax.enable_x64(True):
        params = np.concatenate([weights, means, log_scales])
        columns = np.broadcast_to(params[:, None], (12, 25))
        z, log_det = jitted(LogisticMixtureMap())(x, columns)
    weights = special.softmax(5 * np.tanh(weights / 5))
    scales, means = np.exp(2 * np.tanh(log_scales / 2)), 4 * np.tanh(means / 4)
    mixture = lambda f: (weights * f(x[:, None], means, scales)).sum(1)  # noqa: E731
    below, above = mixture(stats.logistic.cdf), mixture(stats.logistic.sf)
    np.testing.assert_allclose(z, np.log(below / above), atol=1e-9)
    density = mixture(stats.logistic.pdf)
    np.testing.assert_allclose(log_det, np.log(density / (below * above)), atol=1e-9)


def test_the_root_of_a_mixture_is_right_to_a_millionth_in_float32():
    x, params, *_ = seen("mixture", 0.7)
    x, params = x[np.abs(x) < 10], params[:, np.abs(x) < 10]
    z, _ = jitted(MAPS["mixture"])(x, params)
    root = jitted(MAPS["mixture"], "forward_and_log_det")
    with jax.enable_x64(True):
        exact, _ = root(np.float64(z), np.float64(params))
    ours, _ = jax.jit(MAPS["mixture"].forward_and_log_det)(z, params)  # as users have it
    np.testing.assert_allclose(ours, exact, rtol=2e-6, atol=2e-6)


def test_a_spline_moves_nothing_outside_its_box_and_an_affine_map_brings_it_in():
    params = np.random.default_rng(7).normal(size=(25, 1)).astype("f4")
    params[23:, 0] = 6.5, 0.0  # shift and log-scale
    outside = np.array([7.0], "f4")
    spline = SplineMap()
    np.testing.assert_array_equal(jitted(spline)(outside, params[:23])[0], outside)
    ours = jitted(Composed((spline, AffineMap())))(outside, params)
    wanted = jitted(spline)(outside - np.float32(6.5), params[:23])
    np.testing.assert_allclose(ours, wanted, atol=1e-6)
    assert wanted[1] != 0


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: SplineMap(num_bins=1), "num_bins must be at least 2, got 1. One bin"),
        (lambda: SplineMap(bound=0.0), "bound must be positive"),
        (lambda: LogisticMixtureMap(num_components=0), "num_components must be at least 1"),
        (lambda: Composed([]), "at least one map"),
    ],
)
def test_a_wrong_argument_is_named(wrong: Callable, message: str):
    with pytest.raises(ValueError, match=message):
        wrong()
