"""Base distributions are those of scipy, and their samples follow them."""

from collections.abc import Callable
from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

from tests import quick
from tests.flows import hostile
from veilflow.flows import (
    AbstractBase,
    Affine,
    Blend,
    Flow,
    GaussianMixture,
    Histogram,
    Logistic,
    ScaledNormal,
    ShapedMixture,
    StandardNormal,
    StudentT,
    Uniform,
    UniformBall,
)
from veilflow.nn.frozen import trainable_part

WEIGHTS = (0.9, 0.1)


@lru_cache
def mixture(dim: int) -> GaussianMixture:
    return GaussianMixture.create(WEIGHTS, *moments(dim))


@lru_cache
def moments(dim: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    factors = rng.normal(size=(2, dim, dim)) / dim
    means = np.stack([np.full(dim, -1.0), np.full(dim, 2.0)])
    return means, factors @ factors.transpose(0, 2, 1) + 0.3 * np.eye(dim)


def logpdf_of_normals(z: np.ndarray, means: np.ndarray, covariances: np.ndarray) -> np.ndarray:
    parts = [
        np.log(w) + stats.multivariate_normal(m, c).logpdf(z)
        for w, m, c in zip(WEIGHTS, means, covariances, strict=True)
    ]
    return logsumexp(parts, axis=0).reshape(len(z))


def mixture_logpdf(z: np.ndarray) -> np.ndarray:
    return logpdf_of_normals(z, *moments(z.shape[1]))


SHIFT, SCALE = 0.5, 0.7


@lru_cache
def shaped(dim: int) -> ShapedMixture:
    """Components whose shape is a normal that is shifted and scaled."""
    moved = Affine(shift=[SHIFT] * dim, scale=[SCALE] * dim)
    return ShapedMixture(mixture(dim), Flow(StandardNormal(dim), moved))


def shaped_parts(dim: int) -> tuple[np.ndarray, np.ndarray]:
    means, covariances = moments(dim)
    factors = np.linalg.cholesky(covariances)
    return means + SHIFT * factors.sum(axis=2), SCALE**2 * covariances


def shaped_logpdf(z: np.ndarray) -> np.ndarray:
    return logpdf_of_normals(z, *shaped_parts(z.shape[1]))


HALF = 3.0
"""Border of the histogram's box."""


@lru_cache
def cell_masses(dim: int) -> np.ndarray:
    mass = np.random.default_rng(4).uniform(0.2, 2.0, size=(4,) * dim)
    return mass / mass.sum()


@lru_cache
def histogram(dim: int) -> Histogram:
    return Histogram.create(cell_masses(dim), border=HALF)


def histogram_logpdf(z: np.ndarray) -> np.ndarray:
    mass, side = cell_masses(z.shape[1]), 2 * HALF / 4
    at = np.clip(np.floor((z + HALF) / side).astype(int), 0, 3)
    inside = (np.abs(z) <= HALF).all(axis=1)
    density = np.where(inside, mass[tuple(at.T)] / side ** z.shape[1], 0.0)
    return np.log(density, out=np.full(len(z), -np.inf), where=density > 0)


@lru_cache
def blend(dim: int) -> Blend:
    return Blend((mixture(dim), histogram(dim)), (0.3, 0.7))


def blend_logpdf(z: np.ndarray) -> np.ndarray:
    return np.logaddexp(np.log(0.3) + mixture_logpdf(z), np.log(0.7) + histogram_logpdf(z))


def ball_logpdf(z: np.ndarray) -> np.ndarray:
    volume = {1: 2.0, 3: 4 / 3 * np.pi}[z.shape[1]] * 2.0 ** z.shape[1]
    return np.where(np.linalg.norm(z, axis=1) <= 2, -np.log(volume), -np.inf)


def independent(distribution) -> Callable[[np.ndarray], np.ndarray]:
    return lambda z: distribution.logpdf(z).sum(axis=1)


BASES: dict[str, tuple[Callable[[int], AbstractBase], Callable[[np.ndarray], np.ndarray]]] = {
    "standard normal": (StandardNormal, independent(stats.norm())),
    "scaled normal": (lambda dim: ScaledNormal(dim, 2.5), independent(stats.norm(scale=2.5))),
    "student t": (lambda dim: StudentT(dim, 5.0), independent(stats.t(5.0))),
    "narrow student t": (lambda dim: StudentT(dim, 5.0, 0.5), independent(stats.t(5.0, scale=0.5))),
    "logistic": (lambda dim: Logistic(dim, 0.5), independent(stats.logistic(scale=0.5))),
    "uniform": (Uniform, independent(stats.uniform(-1, 2))),
    "uniform box": (lambda dim: Uniform(dim, 1.0, 4.0), independent(stats.uniform(1, 3))),
    "uniform ball": (lambda dim: UniformBall(dim, 2.0), ball_logpdf),
    "mixture": (mixture, mixture_logpdf),
    "shaped mixture": (shaped, shaped_logpdf),
    "histogram": (histogram, histogram_logpdf),
    "blend": (blend, blend_logpdf),
}
BOUNDED = ("uniform", "uniform box", "uniform ball", "histogram")
RELEASED = ("mixture", "shaped mixture", "histogram", "blend")
"""Bases that hold arrays."""
every = pytest.mark.parametrize("name", BASES)


@lru_cache
def log_prob(name: str, dim: int) -> Callable:
    return quick.jit(jax.vmap(BASES[name][0](dim).log_prob))


@lru_cache
def samples(name: str, dim: int) -> np.ndarray:
    keys = jax.random.split(jax.random.key(3), 20_000)
    return np.asarray(quick.jit(jax.vmap(BASES[name][0](dim).sample))(keys))


@every
@pytest.mark.parametrize("dim", [1, 3])
def test_the_log_density_is_the_one_of_scipy(name: str, dim: int):
    z = np.random.default_rng(1).uniform(-4, 4, size=(50, dim)).astype(np.float32)
    ours = log_prob(name, dim)(z)
    assert ours.dtype == jnp.float32
    np.testing.assert_allclose(ours, BASES[name][1](np.float64(z)), rtol=1e-5, atol=1e-5)


@every
def test_the_density_integrates_to_one(name: str):
    z = np.concatenate([[-1e4], np.linspace(-60, 60, 120_001), [1e4]])
    density = np.exp(np.float64(log_prob(name, 1)(np.float32(z)[:, None])))
    np.testing.assert_allclose(np.trapezoid(density, z), 1, atol=1e-3)


@every
def test_samples_follow_the_density(name: str):
    axis = np.linspace(-40, 40, 80_001)
    density = np.exp(BASES[name][1](axis[:, None]))
    cdf = np.concatenate([[0], np.cumsum((density[1:] + density[:-1]) / 2 * np.diff(axis))])
    test = stats.kstest(samples(name, 1)[:, 0], lambda z: np.interp(z, axis, cdf))
    assert test.pvalue > 1e-4  # false alarms: one seed in 10,000; the seed is fixed


def moments_of_normals(means: np.ndarray, covariances: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    mean = np.average(means, axis=0, weights=WEIGHTS)
    second = covariances + means[:, :, None] * means[:, None, :]
    return mean, np.average(second, axis=0, weights=WEIGHTS) - np.outer(mean, mean)


def mixture_moments(dim: int) -> tuple[np.ndarray, np.ndarray]:
    return moments_of_normals(*moments(dim))


def histogram_moments(dim: int) -> tuple[np.ndarray, np.ndarray]:
    mass, side = cell_masses(dim), 2 * HALF / 4
    centers = side * (np.stack(np.indices(mass.shape), axis=-1).reshape(-1, dim) + 0.5) - HALF
    mean = mass.ravel() @ centers
    second = (centers * mass.ravel()[:, None]).T @ centers + side**2 / 12 * np.eye(dim)
    return mean, second - np.outer(mean, mean)


def blend_moments(dim: int) -> tuple[np.ndarray, np.ndarray]:
    parts = [mixture_moments(dim), histogram_moments(dim)]
    mean = sum(w * m for w, (m, _) in zip((0.3, 0.7), parts, strict=True))
    second = sum(w * (c + np.outer(m, m)) for w, (m, c) in zip((0.3, 0.7), parts, strict=True))
    return mean, second - np.outer(mean, mean)


MOMENTS = {
    "mixture": mixture_moments,
    "shaped mixture": lambda dim: moments_of_normals(*shaped_parts(dim)),
    "histogram": histogram_moments,
    "blend": blend_moments,
}


@every
def test_samples_have_the_right_mean_and_covariance(name: str):
    dim = 3
    means = {"uniform box": np.full(dim, 2.5)}
    variances = {"scaled normal": 6.25, "student t": 5 / 3, "uniform": 1 / 3, "uniform box": 0.75}
    variances |= {
        "narrow student t": 5 / 12,
        "logistic": np.pi**2 / 12,
        "uniform ball": 4 / (dim + 2),
    }
    mean, covariance = means.get(name, np.zeros(dim)), variances.get(name, 1.0) * np.eye(dim)
    if name in MOMENTS:
        mean, covariance = MOMENTS[name](dim)
    drawn = samples(name, dim)
    spread = np.sqrt(np.diag(covariance))
    np.testing.assert_allclose((drawn.mean(axis=0) - mean) / spread, np.zeros(dim), atol=0.03)
    relative = (np.cov(drawn.T) - covariance) / np.outer(spread, spread)
    np.testing.assert_allclose(relative, np.zeros((dim, dim)), atol=0.06)


def test_components_are_drawn_by_their_weights():
    mixture = GaussianMixture.create(WEIGHTS, [[0.0], [100.0]], [[[1.0]], [[1.0]]])
    drawn = quick.jit(jax.vmap(mixture.sample))(jax.random.split(jax.random.key(0), 20_000))
    # weights taken for logits would give exp(0.1) / (exp(0.9) + exp(0.1)) = 0.31
    np.testing.assert_allclose(np.mean(drawn > 50), WEIGHTS[1], atol=0.01)


def test_a_mixture_keeps_its_digits_far_from_the_origin():
    covariance = np.array([[1e-2, 5e-3], [5e-3, 1e-2]])
    mixture = GaussianMixture.create([1.0], [[100.0, -100.0]], [covariance])
    z = np.float32([100.125, -100.25])
    exact = stats.multivariate_normal([100, -100], covariance).logpdf(np.float64(z))
    np.testing.assert_allclose(jax.jit(lambda z: mixture.log_prob(z))(z), exact, rtol=1e-4)


@every
def test_log_densities_stay_usable_at_hostile_points(name: str):
    base = BASES[name][0](3)
    run = jax.jit(jax.vmap(jax.value_and_grad(base.log_prob)))
    value, gradient = run(jnp.asarray(hostile.points(3)))
    assert np.all(np.isfinite(gradient))
    if name not in BOUNDED:
        assert np.all(np.isfinite(value))


def test_outside_its_box_a_uniform_has_no_density_and_teaches_nothing():
    z = jnp.array([[1.0, -1.0], [1.0, 1.1], [-2.0, 0.0]])  # the corner belongs to the box
    value, gradient = jax.jit(jax.vmap(jax.value_and_grad(Uniform(2).log_prob)))(z)
    np.testing.assert_allclose(value, [-2 * np.log(2), -np.inf, -np.inf], rtol=1e-6)
    np.testing.assert_array_equal(gradient, 0)


@pytest.mark.parametrize(
    "base", [StudentT(1, 3.0), StudentT(1, 5.0, 0.5), Logistic(1), Logistic(1, 0.2)]
)
def test_a_bounded_score_comes_close_to_its_bound_and_not_above(base: StudentT | Logistic):
    points = np.logspace(-3, 6, 400, dtype=np.float32)[:, None]
    gradient = np.abs(jax.jit(jax.vmap(jax.grad(base.log_prob)))(points)).max()
    assert 0.999 * base.score_bound < gradient <= base.score_bound * (1 + 1e-6)


@every
def test_nothing_of_a_base_is_trained(name: str):
    trained, rest = trainable_part(BASES[name][0](2))
    assert jax.tree.leaves(trained) == []
    assert bool(jax.tree.leaves(rest)) == (name in RELEASED)


def test_a_row_clamped_to_the_border_of_a_histogram_has_the_density_of_its_cell():
    base, mass = histogram(2), cell_masses(2)
    corners = jnp.float32([[-HALF, -HALF], [HALF, HALF], [-HALF, HALF]])
    found = jax.jit(jax.vmap(base.log_prob))(corners)
    np.testing.assert_allclose(
        found, np.log([mass[0, 0], mass[3, 3], mass[0, 3]]) - 2 * np.log(1.5), rtol=1e-5
    )
    beyond = jnp.nextafter(jnp.float32(HALF), jnp.float32(9))
    assert base.log_prob(jnp.array([0.0, beyond])) == -np.inf


def test_cells_of_a_histogram_are_drawn_by_their_masses_also_the_first_and_the_last():
    mass = np.array([0.05, 0.9, 0.01, 0.04])
    base = Histogram.create(mass, border=2.0)
    keys = jax.random.split(jax.random.key(1), 40_000)
    drawn = np.asarray(quick.jit(jax.vmap(base.sample))(keys))[:, 0]
    assert np.abs(drawn).max() <= 2
    found = np.bincount(np.floor(drawn + 2).astype(int), minlength=4) / len(drawn)
    np.testing.assert_allclose(found, mass, atol=0.006)  # four deviations of the middle cell


def test_all_cells_of_a_large_histogram_are_drawn():
    """One float32 between 0 and 1 reaches 65,536 of the million cells that share a 128th here."""
    cells, rest = 2**20, 2.0**-7
    mass = np.full(cells, rest / (cells - 1))
    mass[0] = 1 - rest
    base = Histogram.create(mass.reshape(1024, 1024), border=1.0)
    keys = jax.random.split(jax.random.key(1), 400_000)
    drawn = jax.jit(lambda k: jax.lax.map(base.sample, k, batch_size=8192))(keys)
    row, column = np.floor((np.asarray(drawn, np.float64).T + 1) * 512).astype(int)
    at = 1024 * row + column
    at = at[at > 1]  # in float32 a few of the first cell lie on its border to the next
    assert abs(len(at) - rest * len(keys)) < 5 * (rest * len(keys)) ** 0.5
    # about 5 coincidences among a million cells, 74 among 65,536
    assert len(at) - len(np.unique(at)) < 25
    assert abs(np.mean(at >= cells / 2) - 0.5) < 5 * 0.5 / len(at) ** 0.5


EYE = [[[1.0, 0.0], [0.0, 1.0]]]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: StandardNormal(0), "dim must be at least 1"),
        (lambda: ScaledNormal(2, 0.0), "scale must be positive"),
        (lambda: StudentT(2, 0.5), "df must be at least 1"),
        (lambda: StudentT(0, 2.0), "dim must be at least 1"),
        (lambda: StudentT(2, 2.0, 0.0), "scale must be positive"),
        (lambda: Logistic(2, -1.0), "scale must be positive"),
        (lambda: Uniform(2, 1.0, 1.0), "low must be below high"),
        (lambda: UniformBall(2, 0.0), "radius must be positive"),
        (lambda: UniformBall(0), "dim must be at least 1"),
        (lambda: Uniform(2, 0.0, float("inf")), "high must be finite"),
        (lambda: GaussianMixture.create([0.5, 0.4], np.zeros((2, 2)), EYE * 2), "sum to 1"),
        (lambda: GaussianMixture.create([1.0, 0.0], np.zeros((2, 2)), EYE * 2), "be positive"),
        (lambda: GaussianMixture.create([np.nan], [[0, 0]], EYE), "must be positive"),
        (lambda: GaussianMixture.create([1.0], np.zeros((2, 2)), EYE * 2), "1 weights for 2"),
        (lambda: GaussianMixture.create([1.0], [[0.0]], EYE), r"\(K, dim, dim\)"),
        (lambda: GaussianMixture.create([], np.zeros((0, 2)), np.zeros((0, 2, 2))), "components"),
        (lambda: GaussianMixture.create([1.0], [[0, 0]], [[[1, 2], [0, 1]]]), "symmetric"),
        (lambda: GaussianMixture.create([1.0], [[0, 0]], [[[1, 2], [2, 1]]]), "eigenvalue of -1"),
        (lambda: GaussianMixture.create([1.0], [[0, np.inf]], EYE), "must be finite"),
        (lambda: GaussianMixture.create([1.0], [[0.0]], [[[1e-80]]]), "fit float32"),
        (lambda: Histogram.create(np.full(3, 1 / 3), border=1.0), r"2\^bits cells"),
        (lambda: Histogram.create(np.full((2, 4), 1 / 8), border=1.0), r"2\^bits cells"),
        (lambda: Histogram.create(np.array(1.0), border=1.0), r"2\^bits cells"),
        (lambda: Histogram.create(np.array([0.0, 1.0]), border=1.0), "positive and sum to 1"),
        (lambda: Histogram.create(np.array([0.5, 0.6]), border=1.0), "positive and sum to 1"),
        (lambda: Histogram.create(np.array([np.nan, 1.0]), border=1.0), "positive and sum to 1"),
        (lambda: Histogram.create(np.array([0.5, 0.5]), border=0.0), "border must be positive"),
        (lambda: Blend((Uniform(2),), (0.5,)), "sum to 1"),
        (lambda: Blend((Uniform(2), Uniform(2)), (1.0,)), "one weight for each"),
        (lambda: Blend((Uniform(2), Uniform(2)), (1.0, 0.0)), "weight must be positive"),
        (lambda: Blend((Uniform(2), Uniform(2)), (1.5, -0.5)), "weight must be positive"),
        (lambda: Blend((Uniform(2), Uniform(3)), (0.5, 0.5)), "the same dimension"),
        (lambda: Blend((), ()), "one weight for each base"),
    ],
)
def test_a_wrong_argument_is_named(wrong: Callable, message: str):
    with pytest.raises(ValueError, match=message):
        wrong()


def test_the_shape_of_a_mixture_is_trained_on_components_drawn_by_their_responsibilities():
    flow = Flow(StandardNormal(1), Affine(shift=[0.0], scale=[2.0]))
    apart = ShapedMixture(GaussianMixture.create(WEIGHTS, [[0.0], [3.0]], [[[1.0]], [[1.0]]]), flow)
    z = jnp.float32([1.8])
    keys = jax.random.split(jax.random.key(0), 20_000)
    found = np.asarray(jax.vmap(lambda key: apart.private_log_prob_of_one(z, key))(keys))
    near, far = stats.norm.logpdf(
        [1.8 / 2, -1.2 / 2]
    )  # log-determinants that need no row are apart
    np.testing.assert_allclose(np.unique(np.round(found, 4)), np.round([near, far], 4), atol=2e-4)
    joint = np.array(WEIGHTS) * stats.norm.pdf([1.8, -1.2])
    np.testing.assert_allclose(np.mean(found > (near + far) / 2), joint[1] / joint.sum(), atol=0.01)


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e30])
def test_a_hostile_row_breaks_no_draw_of_a_component(value):
    found = shaped(3).private_log_prob_of_one(jnp.full(3, value), jax.random.key(0))
    assert found.shape == ()


def test_a_shape_of_another_size_is_refused():
    with pytest.raises(ValueError, match="the mixture has 2 dimensions and the shape 3"):
        ShapedMixture(mixture(2), shaped(3).shape)
