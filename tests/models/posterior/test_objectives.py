"""A guide without correlations, fitted to a correlated normal by each objective: closed forms."""

import jax.numpy as jnp
import numpy as np
import pytest

from veilflow._core.keys import Secret
from veilflow.flows import FixedLinear
from veilflow.models.posterior import fitting
from veilflow.models.posterior.guides import Guide
from veilflow.releases.rounds.surrogate import Surrogate

RHO = 0.9
UNITS = np.array([1.0, 0.01])
COVARIANCE = np.array([[1.0, RHO], [RHO, 1.0]]) * np.outer(UNITS, UNITS)
PRECISION = np.linalg.inv(COVARIANCE)


def flat(theta):
    return 0.0 * jnp.sum(theta)


def deviations(name):
    """Of a mean-field guide, over the marginal ones."""
    released = Surrogate(np.zeros(2), np.zeros(2), PRECISION, np.zeros((2, 2)), 1.0, 1.0)
    secret = Secret.from_seed(1)
    guide = fitting.placed(Guide(kind="mean-field"), np.zeros(2), COVARIANCE, secret=secret)
    fitted = fitting.fitted_to(
        fitting.target_of(released, flat),
        guide,
        name=name,
        secret=secret,
        around=FixedLinear.from_moments(np.zeros(2), COVARIANCE),
    )
    zero, ones = fitted.draws_and_log_prob(jnp.array([[0.0, 0.0], [1.0, 1.0]]))[0]
    return np.asarray(ones - zero) / UNITS


@pytest.mark.parametrize(
    ("name", "want"),
    [
        ("free-energy", np.sqrt(1 - RHO**2)),  # conditional deviations
        ("wasserstein", (np.sqrt(1 + RHO) + np.sqrt(1 - RHO)) / 2),  # half the trace of the root
        ("forward-kl", 1.0),  # marginal deviations
    ],
)
def test_the_width_of_a_guide_without_correlations(name, want):
    np.testing.assert_allclose(deviations(name), want, rtol=0.06)


def test_sliced_distances_are_those_along_all_directions():
    angles = np.linspace(0, 2 * np.pi, 1_000, endpoint=False)
    want = np.sqrt(1 + RHO * np.sin(2 * angles)).mean()
    np.testing.assert_allclose(deviations("sliced-wasserstein"), want, rtol=0.06)
