"""A NumPyro model of one record becomes a likelihood and a prior."""

import jax.numpy as jnp
import numpy as np
import pytest

import veilflow as vf

numpyro = pytest.importorskip("numpyro", reason="needs NumPyro, in the extra [posterior]")
dist = numpyro.distributions
sample = numpyro.sample


def model(record):
    place = sample("place", dist.Normal(jnp.zeros(2), 2.0).to_event(1))
    spread = sample("spread", dist.HalfNormal(1.0))
    sample("value", dist.Normal(place[0] + place[1], spread), obs=record)


def test_prior_and_likelihood_are_those_of_the_model():
    problem = vf.NumpyroModel(model, jnp.zeros(()))
    assert problem.parameters == ("place[0]", "place[1]", "spread")
    theta = jnp.array([0.3, -0.2, -0.5])
    spread = np.exp(-0.5)
    normal = dist.Normal(0.1, spread).log_prob(0.7)
    assert float(problem.log_likelihood(theta, jnp.float32(0.7))) == pytest.approx(float(normal))
    prior = dist.Normal(0.0, 2.0).log_prob(theta[:2]).sum()
    prior = prior + dist.HalfNormal(1.0).log_prob(spread) - 0.5  # and the way from a half line
    assert float(problem.log_prior(theta)) == pytest.approx(float(prior), rel=1e-5)
    values = problem.constrained(np.asarray(theta)[None])
    assert values["place"].shape == (1, 2)
    assert float(values["spread"][0]) == pytest.approx(spread, rel=1e-5)


def test_what_is_no_model_of_one_record_is_refused():
    def in_a_plate(record):
        place = sample("place", dist.Normal(0.0, 1.0))
        with numpyro.plate("records", 3):
            sample("value", dist.Normal(place, 1.0), obs=record)

    def unobserved(record):
        sample("place", dist.Normal(0.0, 1.0))

    def discrete(record):
        kind = sample("kind", dist.Bernoulli(0.5))
        sample("value", dist.Normal(kind, 1.0), obs=record)

    for wrong, example, message in (
        (in_a_plate, jnp.zeros(3), "plate"),
        (unobserved, jnp.zeros(()), "observed"),
        (discrete, jnp.zeros(()), "discrete"),
    ):
        with pytest.raises(ValueError, match=message):
            vf.NumpyroModel(wrong, example)
