"""The correction of mixtures: what EM gets wrong about all components, from mixtures that are known."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

from veilflow.models.mixture_correction import Correction, corrected, learned
from veilflow.releases.em import Mixture

DIM, SIZE, NUM_ROWS = 4, 20, 8000


def key() -> jax.Array:
    return jax.random.key(0)


def truth(seed: int = 0) -> Mixture:
    """Components of one shape, each with a place, a size and a weight of its own."""
    rng = np.random.default_rng(seed)
    shape = np.tril(rng.normal(size=(DIM, DIM)), -1) + np.diag(rng.uniform(0.3, 1.0, DIM))
    sizes = np.exp(0.3 * rng.normal(size=SIZE))
    means = 4 * rng.normal(size=(SIZE, DIM))
    return Mixture(rng.dirichlet(np.full(SIZE, 2.0)), means, sizes[:, None, None] * shape)


def rows_of(mixture: Mixture, seed: int = 1) -> np.ndarray:
    rng = np.random.default_rng(seed)
    which = rng.choice(len(mixture.weights), NUM_ROWS, p=mixture.weights)
    standard = rng.normal(size=(NUM_ROWS, mixture.means.shape[1]))
    rows = mixture.means[which] + np.einsum("nij,nj->ni", mixture.factors[which], standard)
    return rows.astype(np.float32)


def noisy_shapes(mixture: Mixture, seed: int, amount: float = 0.3) -> Mixture:
    """What EM might find: each component has a shape with noise of its own."""
    noise = np.random.default_rng(seed).normal(size=mixture.factors.shape)
    apart = np.eye(DIM) + amount * (noise + np.swapaxes(noise, 1, 2)) / 2
    covariances = mixture.factors @ apart @ apart @ np.swapaxes(mixture.factors, 1, 2)
    return mixture._replace(factors=np.linalg.cholesky(covariances))


def log_likelihood(mixture: Mixture, rows: np.ndarray) -> float:
    logs = [
        np.log(w) + multivariate_normal(m, c).logpdf(rows)
        for w, m, c in zip(mixture.weights, mixture.means, mixture.covariances, strict=True)
    ]
    return float(np.mean(logsumexp(np.stack(logs), axis=0)))


def close(found: Mixture, expected: Mixture, rtol: float) -> None:
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=rtol, atol=rtol * np.abs(other).max())


def test_before_anything_is_learned_a_mixture_hardly_changes():
    close(corrected(Correction.none(), truth()), truth(), rtol=0.03)


def test_a_size_that_is_off_everywhere_is_restored():
    known = truth()
    for factor in (0.8, 1.3):
        found = known._replace(factors=factor * known.factors)
        correction = learned([(found, rows_of(known))], key())
        close(corrected(correction, found), known, rtol=0.08)


def test_components_take_over_what_they_have_in_common():
    """Noise in shapes is averaged over neighbors: other rows of the truth become more likely."""
    known = truth()
    pairs = [(noisy_shapes(known, seed), rows_of(known, seed + 10)) for seed in (1, 2)]
    correction = learned(pairs, key())
    found, rows = noisy_shapes(known, seed=3), rows_of(known, seed=99)
    before, after, best = (
        log_likelihood(m, rows) for m in (found, corrected(correction, found), known)
    )
    assert after - before > 0.5 * (best - before)


def test_components_that_have_nothing_in_common_are_left_alone():
    rng = np.random.default_rng(5)
    factors = np.linalg.qr(rng.normal(size=(SIZE, DIM, DIM)))[0] * [2.0, 1.0, 0.3, 0.1]
    known = truth()._replace(factors=np.linalg.cholesky(factors @ np.swapaxes(factors, 1, 2)))
    correction = learned([(known, rows_of(known))], key())
    lost = log_likelihood(known, rows_of(known, 7)) - log_likelihood(
        corrected(correction, known), rows_of(known, 7)
    )
    assert lost < 0.01


def test_weights_that_differ_too_much_are_evened_out():
    known = truth()
    weights = known.weights**2 / np.sum(known.weights**2)
    found = known._replace(weights=weights)
    better = corrected(learned([(found, rows_of(known))], key()), found)
    off = np.abs(np.log(better.weights / known.weights)).mean()
    assert off < 0.3 * np.abs(np.log(weights / known.weights)).mean()
    assert better.weights.sum() == pytest.approx(1)


def test_the_order_of_components_does_not_matter():
    correction = Correction(
        jnp.array([-0.2, 0.1]), jnp.array([0.1, 0.2, 0.0]), jnp.zeros(3), jnp.ones(())
    )
    order = np.random.default_rng(0).permutation(SIZE)
    swapped = Mixture(*(x[order] for x in truth()))
    expected = Mixture(*(x[order] for x in corrected(correction, truth())))
    close(corrected(correction, swapped), expected, rtol=1e-4)


def test_one_component_keeps_its_shape():
    one = Mixture(*(x[:1] for x in truth()))._replace(weights=np.ones(1))
    close(corrected(learned([(one, rows_of(one))], key()), one), one, rtol=0.05)


def test_a_mixture_that_single_precision_cannot_hold_is_not_changed():
    thin = truth()._replace(factors=truth().factors * np.geomspace(1, 1e-30, DIM)[:, None])
    assert corrected(Correction.none(), thin) is thin
