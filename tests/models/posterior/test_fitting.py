"""A guide fitted to what was released: by each objective, against closed forms."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests import quick
from veilflow._core.keys import Secret
from veilflow.flows import FixedLinear
from veilflow.models.posterior.fitting import DIVERGENCES, Target, fitted_to
from veilflow.models.posterior.guides import OBJECTIVES, FlatGuide, Guide
from veilflow.releases.rounds.surrogate import Surrogate

RHO = 0.9
UNITS = np.array([1.0, 0.01])
COVARIANCE = np.array([[1.0, RHO], [RHO, 1.0]]) * np.outer(UNITS, UNITS)
PRECISION = np.array([[2.0, 0.6], [0.6, 1.0]])
EXACT = np.linalg.inv(PRECISION)
SECRET = Secret.from_seed(1)


def flat(theta):
    return 0.0 * jnp.sum(theta)


def target(precision):
    released = Surrogate(np.zeros(2), np.zeros(2), precision, np.zeros((2, 2)), 1.0, 1.0)
    return Target.of(released, flat)


def normal(mean, covariance, **settings):
    return FlatGuide.at(Guide(kind="full-rank", **settings), mean, covariance, secret=SECRET)


def test_there_is_a_divergence_for_every_objective():
    assert tuple(DIVERGENCES) == OBJECTIVES


@pytest.mark.parametrize("name", OBJECTIVES)
def test_every_objective_is_least_at_the_target(name):
    draws = np.random.default_rng(0).standard_normal((2, 2000, 2)).astype(np.float32)
    exact = normal(np.zeros(2), EXACT)

    @quick.jit
    def losses(numbers):
        def loss(numbers):
            guide = eqx.tree_at(lambda g: g.numbers, exact, numbers)
            arguments = (target(PRECISION), draws[0], guide.place, draws[1], jax.random.key(3))
            return DIVERGENCES[name](guide, *arguments)

        return jax.lax.map(loss, numbers)

    steps = 0.4 * np.eye(exact.numbers.size, dtype=np.float32)
    least, *others = losses(exact.numbers[None] + jnp.concatenate([0 * steps[:1], steps, -steps]))
    # entries of a triangular factor outside its mask change nothing
    assert min(others) > least - 0.01


def test_a_misplaced_guide_is_brought_to_the_target():
    guide = normal(np.array([0.4, -0.3]), 0.7 * np.eye(2))
    fit = fitted_to(target(PRECISION), guide, secret=SECRET)
    drawn = quick.jit(jax.vmap(fit.flow().sample))
    draws = np.asarray(drawn(jax.random.split(jax.random.key(2), 4000)))
    np.testing.assert_allclose(draws.mean(axis=0), 0.0, atol=0.1)
    np.testing.assert_allclose(np.cov(draws.T), EXACT, atol=0.15)


def test_a_guide_that_is_the_target_already_is_left_alone():
    guide = normal(np.zeros(2), EXACT, objective="renyi")
    assert fitted_to(target(PRECISION), guide, secret=SECRET) is guide


def deviations(objective):
    """Of a mean-field guide fitted to a correlated normal, relative to the marginal ones."""
    settings = Guide(kind="mean-field", objective=objective)
    fitted = fitted_to(
        target(np.linalg.inv(COVARIANCE)),
        FlatGuide.at(settings, np.zeros(2), COVARIANCE, secret=SECRET),
        secret=SECRET,
        around=FixedLinear.from_moments(np.zeros(2), COVARIANCE),
    )
    zero, ones = fitted.draws_and_log_prob(jnp.array([[0.0, 0.0], [1.0, 1.0]]))[0]
    return np.asarray(ones - zero) / UNITS


ANGLES = np.linspace(0, 2 * np.pi, 1_000, endpoint=False)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("objective", "expected"),
    [
        ("free-energy", np.sqrt(1 - RHO**2)),  # conditional deviations
        ("wasserstein", (np.sqrt(1 + RHO) + np.sqrt(1 - RHO)) / 2),  # half the trace of the root
        ("forward-kl", 1.0),  # marginal deviations
        ("sliced-wasserstein", np.sqrt(1 + RHO * np.sin(2 * ANGLES)).mean()),
    ],
)
def test_the_width_of_a_guide_without_correlations(objective, expected):
    np.testing.assert_allclose(deviations(objective), expected, rtol=0.06)
