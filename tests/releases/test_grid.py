"""The private grid: one row in one cell, a density that is one, samples that follow it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats
from scipy.special import logsumexp

from veilflow._core.keys import Secret
from veilflow.flows import Blend
from veilflow.privacy.events import NonPrivate, PureDP
from veilflow.privacy.guarantees import Released, Sensitive
from veilflow.releases import dyadic
from veilflow.releases.grid import Grid, fit_mixture, log_density
from veilflow.releases.release import Tools

BORDER = 3**0.5


def moon_like(size: int = 4000) -> np.ndarray:
    """A bow of rows, some of them on the border."""
    rng = np.random.default_rng(0)
    angle = rng.uniform(0, np.pi, size=size)
    rows = np.stack([1.6 * np.cos(angle), 1.9 * np.sin(angle) - 0.5], axis=1)
    return np.float32(np.clip(rows + 0.1 * rng.normal(size=rows.shape), -BORDER, BORDER))


def asked(rows, *, bits=4, epsilon=1.0) -> tuple[Grid, Released[np.ndarray]]:
    rows = np.float32(rows)
    release = Grid(dim=rows.shape[1], bits=bits, border=BORDER, epsilon=epsilon)
    return release, release.run(Sensitive(rows), Tools(Secret.fresh()))


def made(rows, **settings) -> Released[Blend]:
    release, counts = asked(rows, **settings)
    return counts.map(release.result)


@pytest.fixture(scope="module", params=[1.0, np.inf], ids=["private", "open"])
def density(request) -> Blend:
    return made(moon_like(), bits=5, epsilon=request.param).value


# -- what it costs ---------------------------------------------------------------------------------


def counts_of(rows: np.ndarray, bits: int) -> np.ndarray:
    """What the histogram counts, without its noise."""
    return asked(rows, bits=bits, epsilon=np.inf)[1].value


@given(
    rows=hnp.arrays(np.float32, (6, 2), elements=st.floats(-1.75, 1.75, width=32)),
    more=hnp.arrays(np.float32, 2, elements=st.floats(-(2.0**100), 2.0**100, width=32)),
    bits=st.integers(1, 4),
)
@settings(max_examples=40)
def test_one_row_more_changes_one_count_by_one(rows, more, bits):
    before = counts_of(rows, bits)
    assert before.shape == (4**bits,)
    assert before.sum() == len(rows)
    change = counts_of(np.concatenate([rows, more[None]]), bits) - before
    assert change.sum() == np.abs(change).sum() == 1


def test_the_price_is_pure_and_that_of_no_noise_is_none():
    assert made(moon_like(100), epsilon=0.7).event == PureDP(0.7)
    assert made(moon_like(100), epsilon=np.inf).event == NonPrivate()


def test_every_cell_has_noise_of_the_promised_size():
    """Of no rows: geometric noise, whose variance is 2 r / (1 - r)^2 with r = exp(-epsilon)."""
    epsilon, nothing = 0.5, np.zeros((0, 2))
    noise = np.stack([asked(nothing, bits=5, epsilon=epsilon)[1].value for _ in range(4)])
    ratio = np.exp(-epsilon)
    variance = 2 * ratio / (1 - ratio) ** 2
    # its kurtosis is about 6: the deviation of a sample variance is sqrt(5 / size) of it
    assert abs(noise.var() / variance - 1) < 6 * (5 / noise.size) ** 0.5
    assert abs(noise.mean()) < 5 * (variance / noise.size) ** 0.5
    assert (noise != 0).mean() > 0.5
    assert (noise[0] != noise[1]).any()


def test_the_denoising_is_told_the_variance_of_that_noise(monkeypatch):
    told, denoise = [], dyadic.denoise

    def spy(counts, noise_variance):
        told.append(noise_variance)
        return denoise(counts, noise_variance)

    monkeypatch.setattr(dyadic, "denoise", spy)
    for epsilon in (0.5, np.inf):
        made(moon_like(50), epsilon=epsilon, bits=2)
    ratio = np.exp(-0.5)
    assert told == [pytest.approx(2 * ratio / (1 - ratio) ** 2), 0.0]


# -- the density -----------------------------------------------------------------------------------


def on_a_mesh(density: Blend, reach: float, points: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Centers of a fine mesh over the square, the density there, and the area of a cell."""
    side = (np.arange(points) + 0.5) / points * 2 * reach - reach
    mesh = np.stack(np.meshgrid(side, side, indexing="ij"), axis=-1).reshape(-1, 2)
    found = np.exp(np.asarray(jax.jit(jax.vmap(density.log_prob))(jnp.float32(mesh)), np.float64))
    return mesh, found, (2 * reach / points) ** 2


def test_the_density_integrates_to_one_and_nearly_all_of_it_is_in_the_box(density):
    *_, found, area = on_a_mesh(density, 2 * BORDER, 512)
    assert found.sum() * area == pytest.approx(1, abs=0.01)
    *_, found, area = on_a_mesh(density, BORDER, 256)
    assert 0.93 < found.sum() * area < 1.01


def test_samples_follow_the_density(density):
    size = 40_000
    keys = jax.random.split(jax.random.key(0), size)
    drawn = np.asarray(jax.jit(jax.vmap(density.sample))(keys))
    mesh, found, area = on_a_mesh(density, BORDER, 256)
    expected = np.bincount(dyadic.cell_index((mesh / BORDER + 1) / 2, 3), found * area, 64)
    inside = (np.abs(drawn) <= BORDER).all(axis=1)
    seen = np.bincount(dyadic.cell_index((drawn[inside] / BORDER + 1) / 2, 3), minlength=64) / size
    np.testing.assert_allclose(seen, expected, atol=5 * (0.1 * 0.9 / size) ** 0.5 + 0.002)


def test_the_density_is_high_where_the_rows_are(density):
    log_prob = jax.jit(jax.vmap(density.log_prob))
    there = np.asarray(log_prob(moon_like(2000)[1000:]))
    anywhere = np.asarray(
        log_prob(jnp.float32(np.random.default_rng(1).uniform(-1.7, 1.7, (1000, 2))))
    )
    assert there.mean() > anywhere.mean() + 0.5
    assert np.isfinite(there).all()


def test_rows_on_the_border_are_in_the_histogram_and_get_its_density():
    rows = np.full((500, 1), BORDER)
    density = made(rows, bits=3, epsilon=np.inf).value
    histogram = density.bases[1]
    found = histogram.log_prob(jnp.float32([BORDER]))
    assert np.exp(found) * 2 * BORDER / 8 > 0.9


def test_rows_without_structure_give_an_almost_even_density_despite_the_noise():
    rows = np.random.default_rng(3).uniform(-BORDER, BORDER, size=(4000, 2))
    density = made(rows, bits=5, epsilon=0.5).value
    mass = np.exp(np.asarray(density.bases[1].log_mass, np.float64))
    assert mass.sum() == pytest.approx(1, abs=1e-5)
    # noise of deviation 2.8 on counts of 4: taken as they are, half of the mass would be misplaced
    assert np.abs(mass - 1 / 1024).sum() / 2 < 0.2


@pytest.mark.parametrize("epsilon", [1e-6, 1e-2, 50.0, 1e4, np.inf])
@pytest.mark.parametrize("rows", [np.zeros((0, 1)), np.zeros((1, 1)), np.full((1000, 1), 0.3)])
def test_any_price_and_any_rows_give_a_density(rows, epsilon):
    density = made(rows, bits=3, epsilon=epsilon).value
    assert sum(density.weights) == pytest.approx(1)
    assert min(density.weights) >= 0.05 - 1e-9
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(density))


def test_columns_are_not_mixed_up():
    """A row's cell in the counts is its cell in the density: three columns, all of them different."""
    row = np.float32([-1.5, 0.1, 1.2])
    density = made(np.repeat(row[None], 1000, axis=0), bits=3, epsilon=np.inf).value
    histogram = density.bases[1]
    assert np.exp(histogram.log_prob(row)) * (2 * BORDER / 8) ** 3 > 0.9
    np.testing.assert_allclose(density.bases[0].means[0], row, atol=2 * BORDER / 8)


# -- a mixture fitted to boxes of mass -------------------------------------------------------------


def random_boxes(count: int, dim: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    low = rng.uniform(0, 0.9, size=(count, dim))
    high = low + rng.uniform(0.01, 0.1, size=(count, dim))
    mass = rng.uniform(0.1, 1, size=count)
    return mass / mass.sum(), low, high


def moments_of_boxes(mass, low, high) -> tuple[np.ndarray, np.ndarray]:
    centers = (low + high) / 2
    mean = mass @ centers
    within = np.diag(mass @ ((high - low) ** 2 / 12))
    return mean, (centers * mass[:, None]).T @ centers + within - np.outer(mean, mean)


@pytest.mark.parametrize(("count", "dim"), [(1, 1), (5, 2), (200, 1), (200, 2), (100, 3)])
def test_the_mixture_has_the_moments_of_the_boxes(count, dim):
    boxes = random_boxes(count, dim)
    weights, means, covariances = fit_mixture(*boxes, num_components=8)
    assert weights.sum() == pytest.approx(1)
    assert (weights > 0).all()
    assert len(weights) <= min(8, count)
    mean = weights @ means
    second = covariances + means[:, :, None] * means[:, None, :]
    covariance = np.tensordot(weights, second, 1) - np.outer(mean, mean)
    expected = moments_of_boxes(*boxes)
    np.testing.assert_allclose(mean, expected[0], atol=1e-5)
    np.testing.assert_allclose(covariance, expected[1], atol=1e-5)
    assert (np.linalg.eigvalsh(covariances) > 0).all()


def test_two_clusters_are_found():
    side = np.linspace(0, 1, 65)
    low, high = side[:-1, None], side[1:, None]
    density = stats.norm(0.2, 0.03).pdf((low + high) / 2) + stats.norm(0.8, 0.05).pdf(
        (low + high) / 2
    )
    mass = density[:, 0] / density.sum()
    weights, means, covariances = fit_mixture(mass, low, high, num_components=2)
    order = np.argsort(means[:, 0])
    np.testing.assert_allclose(means[order, 0], [0.2, 0.8], atol=0.01)
    np.testing.assert_allclose(covariances[order, 0, 0] ** 0.5, [0.03, 0.05], atol=0.005)
    np.testing.assert_allclose(weights, 0.5, atol=0.02)


def test_a_spike_and_an_empty_rest_give_a_density():
    low = np.arange(16)[:, None] / 16
    mass = np.full(16, 1e-9)
    mass[3] = 1
    found = fit_mixture(mass / mass.sum(), low, low + 1 / 16, num_components=8)
    assert all(np.isfinite(part).all() for part in found)
    assert (np.linalg.eigvalsh(found[2]) > 0).all()


def test_the_fit_repeats():
    boxes = random_boxes(50, 2)
    one, two = (fit_mixture(*boxes, num_components=5) for _ in range(2))
    for a, b in zip(one, two, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("dim", [1, 3])
def test_the_log_density_is_that_of_scipy(dim):
    rng = np.random.default_rng(2)
    weights, means = np.array([0.2, 0.5, 0.3]), rng.uniform(size=(3, dim))
    factors = 0.2 * rng.normal(size=(3, dim, dim))
    covariances = factors @ factors.transpose(0, 2, 1) + 1e-3 * np.eye(dim)
    x = rng.uniform(size=(40, dim))
    pairs = zip(means, covariances, strict=True)
    parts = [stats.multivariate_normal(m, c).logpdf(x) for m, c in pairs]
    expected = logsumexp(np.stack(parts, axis=1) + np.log(weights), axis=1)
    np.testing.assert_allclose(log_density(x, weights, means, covariances), expected, atol=1e-6)
