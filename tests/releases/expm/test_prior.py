"""Priors: densities, and draws that have them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from veilflow._core import codec
from veilflow.releases.expm import prior as priors
from veilflow.releases.expm.prior import GaussianPrior, LaplacePrior, Prior

ORACLES = {GaussianPrior: stats.norm, LaplacePrior: stats.laplace}
PRIORS = [GaussianPrior(2.0), LaplacePrior(0.5)]


@pytest.mark.parametrize("prior", PRIORS)
def test_density_quantile_and_both_kinds_of_draws_agree_with_scipy(prior):
    oracle = ORACLES[type(prior)](scale=prior.scale)
    theta = np.array([-1.0, 0.2, 3.0])
    expected = oracle.logpdf(theta).sum()
    assert float(prior.log_prob(jnp.asarray(theta))) == pytest.approx(expected, rel=1e-5)
    shares = np.array([0.01, 0.5, 0.9])
    np.testing.assert_allclose(prior.quantile(shares), oracle.ppf(shares), atol=1e-12)
    # a false alarm once in a million runs; the first kind has a fixed seed
    drawn = np.asarray(prior.sample(jax.random.key(0), 1000, 2))
    assert drawn.shape == (1000, 2)
    assert stats.kstest(drawn.ravel(), oracle.cdf).pvalue > 1e-6
    exact = prior.from_entropy(1000, 2)
    assert exact.shape == (1000, 2)
    assert exact.dtype == np.float32
    assert stats.kstest(exact.ravel(), oracle.cdf).pvalue > 1e-6


def test_draws_from_entropy_are_not_repeated():
    assert (GaussianPrior(1.0).from_entropy(4, 2) != GaussianPrior(1.0).from_entropy(4, 2)).all()


@pytest.mark.parametrize("prior", PRIORS)
def test_json_and_back(prior):
    assert codec.restored(Prior, codec.plain(prior)) == prior


@pytest.mark.parametrize("scale", [0, -1.0, float("inf")])
def test_a_scale_that_makes_no_density_is_refused(scale):
    with pytest.raises(ValueError, match="scale must be positive and finite"):
        GaussianPrior(scale)


def test_no_prior_is_refused_with_the_reason():
    with pytest.raises(TypeError, match=r"none was given\. Without one"):
        priors.check_prior(None)
    with pytest.raises(TypeError, match="got float"):
        priors.check_prior(1.0)
